"""Rewards of completions."""

from __future__ import annotations

from envwright.env.grading import Grade
from envwright.env.instance import Instance

__all__ = ["reward"]


def reward(instance: Instance, grade: Grade, efficiency_weight: float = 0.0) -> float:
    """Return 0 for an invalid plan, and 1 plus `efficiency_weight` times optimum / cost for a valid one.

    There is no partial credit for invalid plans on purpose: a milder penalty for not arriving than for colliding taught a
    policy to stand still within 60 steps (docs/notes/pocket-policy.md).
    """
    if not grade.outcome.valid:
        return 0.0
    efficiency = instance.optimal_cost / grade.cost if grade.cost else 1.0
    return 1.0 + efficiency_weight * efficiency
