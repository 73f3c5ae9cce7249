"""The evidence that the tools read: rollouts, the current config, its history, and a policy to try configs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from envwright.env.base import FrozenModel
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.instance import Instance
from envwright.env.patch import Patch
from envwright.env.rollout import Rollout

__all__ = ["Evidence", "PolicyProbe", "Rates", "StageRecord"]


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

    @property
    def latest_stage(self) -> int:
        """The newest stage that has rollouts (0 when there are none)."""
        return max((rollout.stage for rollout in self.rollouts), default=0)

    def select(self, split: Split = Split.VALIDATION, stage: int | None = None) -> list[Rollout]:
        """Return the rollouts of a split and a stage (default: the latest stage)."""
        wanted = self.latest_stage if stage is None else stage
        return [rollout for rollout in self.rollouts if rollout.stage == wanted and rollout.split == split]
