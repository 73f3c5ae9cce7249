"""A small run's evidence: 3x3 and 4x4 boards, two validated stages, rollouts that succeed and fail in known ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig, Knobs
from envwright.env.generator import generate
from envwright.env.grading import solution_answer
from envwright.env.instance import Instance
from envwright.env.rollout import Rollout, graded_rollout
from envwright.env.solver import solve
from envwright.tools.evidence import Evidence, Rates, StageRecord
from envwright.tools.registry import Toolbox


def optimal_completion(instance: Instance) -> str:
    plan = solve(instance.size, instance.holes, instance.starts, instance.goals).plan
    assert plan is not None
    return solution_answer(plan)


def rollouts_of(instances: Sequence[Instance], split: Split, stage: int) -> list[Rollout]:
    """4x4 boards and every other 3x3 board: two thirds optimal, the rest is cut off; the other 3x3 boards run off the board."""
    made = []
    for index, instance in enumerate(instances):
        if index % 3 == 2:
            completion = '{"plan": ["U'
        elif instance.size == 3 and index % 2:
            completion = '{"plan": ["UUUU", "WWWW"]}'
        else:
            completion = optimal_completion(instance)
        made.append(graded_rollout(Rollout(instance=instance, completion=completion, split=split, stage=stage)))
    return made


@pytest.fixture(scope="session")
def config() -> GeneratorConfig:
    knobs = {"3": Knobs(data_ratio=0.5, hole_ratio=0.1, wait_ratio=0.0), "4": Knobs(data_ratio=0.5, hole_ratio=0.2, wait_ratio=0.25)}
    return GeneratorConfig(num_agents=2, sizes={**knobs, "5": Knobs(data_ratio=0.0, hole_ratio=0.0, wait_ratio=0.0)})


@pytest.fixture(scope="session")
def evidence(config: GeneratorConfig) -> Evidence:
    validation = generate(config, 36, seed=7, split=Split.VALIDATION).instances
    train = generate(config, 10, seed=7, split=Split.TRAIN).instances
    rollouts = [
        *rollouts_of(validation[:6], Split.VALIDATION, 0),
        *rollouts_of(validation, Split.VALIDATION, 1),
        *rollouts_of([*train, *train], Split.TRAIN, 1),
    ]
    by_bucket = {"3": Rates(n=3, valid=1 / 3, optimal=1 / 3), "4": Rates(n=3, valid=2 / 3, optimal=2 / 3)}
    record = StageRecord(stage=0, config=config, validation=Rates(n=6, valid=0.5, optimal=0.5), by_bucket=by_bucket)
    return Evidence(config=config, rollouts=tuple(rollouts), history=(record,), seed=11)


@pytest.fixture
def toolbox(evidence: Evidence) -> Toolbox:
    return Toolbox(evidence)


def waits_fail(instances: Sequence[Instance]) -> list[list[bool]]:
    """A policy whose group of four fails on wait-required boards, and is half right on the others."""
    return [[False] * 4 if instance.wait_required else [True, True, False, False] for instance in instances]


@pytest.fixture
def toolbox_with_policy(evidence: Evidence) -> Toolbox:
    return Toolbox(replace(evidence, probe=waits_fail))
