"""Boards and plans as plain text, for prompts and tools; what a person sees is drawn by `envwright.env.pictures`.

`.` is ice, `#` a hole, `A B C ...` are agents, `a b c ...` their goals; an agent that stands on its own goal is `@`
followed by nothing else: the legend below a board always lists every agent, so nothing is lost where two marks share a cell.
"""

from __future__ import annotations

from collections.abc import Sequence

from envwright.env.rules import BoardLike

__all__ = ["draw_board", "draw_plan"]

Cell = tuple[int, int]


def _mark(agent: int, upper: bool) -> str:
    base = ord("A") if upper else ord("a")
    return chr(base + agent) if agent < 26 else "+"


def draw_board(board: BoardLike, positions: Sequence[Cell] | None = None) -> str:
    """Draw a board with its agents at `positions` (default: their starts); agents are drawn over goals."""
    rows = [["#" if (row, col) in board.hole_set else "." for col in range(board.size)] for row in range(board.size)]
    for agent, (row, col) in enumerate(board.goals):
        rows[row][col] = _mark(agent, upper=False)
    for agent, (row, col) in enumerate(board.starts if positions is None else positions):
        if 0 <= row < board.size and 0 <= col < board.size:
            own = (row, col) == tuple(board.goals[agent])
            rows[row][col] = "@" if own and positions is not None else _mark(agent, upper=True)
    header = "  " + "".join(str(col % 10) for col in range(board.size))
    return "\n".join([header, *(f"{index % 10} {''.join(row)}" for index, row in enumerate(rows))])


def draw_plan(board: BoardLike, paths: Sequence[Sequence[Cell | None]], last_step: int | None = None) -> str:
    """Draw the board at every timestep, side by side as far as 100 columns allow, up to `last_step`."""
    horizon = max((len(path) for path in paths), default=0)
    horizon = horizon if last_step is None else min(horizon, last_step)
    frames = []
    positions = list(board.starts)
    for step in range(horizon + 1):
        if step:
            for agent, path in enumerate(paths):
                cell = path[step - 1] if step <= len(path) else None
                positions[agent] = cell if cell is not None else positions[agent]
        frames.append([f"t={step}", *draw_board(board, positions).split("\n")])
    width = max(board.size + 2, 5) + 3
    per_row = max(1, 100 // width)
    blocks = []
    for first in range(0, len(frames), per_row):
        group = frames[first : first + per_row]
        blocks.append("\n".join("".join(line.ljust(width) for line in lines).rstrip() for lines in zip(*group, strict=True)))
    return "\n\n".join(blocks)
