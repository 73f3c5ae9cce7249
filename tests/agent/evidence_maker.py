"""Evidence with chosen success rates, made of real boards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.generator import generate
from envwright.env.instance import Instance
from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome
from envwright.tools.evidence import Evidence, PolicyProbe

Rates = Mapping[str, tuple[int, int]]
"""Size -> valid completions on (wait-required, wait-free) boards."""


def make_config(sizes: Sequence[int] = (3, 4, 5, 6), hole: float = 0.2, wait: float = 0.1) -> GeneratorConfig:
    knobs = {"data_ratio": 1 / len(sizes), "hole_ratio": hole, "wait_ratio": wait}
    return GeneratorConfig.parse({"num_agents": 2, "sizes": {str(size): knobs for size in sizes}}, "test config")


@cache
def boards(size: int) -> dict[bool, Instance]:
    config = GeneratorConfig.parse(
        {"num_agents": 2, "sizes": {str(size): {"data_ratio": 1, "hole_ratio": 0.2, "wait_ratio": 0.5}}}, "boards"
    )
    return {instance.wait_required: instance for instance in generate(config, 2, seed=1, split=Split.VALIDATION).instances}


def make_evidence(
    valid: Rates, n: int = 60, config: GeneratorConfig | None = None, probe: PolicyProbe | None = None, split: Split = Split.VALIDATION
) -> Evidence:
    rollouts = []
    for size, counts in valid.items():
        for kind, successes in zip((True, False), counts, strict=True):
            for index in range(n):
                failed = Outcome.VERTEX_CONFLICT if index % 4 else Outcome.GOAL_NOT_REACHED
                outcome = Outcome.OPTIMAL if index < successes else failed
                rollouts.append(Rollout(split=split, instance=boards(int(size))[kind], completion="", outcome=outcome))
    return Evidence(config=config or make_config([int(size) for size in valid]), rollouts=tuple(rollouts), seed=3, probe=probe)


BASE: Rates = {"3": (12, 50), "4": (6, 48), "5": (4, 45), "6": (3, 42)}
"""About what the base policy does: wait-free boards mostly solved, wait-required ones hardly."""
