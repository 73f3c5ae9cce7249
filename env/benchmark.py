"""The zero-shot benchmark: 3, 4 and 5 agents on boards that no policy has trained on.

The grid is the paper's (arXiv 2606.17682): 3 agents on 3..10, 4 on 4..10, 5 on 5..10, each at wait ratios 0.25, 0.50 and
0.75, 50 boards a cell: 3,150 boards. The boards are this project's own; the hole ratio, which the paper does not give, is 0.2.
"""

from __future__ import annotations

from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig, Knobs
from envwright.env.generator import generate
from envwright.env.instance import Instance

__all__ = ["BENCHMARK_SIZES", "WAIT_RATIOS", "benchmark_instances"]

BENCHMARK_SIZES: dict[int, tuple[int, ...]] = {3: tuple(range(3, 11)), 4: tuple(range(4, 11)), 5: tuple(range(5, 11))}
"""Agents -> map sizes."""
WAIT_RATIOS = (0.25, 0.50, 0.75)
HOLE_RATIO = 0.2


def benchmark_instances(per_cell: int = 50) -> list[Instance]:
    """Return the benchmark, the same every time.

    Args:
        per_cell: boards per cell of agents, size and wait ratio.
    """
    instances: list[Instance] = []
    for agents, sizes in BENCHMARK_SIZES.items():
        for size in sizes:
            for wait_ratio in WAIT_RATIOS:
                knobs = Knobs(data_ratio=1.0, hole_ratio=HOLE_RATIO, wait_ratio=wait_ratio)
                config = GeneratorConfig(num_agents=agents, sizes={str(size): knobs})
                avoid = {instance.id for instance in instances if instance.size == size and instance.num_agents == agents}
                made = generate(config, per_cell, seed=0, split=Split.BENCHMARK, key=("benchmark", int(100 * wait_ratio)), avoid=avoid)
                instances += made.instances
    return instances
