"""Rewards of completions."""

from __future__ import annotations

from envwright.env.grading import Grade

__all__ = ["reward"]


def reward(grade: Grade) -> float:
    """Return 1 for a valid plan and 0 for anything else.

    There is no partial credit on purpose: a milder penalty for not arriving than for colliding taught a policy to stand
    still within 60 steps (docs/notes/pocket-policy.md).
    """
    return 1.0 if grade.outcome.valid else 0.0
