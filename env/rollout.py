"""Rollouts: one completion of the policy on one instance, and its verdict.

A rollout file is what a trainer hands over. A line that has no verdict is graded on the way in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.canonical import Split
from envwright.env.errors import UserError
from envwright.env.grading import grade_completion
from envwright.env.instance import Instance, parse_instance
from envwright.env.jsonio import read_json_lines
from envwright.env.rules import Outcome

__all__ = ["Rollout", "graded_rollout", "parse_rollout", "read_rollouts"]


class Rollout(FrozenModel):
    """One line of a rollout file."""

    schema_version: Literal[1] = 1
    """Version of the file format."""
    stage: StrictInt = Field(default=0, ge=0)
    """Stage of the run in which the completion was sampled, from 0."""
    split: Split = Split.VALIDATION
    """Split that the instance belongs to."""
    instance: Instance
    """The board."""
    completion: str
    """What the policy wrote, as it wrote it."""
    outcome: Outcome | None = None
    """The verdict; graded from the completion when missing."""
    failure_step: StrictInt | None = Field(default=None, ge=0)
    """Timestep of the first violation, counted from 1."""
    failure_agents: tuple[StrictInt, ...] = ()
    """Agents at fault, counted from 0."""
    cost: StrictInt | None = Field(default=None, ge=0)
    """Sum of costs of a valid plan."""
    reward: float | None = None
    """Reward that the trainer gave."""
    tokens: StrictInt | None = Field(default=None, ge=0)
    """Length of the completion in tokens."""

    @property
    def verdict(self) -> Outcome:
        """The outcome of a graded rollout.

        Raises:
            ValueError: the rollout was never graded.
        """
        if self.outcome is None:
            raise ValueError("this rollout is not graded; use read_rollouts or graded_rollout")
        return self.outcome


def graded_rollout(rollout: Rollout) -> Rollout:
    """Return the rollout with a verdict graded from its completion, whatever verdict it carried."""
    grade = grade_completion(rollout.instance, rollout.completion)
    return rollout.model_copy(
        update={"outcome": grade.outcome, "failure_step": grade.failure_step, "failure_agents": grade.failure_agents, "cost": grade.cost}
    )


def parse_rollout(raw: Any, where: str) -> Rollout:
    """Read one rollout; the instance may lack its labels, and a missing outcome is graded.

    Raises:
        UserError: a rule of `Rollout` or of its instance is broken.
    """
    if not isinstance(raw, dict):
        raise UserError(f"{where}: a rollout must be a JSON object, got {type(raw).__name__}")
    if "instance" in raw:
        raw = {**raw, "instance": parse_instance(raw["instance"], f"{where}: instance")}
    rollout = Rollout.parse(raw, where)
    return rollout if rollout.outcome is not None else graded_rollout(rollout)


def read_rollouts(path: Path) -> list[Rollout]:
    """Read a rollout file.

    Raises:
        UserError: a line is bad, or the file holds no rollout.
    """
    rollouts = [parse_rollout(raw, place) for place, raw in read_json_lines(path)]
    if not rollouts:
        raise UserError(f"{path}: holds no rollout; a line is documented by `envwright schema rollout`")
    return rollouts
