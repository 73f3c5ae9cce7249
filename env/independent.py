"""Independent shortest paths of a board's agents, and the boards on which they are all it takes.

Most random boards let every agent walk some shortest path of its own without meeting another. Then the minimal sum of
costs is the sum of the distances, the makespan is the longest of them and nobody waits: exact labels without a search.
The generator asks here first and calls the solver only for the boards that are left. Sets of cells are integers, laid
out as in `envwright.env.solver.BitBoard`: cell `(row, col)` of a board of side N is bit `row * (N + 1) + col`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

__all__ = ["Mdd", "cell_bits", "conflict_free_paths", "distance_layers", "shortest_mdd"]

Mdd: TypeAlias = list[int]
"""Per timestep the set of cells on shortest paths (a multi-valued decision diagram)."""


@lru_cache(maxsize=128)
def cell_bits(size: int) -> tuple[int, ...]:
    """Return the bit of every cell, by its index `row * size + col`."""
    return tuple(1 << row * (size + 1) + col for row in range(size) for col in range(size))


def shortest_mdd(free: int, width: int, start: int, goal: int) -> Mdd | None:
    """Return the cells on shortest paths from `start` to `goal` at timesteps 0, 1, ...; None when there is no path.

    Args:
        free: the cells that may be entered.
        width: bits per row, N + 1.
        start: a set of one cell.
        goal: a set of one cell.
    """
    balls = [goal]
    cells = goal
    while not cells & start:
        grown = (cells | cells << 1 | cells >> 1 | cells << width | cells >> width) & free
        if grown == cells:
            return None
        balls.append(grown)
        cells = grown
    balls.pop()
    mdd = [start]
    cells = start
    for ball in reversed(balls):
        cells = (cells << 1 | cells >> 1 | cells << width | cells >> width) & ball
        mdd.append(cells)
    return mdd


def distance_layers(free: int, width: int, start: int) -> list[int]:
    """Return the sets of free cells at distance 0, 1, 2, ... of a cell."""
    layers = [start]
    seen = cells = start
    while cells := (cells << 1 | cells >> 1 | cells << width | cells >> width) & free & ~seen:
        layers.append(cells)
        seen |= cells
    return layers


def conflict_free_paths(mdds: Sequence[Mdd], width: int) -> list[list[int]] | None:
    """Choose one shortest path per agent so that none conflict, the shortest agents first.

    Returns:
        Per agent, from the shortest to the longest, its cell (a set of one) at every timestep up to the longest
        distance; None when the choice got stuck, which does not prove that there is none.
    """
    order = sorted(mdds, key=len)
    longest = len(order[-1])
    paths: list[list[int]] = []
    for number, mdd in enumerate(order):
        layers = _open_layers(mdd, paths, width)
        if layers is None:
            return None
        path = _path_through(layers, paths, order[number + 1 :], width)
        path.extend(path[-1:] * (longest - len(path)))
        paths.append(path)
    return paths


def _open_layers(mdd: Mdd, paths: list[list[int]], width: int) -> Mdd | None:
    """Return the part of an MDD that can be reached without a conflict with the paths chosen before."""
    cells = mdd[0]
    layers = [cells]
    for time in range(1, len(mdd)):
        after = (cells << 1 | cells >> 1 | cells << width | cells >> width) & mdd[time]
        for path in paths:
            source, target = path[time - 1], path[time]
            after &= ~target
            if after & source and cells & target:  # entering `source` from `target` alone would be a swap
                around = source << 1 | source >> 1 | source << width | source >> width
                if not around & cells & ~target:
                    after ^= source
        if not after:
            return None
        layers.append(after)
        cells = after
    return layers


def _path_through(layers: Mdd, paths: list[list[int]], later: Sequence[Mdd], width: int) -> list[int]:
    """Walk back from the goal, where there is a choice through cells that no later agent may want at that time."""
    cell = layers[-1]
    path = [cell]
    for time in range(len(layers) - 1, 0, -1):
        before = (cell << 1 | cell >> 1 | cell << width | cell >> width) & layers[time - 1]
        for other in paths:
            if other[time - 1] == cell:
                before &= ~other[time]
        if before & (before - 1):
            for mdd in later:
                quiet = before & ~mdd[time - 1]
                before = quiet or before
        cell = before & -before
        path.append(cell)
    path.reverse()
    return path
