"""Which search answers: the stages that one connected component goes through.

CBS is quick on almost every board but never ends on some. So it gets a few nodes, then cheap proofs of
unsolvability are tried, then it gets more nodes, then the joint searches take over where the state space is
small. The stages switch on node counts alone, never on time, so that results are reproducible.
"""

from collections.abc import Iterable
from itertools import combinations
from math import perm
from typing import NamedTuple

from envwright.env.solver.budget import Budget, Outcome
from envwright.env.solver.cbs import ConflictSearch
from envwright.env.solver.frontier import FrontierSearch
from envwright.env.solver.joint import JointSearch
from envwright.env.solver.pairs import Pair
from envwright.env.solver.reachability import ReachabilitySearch, is_searchable
from envwright.env.solver.space import BitSpace

EASY_NODES = 6
"""CBS nodes before unsolvability is suspected."""

EASY_PAIR_NODES = 2
"""The same for two agents, whose boards are quick to prove unsolvable."""

MIN_NODES, MAX_NODES = 100, 1_500
"""Bounds on the CBS nodes before the joint search: one node per 4,000 placements of the agents in between."""

JOINT_PLACEMENTS = 20_000_000
"""Beyond so many placements of the agents the joint search is not tried."""

JOINT_NODES = 5_000
"""States that A* over all agents may expand before the search by sets of states."""

FRONTIER_NODES = 1_000_000
"""Sets of states that the latter may expand: below 1 GB."""

FINAL_NODES = 20_000
"""CBS nodes after everything else has failed."""

Plan = list[list[int]]
"""Per agent its path as cell indices, up to its arrival for good."""


class SearchResult(NamedTuple):
    """What a component's search found."""

    outcome: Outcome
    plan: Plan  # empty unless found
    joint: bool = False  # decided by a joint search: its makespan is the smallest, and CBS is no help here


def plan_search(
    board: BitSpace,
    starts: list[int],
    goals: list[int],
    budget: Budget,
    *,
    wait_free: bool = False,
    cap: int | None = None,
    deadline: int | None = None,
    crowded: bool = False,
) -> SearchResult:
    """Looks for a plan of minimal sum of costs for agents of one component.

    Args:
        board: The board.
        starts: Cell index per agent.
        goals: Cell index per agent.
        budget: What the whole board may still cost.
        wait_free: Allow no wait before an agent's arrival for good.
        cap: Look only for plans whose sum of costs is at most this.
        deadline: Look only for plans whose makespan is at most this.
        crowded: CBS is known to be no help: turn to the joint search soon.
    """
    cbs = ConflictSearch(board, starts, goals, wait_free=wait_free, cap=cap, deadline=deadline)
    agents = len(starts)
    outcome = cbs.run(budget, EASY_NODES if agents > 2 else EASY_PAIR_NODES)
    if outcome is not Outcome.LIMIT:
        return SearchResult(outcome, cbs.plan)
    cells = board.ball(goals[0])[-1].bit_count()
    placements = perm(cells, agents)
    doubtful = cap is None and deadline is None
    if doubtful and proves_pairs_unsolvable(board, starts, goals, cbs.clashing, budget):
        return SearchResult(Outcome.EXHAUSTED, [])
    outcome = cbs.run(budget, 0 if crowded else max(MIN_NODES, min(MAX_NODES, placements // 4_000)))
    if outcome is not Outcome.LIMIT:
        return SearchResult(outcome, cbs.plan)
    if doubtful and proves_groups_unsolvable(board, starts, goals, budget):
        return SearchResult(Outcome.EXHAUSTED, [])
    if placements <= JOINT_PLACEMENTS:
        result = joint_search(board, starts, goals, budget, wait_free=wait_free, cap=cap, deadline=deadline)
        if result.outcome is not Outcome.LIMIT:
            return result
    outcome = cbs.run(budget, FINAL_NODES)
    return SearchResult(outcome, cbs.plan)


def proves_pairs_unsolvable(board: BitSpace, starts: list[int], goals: list[int], clashing: Iterable[Pair], budget: Budget) -> bool:
    """Tells whether two agents cannot reach their goals even without the others, looking at `clashing` pairs alone."""
    return _proves_unsolvable(board, starts, goals, sorted(clashing), budget)


def proves_groups_unsolvable(board: BitSpace, starts: list[int], goals: list[int], budget: Budget) -> bool:
    """The same for three or more agents, as many as can be searched."""
    agents = len(starts)
    cells = board.ball(goals[0])[-1].bit_count()
    groups = (group for group in range(3, agents + 1) if is_searchable(cells, group))
    return any(_proves_unsolvable(board, starts, goals, combinations(range(agents), group), budget) for group in groups)


def _proves_unsolvable(board: BitSpace, starts: list[int], goals: list[int], groups: Iterable[tuple[int, ...]], budget: Budget) -> bool:
    """Tells whether some group of the agents cannot reach its goals even without the others; False, too, out of budget."""
    for members in groups:
        reachable = ReachabilitySearch(board, [starts[k] for k in members], [goals[k] for k in members]).run(budget)
        if reachable is not True:
            return reachable is False
    return False


def joint_search(
    board: BitSpace,
    starts: list[int],
    goals: list[int],
    budget: Budget,
    *,
    wait_free: bool,
    cap: int | None,
    deadline: int | None,
) -> SearchResult:
    """Runs the joint searches.

    Among plans of minimal sum of costs they find the smallest makespan anyway, so with a cap at that minimum the deadline is
    only looked at afterwards.
    """
    within = deadline if cap is None else None
    joint = JointSearch(board, starts, goals, wait_free=wait_free, cap=cap, deadline=within)
    outcome = joint.run(budget, JOINT_NODES)
    if outcome is Outcome.LIMIT:
        joint = FrontierSearch(board, starts, goals, wait_free=wait_free, cap=cap, deadline=within)
        outcome = joint.run(budget, FRONTIER_NODES)
    if outcome is Outcome.FOUND and deadline is not None and max(map(len, joint.plan)) - 1 > deadline:
        return SearchResult(Outcome.EXHAUSTED, [])
    return SearchResult(outcome, joint.plan, joint=True)


def joint_makespan(
    board: BitSpace, starts: list[int], goals: list[int], budget: Budget, *, wait_free: bool = False, deadline: int | None = None
) -> SearchResult:
    """Looks for a plan of minimal makespan, at most `deadline`, whatever its sum of costs, over all agents at once."""
    joint = FrontierSearch(board, starts, goals, wait_free=wait_free, cap=deadline, by_time=True)
    return SearchResult(joint.run(budget, FRONTIER_NODES), joint.plan, joint=True)
