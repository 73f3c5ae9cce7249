"""The smallest makespan, and what is asked about the plans that have it.

Deadlines are tried from the largest single-agent distance upwards. Within a deadline any plan will do, so a greedy
conflict-based search looks for one (after GCBS, Barer et al., "Suboptimal variants of the conflict-based search
algorithm", SoCS 2014) with detours instead of costs; the deadline makes its tree finite, so exhausting it proves that
the next deadline is due. On small crowded boards the joint search decides what it leaves open.
"""

from math import perm

from envwright.env.solver.budget import Budget, Outcome
from envwright.env.solver.cbs import ConflictSearch
from envwright.env.solver.labels import is_wait_free, makespan, sum_of_costs
from envwright.env.solver.reachability import MAX_AGENTS
from envwright.env.solver.search import (
    FINAL_NODES,
    JOINT_PLACEMENTS,
    SearchResult,
    joint_makespan,
    plan_search,
    proves_groups_unsolvable,
    proves_pairs_unsolvable,
)
from envwright.env.solver.space import BitSpace

EASY_NODES = 20
"""Greedy nodes within a deadline before unsolvability is suspected."""

MORE_NODES = 300
"""Greedy nodes within a deadline before the joint search."""

DEADLINES_PER_VERTEX = 20
"""How many deadlines are tried, for each vertex of the component, where unsolvability can be neither proved nor refuted."""

PATIENCE = 4
"""Deadlines that many agents may miss before the slower proofs of unsolvability are tried."""


def within_deadline(
    board: BitSpace, starts: list[int], goals: list[int], deadline: int, budget: Budget, *, wait_free: bool = False, open_end: bool = False
) -> SearchResult:
    """Looks for any plan whose makespan is at most `deadline`, for agents of one component.

    Args:
        board: The board.
        starts: Vertex index per agent.
        goals: Vertex index per agent.
        deadline: The largest makespan allowed, in timesteps.
        budget: What the whole board may still cost.
        wait_free: Allow no wait before an agent's arrival for good.
        open_end: A joint search that takes over goes beyond the deadline, so that it finds the smallest makespan or proves
            that there is no plan at all.
    """
    greedy = ConflictSearch(board, starts, goals, wait_free=wait_free, deadline=deadline, greedy=True)
    outcome = greedy.run(budget, MORE_NODES)
    if outcome is Outcome.LIMIT and _is_small(board, goals):
        result = joint_makespan(board, starts, goals, budget, wait_free=wait_free, deadline=None if open_end else deadline)
        if result.outcome is not Outcome.LIMIT:
            return result
    if outcome is Outcome.LIMIT:
        outcome = greedy.run(budget, FINAL_NODES)
    return SearchResult(outcome, greedy.plan)


def minimal_makespan(board: BitSpace, starts: list[int], goals: list[int], floor: int, budget: Budget) -> tuple[int, SearchResult]:
    """Finds a plan of the smallest makespan of at least `floor`, for agents of one component.

    Args:
        board: The board.
        starts: Vertex index per agent.
        goals: Vertex index per agent.
        floor: A bound to start from, at least the largest single-agent distance.
        budget: What the whole board may still cost.

    Returns:
        The deadline that was looked at last, which the plan meets, and the result: exhausted when there is no plan at all.
    """
    quick = ConflictSearch(board, starts, goals, deadline=floor, greedy=True)
    outcome = quick.run(budget, EASY_NODES)
    if outcome is Outcome.FOUND:
        return floor, SearchResult(outcome, quick.plan)
    if proves_pairs_unsolvable(board, starts, goals, quick.clashing, budget):
        return floor, SearchResult(Outcome.EXHAUSTED, [])
    patience = PATIENCE if len(starts) > MAX_AGENTS else 0
    last = floor + DEADLINES_PER_VERTEX * board.ball(goals[0])[-1].bit_count()
    for deadline in range(floor + (outcome is Outcome.EXHAUSTED), last):
        if deadline >= floor + patience:
            patience = last
            if _is_unsolvable(board, starts, goals, budget):
                break
        result = within_deadline(board, starts, goals, deadline, budget, open_end=True)
        if result.outcome is Outcome.FOUND:
            return max(deadline, makespan(result.plan)), result
        if result.outcome is Outcome.LIMIT:
            return deadline, result
        if result.joint:
            break
    else:
        return last, SearchResult(Outcome.LIMIT, [])
    return floor, SearchResult(Outcome.EXHAUSTED, [])


def fewest_costs(board: BitSpace, found: SearchResult, deadline: int, distances: int, budget: Budget) -> SearchResult:
    """Returns a plan of the smallest sum of costs among those within a deadline; its outcome is the limit out of budget."""
    if sum_of_costs(found.plan) == distances:
        return found
    starts = [path[0] for path in found.plan]
    goals = [path[-1] for path in found.plan]
    return plan_search(board, starts, goals, budget, deadline=deadline)


def must_wait(board: BitSpace, found: SearchResult, deadline: int, budget: Budget) -> bool | None:
    """Tells whether every plan within a deadline holds a wait before an arrival; None: out of budget."""
    if is_wait_free(found.plan):
        return False
    starts = [path[0] for path in found.plan]
    goals = [path[-1] for path in found.plan]
    free = within_deadline(board, starts, goals, deadline, budget, wait_free=True)
    return None if free.outcome is Outcome.LIMIT else free.outcome is Outcome.EXHAUSTED


def _is_small(board: BitSpace, goals: list[int]) -> bool:
    return perm(board.ball(goals[0])[-1].bit_count(), len(goals)) <= JOINT_PLACEMENTS


def _is_unsolvable(board: BitSpace, starts: list[int], goals: list[int], budget: Budget) -> bool:
    """Tells whether it is proved that there is no plan, however long, supposing that each pair could do it alone."""
    if proves_groups_unsolvable(board, starts, goals, budget):
        return True
    crowd = len(starts) > MAX_AGENTS and _is_small(board, goals)
    return crowd and plan_search(board, starts, goals, budget).outcome is Outcome.EXHAUSTED
