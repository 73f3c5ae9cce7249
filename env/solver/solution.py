"""What the solver answers: never one None for "unsolvable" and "gave up"."""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

NodeT = TypeVar("NodeT", bound=Hashable)


class SolveStatus(StrEnum):
    """How a search for a plan of minimal cost ended."""

    OPTIMAL = "optimal"
    """A plan that is minimal for the objective was found and proved minimal."""

    UNSOLVABLE = "unsolvable"
    """It is proved that no plan exists."""

    BUDGET = "budget"
    """The time or node budget ended first; nothing is known."""


class Objective(StrEnum):
    """What a plan has to make as small as possible; the other figure breaks ties."""

    SUM_OF_COSTS = "sum_of_costs"
    """The agents' costs added up, then the makespan."""

    MAKESPAN = "makespan"
    """The largest of the agents' costs, then the sum of costs."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The answer for one board."""

    status: SolveStatus

    sum_of_costs: int | None
    """Minimal sum of costs, in timesteps; for the objective makespan the smallest among the plans of minimal makespan, None
    when not asked for or undecided. None unless the status is optimal."""

    makespan: int | None
    """Smallest makespan among the plans of minimal sum of costs, None when not asked for or undecided; for the objective
    makespan the minimal one. None unless the status is optimal."""

    wait_required: bool | None
    """Whether every plan that is minimal for the objective, ties aside, holds a wait before an arrival; None when not asked
    for or undecided."""

    plan: tuple[str, ...] | None
    """One action string (letters U, D, L, R, W) per agent, up to its arrival for good; None unless optimal."""

    sum_of_distances: int | None
    """Sum of the agents' shortest distances, each alone on the board; None when some goal is unreachable."""

    undecided: tuple[str, ...] = ()
    """Which of "sum_of_costs", "makespan" and "wait_required" were asked for but ran out of budget."""

    objective: Objective = Objective.SUM_OF_COSTS
    """What the plan is minimal for."""


@dataclass(frozen=True, slots=True)
class GraphSolution(Generic[NodeT]):
    """The answer for agents on a graph; its fields are those of `Solution`, but for the plan."""

    status: SolveStatus
    sum_of_costs: int | None
    makespan: int | None
    wait_required: bool | None

    plan: tuple[tuple[NodeT, ...], ...] | None
    """Per agent the nodes it is on at timesteps 0, 1, 2, ..., up to its arrival for good; None unless optimal."""

    sum_of_distances: int | None
    undecided: tuple[str, ...] = ()
    objective: Objective = Objective.SUM_OF_COSTS
