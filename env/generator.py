"""Makes instances that follow a config: exact counts per size, exact numbers of holes and of wait-required boards.

Boards are accepted or rejected inside a fixed cell (size, agents, holes, wait required), so the wait label cannot be
read off the size or the number of holes. Every instance has its own random stream, keyed by cell and index. A board
appears once in a file as long as its cell still has new ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from envwright.env.canonical import Split, content_hash, split_of_hash
from envwright.env.config import GeneratorConfig
from envwright.env.errors import InfeasibleError
from envwright.env.instance import Instance
from envwright.env.seeding import random_stream
from envwright.env.solver import BitBoard, Solution, SolveStatus, solve

__all__ = ["Acceptance", "Generated", "generate", "num_holes", "wait_count"]

MAX_TRIES = 20_000
"""Boards drawn for one instance before its cell is called infeasible."""
PATIENCE = 100
"""Acceptable but repeated boards drawn in a row before a cell is called exhausted and a repeat is taken."""
_SOLVER_NODES = 20_000
_PLACEMENTS = 1_000
_REMEMBERED_SIZE = 4
"""Largest board side on which the same boards, up to symmetry, come up often enough to remember their labels."""


@dataclass(slots=True)
class Acceptance:
    """How one cell was filled."""

    accepted: int = 0
    """Instances made."""
    repeated: int = 0
    """Of these, boards that were in the file (or in the boards to avoid) before, because the cell has no new ones."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Boards drawn and thrown away, by reason."""

    @property
    def rate(self) -> float:
        """Share of drawn boards that were accepted; splits and repeats do not count against it."""
        wrong = sum(count for reason, count in self.rejected.items() if reason not in ("other split", "repeated"))
        return self.accepted / (self.accepted + wrong) if self.accepted + wrong else 0.0


@dataclass(frozen=True, slots=True)
class Generated:
    """Instances and how they came about."""

    instances: list[Instance]
    """The instances, sizes mixed."""
    acceptance: dict[str, Acceptance]
    """Per bucket, how its cells were filled."""


@dataclass(frozen=True, slots=True)
class _Cell:
    size: int
    num_agents: int
    holes: int
    wait_required: bool

    def __str__(self) -> str:
        kind = "wait-required" if self.wait_required else "wait-free"
        return f"{self.size}x{self.size} with {self.num_agents} agents, {self.holes} holes, {kind}"


def num_holes(size: int, hole_ratio: float) -> int:
    """Return the number of holes of a board: the ratio of its cells, rounded half up."""
    return math.floor(hole_ratio * size * size + 0.5)


def wait_count(count: int, wait_ratio: float) -> int:
    """Return how many of `count` instances are wait-required: the ratio, rounded half up."""
    return math.floor(wait_ratio * count + 0.5)


def generate(
    config: GeneratorConfig,
    n: int,
    *,
    seed: int,
    split: Split = Split.TRAIN,
    key: tuple[str | int, ...] = (),
    avoid: Collection[str] = (),
    max_tries: int = MAX_TRIES,
    on_progress: Callable[[int], None] | None = None,
) -> Generated:
    """Make `n` instances.

    Args:
        config: sizes and their knobs.
        n: instances in all; sizes get theirs by largest remainder.
        seed: seed of the run.
        split: split that every instance belongs to.
        key: names the use ("stage", 3), so that uses with one seed draw different boards.
        avoid: ids of boards not to repeat while there are others.
        max_tries: boards drawn for one instance before its cell is called infeasible.
        on_progress: called with the number of instances made so far.

    Raises:
        InfeasibleError: a cell could not be filled; the message names it and says why its boards were rejected.
    """
    instances: list[Instance] = []
    acceptance: dict[str, Acceptance] = {}
    for bucket, count in config.counts(n).items():
        knobs = config.sizes[bucket]
        record = acceptance[bucket] = Acceptance()
        waits = wait_count(count, knobs.wait_ratio)
        for wait_required, wanted in ((True, waits), (False, count - waits)):
            cell = _Cell(int(bucket), config.num_agents, num_holes(int(bucket), knobs.hole_ratio), wait_required)
            for instance in _fill(cell, wanted, record, seed, split, key, avoid, max_tries):
                instances.append(instance)
                if on_progress is not None:
                    on_progress(len(instances))
    order = random_stream(seed, "order", *key).permutation(len(instances))
    return Generated([instances[index] for index in order], acceptance)


def _fill(
    cell: _Cell,
    wanted: int,
    record: Acceptance,
    seed: int,
    split: Split,
    key: tuple[str | int, ...],
    avoid: Collection[str],
    max_tries: int,
) -> list[Instance]:
    """Make `wanted` instances of one cell."""
    if wanted and cell.wait_required and cell.num_agents == 1:
        raise InfeasibleError(f"no board for {cell}: a single agent never has to wait; set the size's wait_ratio to 0")
    seen: set[str] = set()
    made: list[Instance] = []
    known: dict[str, Solution] = {}
    patience = PATIENCE
    for index in range(wanted):
        rng = random_stream(seed, "instances", *key, split.value, cell.size, cell.num_agents, cell.holes, int(cell.wait_required), index)
        reasons: Counter[str] = Counter()
        chosen: Instance | None = None
        fresh = False
        for _ in range(max_tries):
            drawn = _draw(rng, cell, split, known)
            if isinstance(drawn, str):
                reasons[drawn] += 1
                continue
            chosen = drawn
            fresh = drawn.id not in seen and drawn.id not in avoid
            if fresh or reasons["repeated"] >= patience:
                break
            reasons["repeated"] += 1
        if chosen is None:
            why = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
            raise InfeasibleError(
                f"no board for {cell} ({split} split) in {max_tries} tries: {why}; change the size's hole_ratio or wait_ratio"
            )
        patience = PATIENCE if fresh else PATIENCE // 10
        record.accepted += 1
        record.repeated += not fresh
        seen.add(chosen.id)
        made.append(chosen)
        record.rejected.update(reasons)
    return made


def _place_agents(
    rng: np.random.Generator, free: list[tuple[int, int]], agents: int
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] | None:
    """Draw distinct starts and distinct goals, uniform among those in which no agent starts at its own goal."""
    starts = tuple(free[int(index)] for index in rng.permutation(len(free))[:agents])
    for _ in range(_PLACEMENTS):
        goals = tuple(free[int(index)] for index in rng.permutation(len(free))[:agents])
        if all(start != goal for start, goal in zip(starts, goals, strict=True)):
            return starts, goals
    return None


def _draw(rng: np.random.Generator, cell: _Cell, split: Split, known: dict[str, Solution]) -> Instance | str:
    """Draw one board of a cell and label it, or say why it is no use; `known` holds what is solved, by content hash."""
    size, agents = cell.size, cell.num_agents
    order = rng.permutation(size * size)
    holes = tuple(sorted(divmod(int(index), size) for index in order[: cell.holes]))
    board = BitBoard(size, holes)
    free = sorted(divmod(int(index), size) for index in order[cell.holes :])
    if cell.holes > 0.4 * size * size:
        largest = max(board.components(), key=int.bit_count)
        free = [place for place in free if largest & board.bit(place)]
    if len(free) < max(agents, 2):
        return "too few free cells"
    placed = _place_agents(rng, free, agents)
    if placed is None:
        return "an agent starts at its goal"
    starts, goals = placed
    if any(not board.component(start) & board.bit(goal) for start, goal in zip(starts, goals, strict=True)):
        return "a goal out of reach"
    digest = content_hash(size, holes, starts, goals)
    if split_of_hash(digest) is not split:
        return "other split"
    solution = known.get(digest)
    if solution is None:
        solution = solve(size, holes, starts, goals, node_limit=_SOLVER_NODES, board=board)
        if size <= _REMEMBERED_SIZE and not solution.undecided and solution.status is not SolveStatus.BUDGET:
            known[digest] = solution
    if solution.status is SolveStatus.UNSOLVABLE:
        return "unsolvable"
    if solution.sum_of_costs is None or solution.makespan is None or solution.wait_required is None or solution.undecided:
        return "not solved within the solver's budget"
    if solution.wait_required is not cell.wait_required:
        return "wait-free" if cell.wait_required else "wait-required"
    return Instance(
        id=f"{agents}a-{size}x{size}-{digest}",
        size=size,
        holes=holes,
        starts=starts,
        goals=goals,
        optimal_cost=solution.sum_of_costs,
        optimal_makespan=solution.makespan,
        wait_required=solution.wait_required,
    )
