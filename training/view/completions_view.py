"""Completions beside their boards: what a person looks at after a stage (`log_completions`).

Which ones are shown depends on the rollouts alone: sizes take turns, and per size a solved board and one of each failure come
first, the most frequent failure before the others.
"""

from __future__ import annotations

import io
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from envwright.agent.visible import visible
from envwright.env.drawing import draw_board
from envwright.env.rollout import Rollout

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["choose_completions", "completion_lines", "completions_table"]

WIDTH = 80
"""Columns of the table."""
_LARGEST_DRAWN = 20
"""Largest side of a board that leaves room for what the policy wrote."""
_LINES = 8
"""Lines of a completion that are shown, or as many as the board has."""
_VERDICT = 18
"""Columns of the verdict."""


def choose_completions(rollouts: Sequence[Rollout], count: int) -> list[Rollout]:
    """Return `count` graded rollouts, or all where there are fewer, by size and in the order in which they were sampled.

    Args:
        rollouts: graded rollouts.
        count: how many to choose.
    """
    by_size: dict[int, list[int]] = {}
    for place, rollout in enumerate(rollouts):
        by_size.setdefault(rollout.instance.size, []).append(place)
    queues = [_in_turn(rollouts, by_size[size], failure_first=bool(turn % 2)) for turn, size in enumerate(sorted(by_size))]
    order = [place for places in zip_longest(*queues) for place in places if place is not None]
    chosen = sorted(order[:count], key=lambda place: (rollouts[place].instance.size, place))
    return [rollouts[place] for place in chosen]


def _in_turn(rollouts: Sequence[Rollout], places: Sequence[int], *, failure_first: bool) -> list[int]:
    """Order one size's completions: solved, most frequent failure, the other failures, then what is left."""
    failures = Counter(rollouts[place].verdict for place in places if not rollouts[place].verdict.valid)
    solved = [place for place in places if rollouts[place].verdict.valid][:1]
    failed = [next(place for place in places if rollouts[place].verdict is outcome) for outcome, _ in failures.most_common()]
    first = [*failed[:1], *solved] if failure_first else [*solved, *failed[:1]]
    first += failed[1:]
    return first + [place for place in places if place not in first]


def completions_table(rollouts: Sequence[Rollout], *, plain: bool = False) -> Table:
    """Return a table of 80 columns: the board, what the policy wrote, the verdict.

    Args:
        rollouts: graded rollouts.
        plain: frame it in ASCII.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    boards = [_board(rollout) for rollout in rollouts]
    board_width = max((len(line) for board in boards for line in board), default=5)
    written_width = WIDTH - board_width - _VERDICT - 10  # what is left beside three columns' frames and margins
    table = Table(
        box=box.ASCII if plain else box.SQUARE,
        show_lines=True,
        width=WIDTH,
        title="completions on validation boards",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("board", width=board_width, no_wrap=True)
    table.add_column("what the policy wrote", width=written_width, no_wrap=True)
    table.add_column("verdict", width=_VERDICT)
    for rollout, board in zip(rollouts, boards, strict=True):
        written = "\n".join(_cut(rollout.completion, written_width, max(_LINES, len(board))))
        table.add_row(
            Text("\n".join(board)), Text(written), Text("\n".join(_verdict(rollout)), style="green" if rollout.verdict.valid else "red")
        )
    return table


def completion_lines(rollouts: Sequence[Rollout]) -> list[str]:
    """Return the table as lines of plain text.

    Args:
        rollouts: graded rollouts.
    """
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=WIDTH, color_system=None, force_terminal=False, _environ={}).print(completions_table(rollouts, plain=True))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def _board(rollout: Rollout) -> list[str]:
    size = rollout.instance.size
    return draw_board(rollout.instance).split("\n") if size <= _LARGEST_DRAWN else [f"{size}x{size},", "not drawn"]


def _cut(completion: str, width: int, lines: int) -> list[str]:
    """Return a completion as lines that fit; a long one keeps its beginning and says how long it is."""
    wrapped = [
        piece
        for line in visible(completion, lines=True).expandtabs(4).split("\n")
        for piece in textwrap.wrap(line, width, replace_whitespace=False) or [""]
    ]
    if len(wrapped) <= lines:
        return wrapped if completion else ["(nothing)"]
    return [*wrapped[: lines - 1], f"... ({len(completion)} characters in all)"]


def _verdict(rollout: Rollout) -> list[str]:
    """Say how a completion ended, where it broke, and what it cost."""
    lines = [rollout.verdict.value]
    if rollout.failure_step is not None:
        lines.append(f"at step {rollout.failure_step}")
    if rollout.failure_agents:
        lines.append("by " + ", ".join(chr(ord("A") + agent) if agent < 26 else str(agent) for agent in rollout.failure_agents))
    optimum = rollout.instance.optimal_cost
    lines.append(f"optimum {optimum}" if rollout.cost is None else f"cost {rollout.cost} of {optimum}")
    return lines
