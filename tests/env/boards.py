"""Boards for the tests: short to write, and drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st

from envwright.env.instance import Board, Cell, Instance, label_board
from envwright.env.solver import SolveStatus, solve

FEW = settings(deadline=None, derandomize=True, max_examples=40, database=None, suppress_health_check=[HealthCheck.filter_too_much])
"""Property tests are deterministic and small."""


def board_of(picture: str, *agents: str) -> Board:
    """Return the board that a picture shows.

    Args:
        picture: a line per row; `#` is a hole, letters are cells, anything else is free.
        agents: start and goal letter of each agent ("ab").
    """
    rows = picture.split()
    cells = {char: (row, col) for row, line in enumerate(rows) for col, char in enumerate(line) if char.isalpha()}
    holes = tuple((row, col) for row, line in enumerate(rows) for col, char in enumerate(line) if char == "#")
    return Board(size=len(rows), holes=holes, starts=tuple(cells[a[0]] for a in agents), goals=tuple(cells[a[1]] for a in agents))


def instance_of(picture: str, *agents: str) -> Instance:
    return label_board(board_of(picture, *agents), "picture")


def plan_of(board: Board) -> tuple[str, ...]:
    plan = solve(board.size, board.holes, board.starts, board.goals).plan
    assert plan is not None
    return plan


@st.composite
def boards(draw: st.DrawFn, largest: int = 4, most_agents: int = 3) -> Board:
    """Any legal board, solvable or not."""
    size = draw(st.integers(2, largest))
    cells = [(row, col) for row in range(size) for col in range(size)]
    agents = draw(st.integers(1, min(most_agents, size * size - 1)))
    holes = draw(st.lists(st.sampled_from(cells), unique=True, max_size=min(size * size // 3, size * size - agents)))
    free = [cell for cell in cells if cell not in holes]
    chosen = st.lists(st.sampled_from(free), unique=True, min_size=agents, max_size=agents)
    return Board(size=size, holes=tuple(sorted(holes)), starts=tuple(draw(chosen)), goals=tuple(draw(chosen)))


@st.composite
def instances(draw: st.DrawFn, largest: int = 4, most_agents: int = 3) -> Instance:
    """A solvable board with its labels."""
    board = draw(boards(largest, most_agents))
    assume(solve(board.size, board.holes, board.starts, board.goals).status is SolveStatus.OPTIMAL)
    return label_board(board, "drawn")


def mapped(board: Board, place: Callable[[Cell], Cell], agents: Sequence[int]) -> Board:
    """Return the board with its cells moved and its agents in another order."""
    return Board(
        size=board.size,
        holes=tuple(place(cell) for cell in board.holes),
        starts=tuple(place(board.starts[agent]) for agent in agents),
        goals=tuple(place(board.goals[agent]) for agent in agents),
    )
