"""Exact labels of drawn boards, cheapest first: independent paths, the split, what is known already, then the solver."""

from __future__ import annotations

from dataclasses import dataclass

from envwright.env.canonical import Split, content_hash, split_of_hash
from envwright.env.independent import Mdd, cell_bits, conflict_free_paths, shortest_mdd
from envwright.env.instance import Instance
from envwright.env.sampling import Draw
from envwright.env.solver import Solution, SolveStatus, solve
from envwright.env.strata import CROWD, Stratum

__all__ = ["OTHER_SPLIT", "SOLVED_REASONS", "TOO_HARD", "Labelled", "judge"]

TOO_HARD = "not solved within the solver's budget"
"""Reason of a board whose labels are not known."""
OTHER_SPLIT = "other split"
"""Reason of a board that was not solved, because it belongs to another split."""
SOLVED_REASONS = ("unsolvable", TOO_HARD, "wait-free", "wait-required")
"""Reasons of boards that were looked at after the split was: what is cheaper to see is seen before."""
SOLVER_NODES, NARROW_NODES, CROWD_NODES = 5_000, 1_000, 400
"""Search nodes per board: as a rule, for `CROWD` agents among many holes, for more agents; past them a board costs seconds and is left out."""
REMEMBERED_SIZE = 4
"""Largest board side on which the same boards, up to symmetry, come up often enough to remember their labels."""
_REMEMBERED = 50_000


@dataclass(frozen=True, slots=True)
class Labelled:
    """A board that fits its stratum, with its exact labels; light to send between processes."""

    digest: str
    """Canonical content hash."""
    holes: tuple[tuple[int, int], ...]
    """Holes in order, `(row, col)`."""
    starts: tuple[tuple[int, int], ...]
    """Start per agent."""
    goals: tuple[tuple[int, int], ...]
    """Goal per agent."""
    cost: int
    """Minimal sum of costs."""
    makespan: int
    """Smallest makespan among the plans of that cost."""

    def instance(self, stratum: Stratum) -> Instance:
        """Return the record for the instance file."""
        return Instance(
            id=f"{stratum.num_agents}a-{stratum.size}x{stratum.size}-{self.digest}",
            size=stratum.size,
            holes=self.holes,
            starts=self.starts,
            goals=self.goals,
            optimal_cost=self.cost,
            optimal_makespan=self.makespan,
            wait_required=stratum.wait_required,
        )


_known: dict[str, Solution] = {}
"""Answers of the solver by content hash, for small boards: a pure cache, no result depends on it."""


def judge(draw: Draw, stratum: Stratum, split: Split | None) -> Labelled | str:
    """Label a board, or say why it is no use for the stratum and the split (None: for any split)."""
    size = stratum.size
    width, bits = size + 1, cell_bits(size)
    mdds: list[Mdd] = []
    for start, goal in zip(draw.starts, draw.goals, strict=True):
        mdd = shortest_mdd(draw.free, width, bits[start], bits[goal])
        if mdd is None:
            return "a goal out of reach"
        mdds.append(mdd)
    independent = conflict_free_paths(mdds, width) is not None
    if independent and stratum.wait_required:
        return "free of conflicts"
    holes, starts, goals = (tuple(divmod(cell, size) for cell in cells) for cells in (sorted(draw.holes), draw.starts, draw.goals))
    digest = content_hash(size, holes, starts, goals)
    if split is not None and split_of_hash(digest) is not split:
        return OTHER_SPLIT
    if independent:
        return Labelled(digest, holes, starts, goals, sum(map(len, mdds)) - len(mdds), max(map(len, mdds)) - 1)
    solution = _solve(digest, stratum, holes, starts, goals)
    if solution.status is SolveStatus.UNSOLVABLE:
        return "unsolvable"
    if solution.sum_of_costs is None or solution.makespan is None or solution.wait_required is None:
        return TOO_HARD
    if solution.wait_required is not stratum.wait_required:
        return "wait-free" if stratum.wait_required else "wait-required"
    return Labelled(digest, holes, starts, goals, solution.sum_of_costs, solution.makespan)


def _solve(
    digest: str,
    stratum: Stratum,
    holes: tuple[tuple[int, int], ...],
    starts: tuple[tuple[int, int], ...],
    goals: tuple[tuple[int, int], ...],
) -> Solution:
    """Solve a board, or remember its answer."""
    found = _known.get(digest)
    if found is None:
        found = solve(stratum.size, holes, starts, goals, node_limit=_node_limit(stratum))
        if stratum.size <= REMEMBERED_SIZE and len(_known) < _REMEMBERED:
            _known[digest] = found
    return found


def _node_limit(stratum: Stratum) -> int:
    if not stratum.is_crowd:
        return SOLVER_NODES
    return CROWD_NODES if stratum.num_agents > CROWD else NARROW_NODES
