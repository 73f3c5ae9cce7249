"""Rewards of completions: valid or not, and how efficient a valid plan is, with a weight that may follow the valid rate."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from envwright.env.grading import Grade
from envwright.env.instance import Instance
from envwright.training.settings import GrpoSettings

__all__ = ["efficiency_weight", "reward"]


def efficiency_weight(settings: GrpoSettings, valid_rate: float | None) -> float:
    """Return the weight of efficiency in a stage's rewards: the adaptive reward of arXiv 2606.17682, accuracy first.

    Args:
        settings: the schedule, its whole weight, and the valid rates between which an adaptive weight rises in a line.
        valid_rate: sampled valid rate on the validation boards after the stage before; None before the first.
    """
    if settings.efficiency_schedule == "fixed":
        return settings.efficiency_weight
    low, high = settings.efficiency_low, settings.efficiency_high
    share = 0.0 if valid_rate is None else (valid_rate - low) / (high - low)
    return settings.efficiency_weight * min(1.0, max(0.0, share))


def reward(
    instance: Instance, grade: Grade, efficiency_weight: float = 0.0, partial_credit: Mapping[str, float] = MappingProxyType({})
) -> float:
    """Return 1 plus `efficiency_weight` times optimum / cost for a valid plan, and for an invalid one its partial credit, or 0.

    There is no partial credit by default, on purpose: a milder penalty for not arriving than for colliding taught a policy to
    stand still within 60 steps (docs/notes/pocket-policy.md).
    """
    if not grade.outcome.valid:
        return partial_credit.get(grade.outcome.value, 0.0)
    efficiency = instance.optimal_cost / grade.cost if grade.cost else 1.0
    return 1.0 + efficiency_weight * efficiency
