"""Octile distance: what the last column of a MovingAI scenario holds. It is no cost of this environment, whose moves are four."""

from __future__ import annotations

import math
from heapq import heappop, heappush

from envwright.env.instance import Board, Cell

__all__ = ["octile_distance"]

_STRAIGHT = ((-1, 0), (1, 0), (0, -1), (0, 1))
_DIAGONAL = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def octile_distance(board: Board, start: Cell, goal: Cell) -> float | None:
    """Return the shortest length with diagonal moves of length sqrt(2) that cut no corner of a hole; None when there is no way.

    Dijkstra's algorithm over the board alone, other agents apart. Lengths are kept as numbers of straight and diagonal moves.
    """
    settled: set[Cell] = set()
    heap: list[tuple[float, int, int, Cell]] = [(0.0, 0, 0, start)]
    while heap:
        length, straight, diagonal, cell = heappop(heap)
        if cell == goal:
            return length
        if cell in settled:
            continue
        settled.add(cell)
        for target, slanted in _steps(board, cell):
            if target not in settled:
                counts = (straight, diagonal + 1) if slanted else (straight + 1, diagonal)
                heappush(heap, (counts[0] + counts[1] * math.sqrt(2), *counts, target))
    return None


def _steps(board: Board, cell: Cell) -> list[tuple[Cell, bool]]:
    """Return the cells one octile move away, each with whether the move is diagonal."""
    row, col = cell
    found = [((row + down, col + right), False) for down, right in _STRAIGHT if _is_free(board, (row + down, col + right))]
    for down, right in _DIAGONAL:
        corner = ((row + down, col + right), (row + down, col), (row, col + right))
        if all(_is_free(board, place) for place in corner):
            found.append((corner[0], True))
    return found


def _is_free(board: Board, cell: Cell) -> bool:
    return 0 <= cell[0] < board.size and 0 <= cell[1] < board.size and cell not in board.hole_set
