"""The zero-shot benchmark: 3, 4 and 5 agents on boards that no policy has trained on, and the same for 2 agents.

The set `paper` has the grid of arXiv 2606.17682: 3 agents on 3..10, 4 on 4..10, 5 on 5..10, each at wait ratios 0.25,
0.50 and 0.75, 50 boards a cell: 3,150 boards. `in-distribution` has 2 agents, as in training, on 3..10: 50 boards a cell, but
16 on 3x3, where the benchmark split has 24 wait-required boards in all (4, 8 and 12 of them are used): 1,098 boards. The boards
are this project's own, all of the benchmark split, none twice, made the same way every time.

The paper does not give its hole ratio. Here it is 0.2 in every cell, the ratio that presets start from, so that figures
of different sizes and numbers of agents differ by nothing else: 2 holes on 3x3, 3 on 4x4, 5 on 5x5, 7 on 6x6, 10 on 7x7, 13
on 8x8, 16 on 9x9, 20 on 10x10. Every cell of the paper's grid can be filled at that ratio, 3 agents on 3x3 included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig, Knobs
from envwright.env.errors import InfeasibleError, UserError
from envwright.env.generator import generate
from envwright.env.instance import Instance
from envwright.env.workers import Workers

__all__ = [
    "BENCHMARK_SETS",
    "BENCHMARK_SIZES",
    "DIGESTS",
    "FEWER",
    "HOLE_RATIO",
    "PER_CELL",
    "WAIT_RATIOS",
    "BenchmarkCell",
    "benchmark_groups",
    "benchmark_instances",
    "fill_group",
    "make_benchmark",
]

BENCHMARK_SIZES: dict[int, tuple[int, ...]] = {3: tuple(range(3, 11)), 4: tuple(range(4, 11)), 5: tuple(range(5, 11))}
"""Agents -> map sizes, of the paper's grid."""
BENCHMARK_SETS: dict[str, dict[int, tuple[int, ...]]] = {"paper": BENCHMARK_SIZES, "in-distribution": {2: tuple(range(3, 11))}}
"""Set -> agents -> map sizes."""
WAIT_RATIOS = (0.25, 0.50, 0.75)
"""Share of a cell's boards on which every optimal plan must wait."""
HOLE_RATIO = 0.2
"""Share of cells that are holes, in every cell of the grid."""
PER_CELL = 50
"""Boards per cell, but for the cells of `FEWER`."""
FEWER = {(2, 3): 16}
"""`(agents, size)` -> boards per cell, where the split has too few different boards for `PER_CELL`."""
DIGESTS = {
    "paper": "40182855886c30aed3faaa609c18a6532e15da87a4f50ed15d8d5b46390a149d",
    "in-distribution": "f5e5a1b62bc5038d1381c6cb64066faf0b34b3b9c25b08681eff744994279cb5",
}
"""Set -> SHA-256 of its instance file; `envwright benchmark make` refuses to write other boards."""
_SEED = 0


@dataclass(frozen=True, slots=True)
class BenchmarkCell:
    """One cell of the grid with its boards."""

    num_agents: int
    """Agents on each board."""
    size: int
    """Side length N of the N x N boards."""
    wait_ratio: float
    """Share of the boards that are wait-required, the count rounded half up: 13, 25 or 38 of 50."""
    instances: tuple[Instance, ...]
    """The boards, in a fixed order."""


def benchmark_groups(name: str) -> list[tuple[int, int]]:
    """Return `(agents, size)` of a set's groups of cells, in the order of the file.

    Raises:
        UserError: there is no such set.
    """
    if name not in BENCHMARK_SETS:
        raise UserError(f"no benchmark set {name!r}; the sets are {', '.join(BENCHMARK_SETS)}")
    return [(agents, size) for agents, sizes in BENCHMARK_SETS[name].items() for size in sizes]


def fill_group(num_agents: int, size: int, per_cell: int = PER_CELL) -> list[BenchmarkCell]:
    """Make the cells of one number of agents and one size: one per wait ratio, no board twice.

    Raises:
        InfeasibleError: a cell cannot be filled with boards of its own.
    """
    cells: list[BenchmarkCell] = []
    seen: set[str] = set()
    per_cell = min(per_cell, FEWER.get((num_agents, size), per_cell))
    for wait_ratio in WAIT_RATIOS:
        knobs = Knobs(data_ratio=1.0, hole_ratio=HOLE_RATIO, wait_ratio=wait_ratio)
        config = GeneratorConfig(num_agents=num_agents, sizes={str(size): knobs})
        key = ("benchmark", int(100 * wait_ratio))
        made = generate(config, per_cell, seed=_SEED, split=Split.BENCHMARK, key=key, avoid=seen)
        seen |= {instance.id for instance in made.instances}
        cells.append(BenchmarkCell(num_agents, size, wait_ratio, tuple(made.instances)))
        if len(seen) < per_cell * len(cells):
            raise InfeasibleError(
                f"{size}x{size} with {num_agents} agents: the benchmark split has too few boards at wait ratio {wait_ratio}"
            )
    return cells


def make_benchmark(
    name: str = "paper", *, per_cell: int = PER_CELL, workers: int = 1, on_progress: Callable[[int], object] | None = None
) -> list[BenchmarkCell]:
    """Make a benchmark set, the same every time and for every number of workers.

    Args:
        name: a key of `BENCHMARK_SETS`.
        per_cell: boards per cell of agents, size and wait ratio; figures to compare need the full `PER_CELL`.
        workers: processes.
        on_progress: called with the number of boards made so far.

    Raises:
        UserError: there is no such set, or `workers` is out of bounds.
        InfeasibleError: a cell cannot be filled.
    """
    groups = benchmark_groups(name)
    cells: list[BenchmarkCell] = []
    with Workers(workers, len(groups)) as pool:
        for filled in pool.map(partial(_filled, per_cell=per_cell), groups):
            cells += filled
            if on_progress is not None:
                on_progress(sum(len(cell.instances) for cell in cells))
    return cells


def _filled(group: tuple[int, int], per_cell: int) -> list[BenchmarkCell]:
    return fill_group(*group, per_cell)


def benchmark_instances(per_cell: int = PER_CELL) -> list[Instance]:
    """Return the boards of the paper's grid."""
    return [instance for cell in make_benchmark(per_cell=per_cell) for instance in cell.instances]
