"""Runs a policy on fixed instances and grades what it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from envwright.env.canonical import Split
from envwright.env.grading import grade_completion
from envwright.env.instance import Instance
from envwright.env.rollout import Rollout
from envwright.training.policies.policy import Policy, Sample, sample_boards
from envwright.training.rewards import reward

__all__ = ["evaluate", "group_validity", "rollout_of"]


def rollout_of(
    instance: Instance,
    sample: Sample,
    stage: int,
    split: Split,
    efficiency_weight: float = 0.0,
    partial_credit: Mapping[str, float] = MappingProxyType({}),
) -> Rollout:
    """Grade one completion and return its rollout record."""
    grade = grade_completion(instance, sample.text)
    return Rollout.model_construct(
        schema_version=1,
        stage=stage,
        split=split,
        instance=instance,
        completion=sample.text,
        outcome=grade.outcome,
        failure_step=grade.failure_step,
        failure_agents=grade.failure_agents,
        cost=grade.cost,
        reward=reward(instance, grade, efficiency_weight, partial_credit),
        tokens=sample.tokens,
    )


def evaluate(policy: Policy, instances: Sequence[Instance], *, stage: int, split: Split, samples: int, seed: int | None) -> list[Rollout]:
    """Return graded rollouts: `samples` per instance, or one greedy one each when `seed` is None."""
    groups = sample_boards(policy, instances, 1 if seed is None else samples, seed=seed)
    return [rollout_of(instance, sample, stage, split) for instance, group in zip(instances, groups, strict=True) for sample in group]


def group_validity(policy: Policy, instances: Sequence[Instance], num_generations: int, seed: int) -> list[list[bool]]:
    """Return, per instance, whether each completion of a group of `num_generations` is valid; one process does it all."""
    groups = sample_boards(policy, instances, num_generations, seed=seed, alone=True)
    return [
        [grade_completion(instance, sample.text).outcome.valid for sample in group]
        for instance, group in zip(instances, groups, strict=True)
    ]
