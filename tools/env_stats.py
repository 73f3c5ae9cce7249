"""`env_stats`: what the environment gives the policy, per bucket, and which configs led here with which results."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig, Knobs
from envwright.env.hardness import Hardness
from envwright.env.instance import Instance
from envwright.tools.errors import ToolError, ToolErrorCode
from envwright.tools.evidence import Evidence, Rates, StageRecord
from envwright.tools.selection import available
from envwright.tools.trial import DIGITS, hardness_of, try_knobs

__all__ = ["BucketStats", "EnvStats", "EnvStatsArguments", "HistoryEntry", "run"]

SAMPLE = 32
"""Instances per bucket that are made to measure the current config."""


class EnvStatsArguments(FrozenModel):
    """Describe the environment per map size: knobs, achieved ratios, exact hardness, generator acceptance; and the history of configs."""

    stage: StrictInt | None = Field(default=None, ge=0)
    """A past stage, measured on its own instances; null means the current config, measured on freshly generated ones."""


class BucketStats(FrozenModel):
    """One bucket of the environment."""

    bucket: str
    """Name of the bucket: the map size."""
    knobs: Knobs | None
    """What the config asks for; null when the stage's config is not known."""
    share: float | None
    """Share of the stage's instances that are in this bucket; null for the current config, which is sampled evenly."""
    feasible: bool | None
    """Whether the generator can fill the bucket; null when its data_ratio is 0 and nothing was made."""
    reason: str | None = None
    """Why the generator cannot fill it."""
    acceptance: float | None = None
    """Share of drawn boards that the generator accepted; null for past stages."""
    repeated: int | None = None
    """Sampled instances that repeat a board because there are no new ones; null for past stages."""
    samplers: dict[str, int] | None = None
    """Instances by how they were made: drawn and rejected, constructed around a crossing, by walks of a crowd, or listed; null for past stages."""
    measured: Hardness | None
    """Achieved hole and wait ratio and how hard the instances are; null when there are none."""


class HistoryEntry(FrozenModel):
    """One finished stage: its config and the validation rates it reached."""

    stage: int
    """Number of the stage."""
    validation: Rates
    """Rates on the validation split after the stage."""
    knobs: dict[str, Knobs]
    """Bucket -> the knobs that the stage trained on."""
    by_bucket: dict[str, Rates]
    """Bucket -> validation rates after the stage."""


class EnvStats(FrozenModel):
    """Answer of `env_stats`."""

    stage: int | None
    """The stage that was measured; null for the current config."""
    source: Literal["generated", "train", "validation"]
    """Where the instances come from: made for this answer, or the stage's rollouts of that split."""
    num_agents: int
    """Agents per board that the current config trains on."""
    buckets: tuple[BucketStats, ...]
    """One row per bucket, in the config's order."""
    history: tuple[HistoryEntry, ...]
    """Finished stages, the latest last."""


def run(arguments: EnvStatsArguments, evidence: Evidence) -> EnvStats:
    """Measure the current config or a past stage.

    Raises:
        ToolError: `not_found` when the stage has no rollouts of the train or validation split.
    """
    history = tuple(_entry(record) for record in evidence.history)
    agents = evidence.config.num_agents
    if arguments.stage is None:
        buckets = tuple(_generated(bucket, knobs, evidence) for bucket, knobs in evidence.config.buckets())
        return EnvStats(stage=None, source="generated", num_agents=agents, buckets=buckets, history=history)
    source, instances = _instances_of(evidence, arguments.stage)
    config = next((record.config for record in evidence.history if record.stage == arguments.stage), None)
    return EnvStats(stage=arguments.stage, source=source, num_agents=agents, buckets=_past(instances, config), history=history)


def _generated(bucket: str, knobs: Knobs, evidence: Evidence) -> BucketStats:
    if knobs.data_ratio == 0:
        return BucketStats(bucket=bucket, knobs=knobs, share=None, feasible=None, measured=None)
    trial = try_knobs(evidence.config.num_agents, bucket, knobs, SAMPLE, evidence.seed)
    return BucketStats(
        bucket=bucket,
        knobs=knobs,
        share=None,
        feasible=trial.reason is None,
        reason=trial.reason,
        acceptance=trial.acceptance,
        repeated=None if trial.reason else trial.repeated,
        samplers=None if trial.reason else trial.samplers,
        measured=hardness_of(trial.instances),
    )


def _instances_of(evidence: Evidence, stage: int) -> tuple[Literal["train", "validation"], list[Instance]]:
    """Return the distinct instances of a stage: those trained on when their rollouts are there, else those validated on."""
    sources: tuple[tuple[Literal["train", "validation"], Split], ...] = (("train", Split.TRAIN), ("validation", Split.VALIDATION))
    for source, split in sources:
        found: dict[object, Instance] = {}
        for instance in {id(rollout.instance): rollout.instance for rollout in evidence.select(split, stage)}.values():
            found[instance.size, instance.holes, instance.starts, instance.goals] = instance
        if found:
            return source, list(found.values())
    raise ToolError(ToolErrorCode.NOT_FOUND, f"stage {stage} has no rollouts of the train or validation split; {available(evidence)}")


def _past(instances: list[Instance], config: GeneratorConfig | None) -> tuple[BucketStats, ...]:
    by_bucket: dict[str, list[Instance]] = {} if config is None else {bucket: [] for bucket in config.sizes}
    for instance in sorted(instances, key=lambda instance: instance.size):
        by_bucket.setdefault(instance.bucket, []).append(instance)
    return tuple(
        BucketStats(
            bucket=bucket,
            knobs=config.sizes.get(bucket) if config else None,
            share=round(len(members) / len(instances), DIGITS),
            feasible=True if members else None,
            measured=hardness_of(members),
        )
        for bucket, members in by_bucket.items()
    )


def _entry(record: StageRecord) -> HistoryEntry:
    by_bucket = {bucket: _rounded(rates) for bucket, rates in record.by_bucket.items()}
    return HistoryEntry(stage=record.stage, validation=_rounded(record.validation), knobs=dict(record.config.sizes), by_bucket=by_bucket)


def _rounded(rates: Rates) -> Rates:
    return rates.model_copy(update={"valid": round(rates.valid, DIGITS), "optimal": round(rates.optimal, DIGITS)})
