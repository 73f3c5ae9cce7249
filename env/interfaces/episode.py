"""One episode on one board: joint actions in, positions, masks and at the end the grader's verdict out.

The rules are those of `envwright.env.rules.simulate`, one timestep at a time; the verdict is `envwright.env.grading.judge` over
all the moves made. Both standard interfaces are thin shells around this class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envwright.env.errors import UserError
from envwright.env.grading import Grade, judge
from envwright.env.instance import Instance
from envwright.env.rules import MOVES, Outcome, simulate

__all__ = ["ACTIONS", "Episode", "default_max_steps"]

Cell = tuple[int, int]

ACTIONS: tuple[str, ...] = tuple(MOVES)
"""Action number -> letter, in the order of the rules: 0 up, 1 down, 2 left, 3 right, 4 wait."""


@dataclass(frozen=True, slots=True)
class _Now:
    """The board as it stands: the agents' positions are its starts."""

    size: int
    hole_set: frozenset[Cell]
    starts: tuple[Cell, ...]
    goals: tuple[Cell, ...]


def default_max_steps(instance: Instance) -> int:
    """Return the larger of four board sides and twice the optimal makespan: an optimal plan always fits."""
    return max(4 * instance.size, 2 * instance.optimal_makespan)


class Episode:
    """An episode in progress.

    It ends with the first violation, when all agents are at their goals, or after `max_steps` timesteps.

    Args:
        instance: the board with its exact labels.
        max_steps: timesteps until truncation, at least 1; None means `default_max_steps`.
    """

    def __init__(self, instance: Instance, max_steps: int | None = None) -> None:
        self.instance = instance
        self.max_steps = default_max_steps(instance) if max_steps is None else max_steps
        self.positions: tuple[Cell, ...] = instance.starts
        """Where the agents are; a timestep that breaks a rule is not carried out."""
        self.paths: list[list[Cell]] = [[] for _ in instance.starts]
        """Per agent, the cell it went for at timesteps 1, 2, ..., the violating timestep included."""
        self.grade: Grade | None = None
        """The verdict, once the episode has ended."""

    @property
    def steps(self) -> int:
        """Timesteps made."""
        return len(self.paths[0])

    @property
    def truncated(self) -> bool:
        """True when the episode ended because `max_steps` timesteps were made."""
        return self.grade is not None and self.grade.outcome is Outcome.GOAL_NOT_REACHED

    @property
    def terminated(self) -> bool:
        """True when the episode ended with a violation or with all agents at their goals."""
        return self.grade is not None and not self.truncated

    def step(self, actions: Sequence[int]) -> None:
        """Make one timestep.

        Args:
            actions: one action number per agent, in order.

        Raises:
            UserError: the episode has ended, or an action is not one of 0 to 4.
        """
        if self.grade is not None:
            raise UserError(f"the episode has ended ({self.grade.outcome}); call reset() before the next step")
        targets = [(row + move[0], col + move[1]) for (row, col), move in zip(self.positions, map(_move, actions), strict=True)]
        for path, target in zip(self.paths, targets, strict=True):
            path.append(target)
        board = self.instance
        now = _Now(board.size, board.hole_set, self.positions, board.goals)
        violation = simulate(now, [[target] for target in targets]).violation
        if violation in (None, Outcome.GOAL_NOT_REACHED):
            self.positions = tuple(targets)
        if violation is not Outcome.GOAL_NOT_REACHED or self.steps >= self.max_steps:
            self.grade = judge(board, simulate(board, self.paths))

    def reward(self, efficiency_weight: float = 0.0) -> float:
        """Return what the last timestep earned: 0 unless it completed a valid plan, then 1 plus the weight times optimum / cost."""
        if self.grade is None or not self.grade.outcome.valid:
            return 0.0
        return 1.0 + efficiency_weight * (self.instance.optimal_cost / self.grade.cost if self.grade.cost else 1.0)

    def action_mask(self, agent: int) -> NDArray[np.int8]:
        """Return, shape (5,), 1 for each action that neither leaves the board nor enters a hole; other agents are not looked at."""
        row, col = self.positions[agent]
        size, holes = self.instance.size, self.instance.hole_set
        cells = ((row + dr, col + dc) for dr, dc in MOVES.values())
        return np.array([0 <= r < size and 0 <= c < size and (r, c) not in holes for r, c in cells], dtype=np.int8)

    def verdict(self) -> dict[str, Any]:
        """Return what the info of an ended episode carries, empty before: the grader's fields and the optimum, as plain data."""
        if self.grade is None:
            return {}
        return {
            "outcome": self.grade.outcome.value,
            "failure_step": self.grade.failure_step,
            "failure_agents": self.grade.failure_agents,
            "sum_of_costs": self.grade.cost,
            "makespan": self.grade.makespan,
            "optimal_cost": self.instance.optimal_cost,
        }


def _move(action: int) -> Cell:
    if not 0 <= action < len(ACTIONS):
        raise UserError(f"action {action!r} is not one of 0 to {len(ACTIONS) - 1} ({', '.join(ACTIONS)})")
    return MOVES[ACTIONS[int(action)]]
