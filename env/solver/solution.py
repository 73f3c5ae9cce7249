"""What the solver answers: never one None for "unsolvable" and "gave up"."""

from dataclasses import dataclass
from enum import StrEnum


class SolveStatus(StrEnum):
    """How a search for the minimal sum of costs ended."""

    OPTIMAL = "optimal"
    """A plan of minimal sum of costs was found and proved minimal."""

    UNSOLVABLE = "unsolvable"
    """It is proved that no plan exists."""

    BUDGET = "budget"
    """The time or node budget ended first; nothing is known."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The answer for one board."""

    status: SolveStatus

    sum_of_costs: int | None
    """Minimal sum of costs, in timesteps; None unless the status is optimal."""

    makespan: int | None
    """Smallest makespan among the plans of minimal sum of costs; None when not asked for or undecided."""

    wait_required: bool | None
    """Whether every plan of minimal sum of costs holds a wait before an arrival; None like `makespan`."""

    plan: tuple[str, ...] | None
    """One action string (letters U, D, L, R, W) per agent, up to its arrival for good; None unless optimal."""

    sum_of_distances: int | None
    """Sum of the agents' shortest distances, each alone on the board; None when some goal is unreachable."""

    undecided: tuple[str, ...] = ()
    """Which of "makespan" and "wait_required" were asked for but ran out of budget."""
