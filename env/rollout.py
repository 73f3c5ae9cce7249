"""Rollouts: one completion of the policy on one instance, and its verdict.

A rollout file is what a trainer hands over. A line that has no verdict is graded on the way in.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.canonical import Split
from envwright.env.errors import UserError, describe_validation
from envwright.env.grading import grade_completion
from envwright.env.instance import Instance, parse_instance
from envwright.env.jsonio import read_json_lines
from envwright.env.rules import Outcome

__all__ = ["Rollout", "graded_rollout", "parse_rollout", "read_rollouts", "regrade_rollouts"]


def _keep_instance(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """An instance was checked when it was made and cannot change; only plain data needs the reading."""
    return value if isinstance(value, Instance) else read(value)


class Rollout(FrozenModel):
    """One line of a rollout file."""

    schema_version: Literal[1] = 1
    """Version of the file format."""
    stage: StrictInt = Field(default=0, ge=0)
    """Stage of the run in which the completion was sampled, from 0."""
    split: Split = Split.VALIDATION
    """Split that the instance belongs to."""
    instance: Annotated[Instance, WrapValidator(_keep_instance)]
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
    rollout = _parsed(raw, where, {})
    return rollout if rollout.outcome is not None else _regraded(rollout, where)


def read_rollouts(path: Path) -> list[Rollout]:
    """Read a rollout file.

    Raises:
        UserError: a line is bad, or the file holds no rollout.
    """
    return [rollout if rollout.outcome is not None else _regraded(rollout, place) for place, rollout in _lines(path)]


def regrade_rollouts(path: Path) -> tuple[list[Rollout], int]:
    """Read a rollout file and grade every completion anew.

    Returns:
        The graded rollouts, and how many had a recorded outcome that disagrees.

    Raises:
        UserError: a line is bad, or the file holds no rollout.
    """
    graded: list[Rollout] = []
    differ = 0
    for place, recorded in _lines(path):
        graded.append(_regraded(recorded, place))
        differ += recorded.outcome not in (None, graded[-1].outcome)
    return graded, differ


def _lines(path: Path) -> Iterator[tuple[str, Rollout]]:
    """Yield `(place, rollout as recorded)` of a file's lines; refuses a file without one."""
    known: dict[str, Instance] = {}
    empty = True
    for place, raw in read_json_lines(path):
        empty = False
        yield place, _parsed(raw, place, known)
    if empty:
        raise UserError(f"{path}: holds no rollout; a line is documented by `envwright schema rollout`")


def _parsed(raw: Any, where: str, known: dict[str, Instance]) -> Rollout:
    """Read one rollout as recorded; `known` holds the instances that were read before, by the text of their data."""
    if not isinstance(raw, dict):
        raise UserError(f"{where}: a rollout must be a JSON object, got {type(raw).__name__}")
    if "instance" not in raw:
        return Rollout.parse(raw, where)
    board = raw["instance"]
    text = repr(board)  # tells 1, 1.0 and true apart, which are equal in Python
    instance = known.get(text)
    if instance is None:
        named = f" {board['id']!r}" if isinstance(board, dict) and isinstance(board.get("id"), str) else ""
        instance = known[text] = parse_instance(board, f"{where}: instance{named}")
    try:
        return Rollout.model_validate({**raw, "instance": instance})
    except ValidationError as error:
        raise UserError(f"{where}: rollout of {instance.id!r}: {describe_validation(error)}") from None


def _regraded(rollout: Rollout, where: str) -> Rollout:
    """Grade a rollout that was read from a file, and refuse a label that the completion proves wrong."""
    graded = graded_rollout(rollout)
    optimum = rollout.instance.optimal_cost
    if graded.cost is not None and graded.cost < optimum:
        raise UserError(
            f"{where}: instance {rollout.instance.id!r}: optimal_cost is {optimum}, but this completion is valid at cost {graded.cost}; "
            "leave the labels out and they are computed"
        )
    return graded
