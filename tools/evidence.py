"""The evidence that the tools read: rollouts, the current config, its history, and a policy to try configs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from pydantic import Field

from envwright.env.base import FrozenModel
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.instance import Instance
from envwright.env.patch import Patch
from envwright.env.rollout import Rollout

__all__ = ["Evidence", "PolicyProbe", "Rates", "StageRecord"]

ValueT = TypeVar("ValueT")


class Rates(FrozenModel):
    """Valid and optimal rate over a number of completions."""

    n: int = Field(ge=0)
    """Completions."""
    valid: float
    """Share that is valid, 0 to 1."""
    optimal: float
    """Share that is optimal, 0 to 1."""


class StageRecord(FrozenModel):
    """What one finished stage trained on and reached."""

    stage: int = Field(ge=0)
    """Number of the stage, from 0."""
    config: GeneratorConfig
    """The config that the stage trained on."""
    validation: Rates
    """Rates on the validation split after the stage."""
    by_bucket: dict[str, Rates]
    """The same per bucket (map size)."""
    patch: Patch | None = None
    """The patch that was accepted after the stage, None when the config was kept."""


class PolicyProbe(Protocol):
    """A policy at hand: tells how it does on instances that it has not seen."""

    def __call__(self, instances: Sequence[Instance]) -> Sequence[Sequence[bool]]:
        """Return, per instance, whether each sampled completion of its group is valid."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that an engineer may look at. Immutable: tools only read it."""

    config: GeneratorConfig
    """The current config: what a patch would change."""
    rollouts: tuple[Rollout, ...]
    """Graded rollouts of the stages so far, any split."""
    history: tuple[StageRecord, ...] = ()
    """Finished stages, the latest last."""
    seed: int = 0
    """Seed of everything that tools sample or generate."""
    probe: PolicyProbe | None = None
    """The policy in training, when there is one."""
    _remembered: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def latest_stage(self) -> int:
        """The newest stage that has rollouts (0 when there are none)."""
        return max((stage for _, stage in self.groups), default=0)

    @property
    def groups(self) -> Mapping[tuple[Split, int], Sequence[Rollout]]:
        """The rollouts by split and stage, each in the order of the log; only pairs that have any."""
        return self.remember(_grouped)

    def select(self, split: Split = Split.VALIDATION, stage: int | None = None) -> list[Rollout]:
        """Return the rollouts of a split and a stage (default: the latest stage)."""
        return list(self.groups.get((split, self.latest_stage if stage is None else stage), ()))

    def remember(self, make: Callable[[Evidence], ValueT]) -> ValueT:
        """Return what a function makes of this evidence; it is made once, as a log may hold 100,000 rollouts."""
        if make not in self._remembered:
            self._remembered[make] = make(self)
        return cast("ValueT", self._remembered[make])


def _grouped(evidence: Evidence) -> dict[tuple[Split, int], list[Rollout]]:
    """Group in one pass; logs come in long runs of one split and stage, so only a change of them looks its group up."""
    groups: dict[tuple[Split, int], list[Rollout]] = {}
    split, stage = None, -1
    members: list[Rollout] = []
    for rollout in evidence.rollouts:
        if rollout.split is not split or rollout.stage != stage:
            split, stage = rollout.split, rollout.stage
            members = groups.setdefault((split, stage), [])
        members.append(rollout)
    return groups
