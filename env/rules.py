"""The rules of MAPF-FrozenLake, and the simulator that every other part agrees with.

All agents act at once at timesteps 1, 2, ...; `U D L R` move one cell and `W` waits. Agents stay on the board after
arriving. Following (A enters the cell that B leaves in the same step) and rotations of three or more are legal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from operator import eq
from typing import Any, Protocol

__all__ = ["MOVES", "MOVE_NAMES", "BoardLike", "Outcome", "Simulation", "paths_from_moves", "simulate"]

Cell = tuple[int, int]

MOVES: dict[str, Cell] = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}
"""Action letter -> change of `(row, col)`."""

MOVE_NAMES: dict[str, str] = {"U": "up", "D": "down", "L": "left", "R": "right", "W": "wait"}
"""Action letter -> word, as prompts and answers may spell it."""


class Outcome(StrEnum):
    """What became of a completion: exactly one of these. Violations are in the order that decides within a timestep."""

    PARSE_ERROR = "parse_error"
    """No plan could be read from the completion."""
    TRUNCATED = "truncated"
    """Cut at the token limit before the answer was whole."""
    ILLEGAL_MOVE = "illegal_move"
    """An unknown action, or a jump where the notation names cells."""
    OUT_OF_BOUNDS = "out_of_bounds"
    """An agent left the board."""
    HOLE = "hole"
    """An agent entered a hole."""
    VERTEX_CONFLICT = "vertex_conflict"
    """Two agents in one cell, a waiting or parked one included."""
    SWAP_CONFLICT = "swap_conflict"
    """Two agents exchanged cells."""
    GOAL_NOT_REACHED = "goal_not_reached"
    """No violation, but some agent does not end at its goal."""
    SUBOPTIMAL = "suboptimal"
    """Valid, with a sum of costs above the optimum."""
    OPTIMAL = "optimal"
    """Valid, with the minimal sum of costs."""

    @property
    def valid(self) -> bool:
        """True for a plan that breaks no rule and reaches every goal."""
        return self in (Outcome.SUBOPTIMAL, Outcome.OPTIMAL)


class BoardLike(Protocol):
    """What the simulator needs to know of a board."""

    @property
    def size(self) -> int:
        """Side length."""

    @property
    def hole_set(self) -> frozenset[Cell]:
        """Cells that no agent may enter."""

    @property
    def starts(self) -> Sequence[Cell]:
        """Start of each agent."""

    @property
    def goals(self) -> Sequence[Cell]:
        """Goal of each agent."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What happened when a plan was carried out."""

    violation: Outcome | None
    """The first violation in time, or `goal_not_reached`, or None for a valid plan."""
    step: int | None
    """Timestep of the violation, counted from 1; for `goal_not_reached` the last timestep of the plan."""
    agents: tuple[int, ...]
    """The agents at fault: all that broke a one-agent rule at that step, all in the shared cell, the pair that swapped."""
    costs: tuple[int, ...] | None
    """Per agent, the timesteps until it is at its goal for good; None unless the plan is valid."""

    @property
    def sum_of_costs(self) -> int | None:
        """Sum of the agents' costs, in timesteps."""
        return None if self.costs is None else sum(self.costs)

    @property
    def makespan(self) -> int | None:
        """Largest of the agents' costs, in timesteps."""
        return None if self.costs is None else max(self.costs)


def paths_from_moves(starts: Sequence[Cell], plan: Sequence[Sequence[str]]) -> list[list[Cell | None]]:
    """Turn each agent's actions into the cells it occupies at timesteps 1, 2, ...; an unknown action becomes None."""
    paths: list[list[Cell | None]] = []
    for (row, col), actions in zip(starts, plan, strict=True):
        path: list[Cell | None] = []
        for action in actions:
            move = MOVES.get(action)
            if move is None:
                path.append(None)
                break
            row, col = row + move[0], col + move[1]
            path.append((row, col))
        paths.append(path)
    return paths


@lru_cache(maxsize=16)
def _moves(size: int) -> frozenset[tuple[Cell, Cell]]:
    """Every (before, after) that one action makes on an empty board."""
    cells = [(row, col) for row in range(size) for col in range(size)]
    pairs = ((cell, (cell[0] + row, cell[1] + col)) for cell in cells for row, col in MOVES.values())
    return frozenset((before, after) for before, after in pairs if 0 <= after[0] < size and 0 <= after[1] < size)


def simulate(board: BoardLike, paths: Sequence[Sequence[Cell | None]]) -> Simulation:
    """Carry out a plan.

    A plan without a violation is recognised as a whole, by a few operations on sets and sequences; only one that has a
    violation is looked at timestep by timestep.

    Args:
        board: the board with its starts and goals.
        paths: one sequence per agent; entry t - 1 is its cell at timestep t, None for an unknown action. An agent whose
            sequence has ended stays where it is.
    """
    starts, goals = board.starts, board.goals
    horizon = max(map(len, paths), default=0)
    walks: list[list[Any]] = [[start, *path] for start, path in zip(starts, paths, strict=True)]
    for walk in walks:
        walk += walk[-1:] * (horizon + 1 - len(walk))
    if not _is_clean(board, walks):
        for step in range(1, horizon + 1):
            found = _violation(board, [walk[step - 1] for walk in walks], [walk[step] for walk in walks])
            if found is not None:
                return Simulation(found[0], step, found[1], None)
    away = [agent for agent, walk in enumerate(walks) if walk[-1] != goals[agent]]
    if away:
        return Simulation(Outcome.GOAL_NOT_REACHED, horizon, tuple(away), None)
    return Simulation(None, None, (), tuple([_arrival(walk) for walk in walks]))


def _is_clean(board: BoardLike, walks: Sequence[list[Any]]) -> bool:
    """True when no timestep has a violation: every agent keeps to the ice, and no pair meets or exchanges cells.

    Args:
        board: the board.
        walks: per agent its cells at timesteps 0, 1, ..., all of one length.
    """
    moves, holes = _moves(board.size), board.hole_set
    earlier: list[tuple[list[Cell], list[tuple[Cell, Cell]]]] = []
    for walk in walks:
        after = walk[1:]
        step = list(zip(walk, after, strict=False))
        if not (holes.isdisjoint(after) and moves.issuperset(step)):
            return False
        for other_after, other_back in earlier:
            if any(map(eq, after, other_after)) or any(map(eq, step, other_back)):
                return False
        earlier.append((after, list(zip(after, walk, strict=False))))
    return True


def _arrival(walk: Sequence[Any]) -> int:
    """Return the timestep from which on an agent that ends at its goal is there for good."""
    step = len(walk) - 1
    while step and walk[step - 1] == walk[-1]:
        step -= 1
    return step


def _violation(board: BoardLike, current: Sequence[Cell], following: Sequence[Cell | None]) -> tuple[Outcome, tuple[int, ...]] | None:
    """Return the first violation of one timestep, in the documented order, with the agents at fault."""
    size, holes = board.size, board.hole_set
    illegal: list[int] = []
    outside: list[int] = []
    fallen: list[int] = []
    for agent, (before, after) in enumerate(zip(current, following, strict=True)):
        if after is None or abs(before[0] - after[0]) + abs(before[1] - after[1]) > 1:
            illegal.append(agent)
        elif not (0 <= after[0] < size and 0 <= after[1] < size):
            outside.append(agent)
        elif after in holes:
            fallen.append(agent)
    for outcome, agents in ((Outcome.ILLEGAL_MOVE, illegal), (Outcome.OUT_OF_BOUNDS, outside), (Outcome.HOLE, fallen)):
        if agents:
            return outcome, tuple(agents)
    if len(set(following)) < len(following):
        for agent, cell in enumerate(following):
            if following.count(cell) > 1:
                return Outcome.VERTEX_CONFLICT, tuple(other for other in range(agent, len(following)) if following[other] == cell)
    for a in range(len(current)):
        for b in range(a + 1, len(current)):
            if following[a] == current[b] and following[b] == current[a]:
                return Outcome.SWAP_CONFLICT, (a, b)
    return None
