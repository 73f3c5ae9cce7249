"""Exact labels of a board whose minimal sum of costs is known: smallest makespan, and whether a wait is required.

The other objective's are in `makespan`. Both ask about *every* plan of minimal sum of costs, so neither can be read off the one that was found: optimal
plans are not unique. Each question becomes a search for a plan of the known cost with one more property.
"""

from itertools import pairwise

from envwright.env.solver.budget import Budget, Outcome
from envwright.env.solver.search import Plan, SearchResult, plan_search
from envwright.env.solver.space import BitSpace


def sum_of_costs(plan: Plan) -> int:
    """Returns the sum of costs of a plan."""
    return sum(len(path) - 1 for path in plan)


def makespan(plan: Plan) -> int:
    """Returns the makespan of a plan."""
    return max(len(path) - 1 for path in plan)


def is_wait_free(plan: Plan) -> bool:
    """Tells whether every agent moves in every timestep until it has arrived for good."""
    return all(cell != after for path in plan for cell, after in pairwise(path))


def tighten_makespan(board: BitSpace, found: SearchResult, longest: int, budget: Budget) -> tuple[bool, SearchResult]:
    """Finds a plan of the smallest makespan among those of minimal sum of costs.

    Args:
        board: The board.
        found: A plan of minimal sum of costs.
        longest: The largest single-agent distance, a lower bound on the makespan.
        budget: What the board may still cost.

    Returns:
        Whether it is proved that no smaller makespan exists, and the best plan found.
    """
    starts = [path[0] for path in found.plan]
    goals = [path[-1] for path in found.plan]
    optimum = sum_of_costs(found.plan)
    while not found.joint and (deadline := makespan(found.plan) - 1) >= longest:
        better = plan_search(board, starts, goals, budget, cap=optimum, deadline=deadline)
        if better.outcome is not Outcome.FOUND:
            return better.outcome is Outcome.EXHAUSTED, found
        found = better
    return True, found


def is_wait_required(board: BitSpace, found: SearchResult, distances: int, budget: Budget) -> bool | None:
    """Tells whether every plan of minimal sum of costs holds a wait before an arrival; None: out of budget.

    A grid is bipartite, so a path without waits has the parity of its distance. If the optimum equals the sum
    of distances, nobody waits; if they differ by an odd number on a bipartite graph, somebody does in every plan; otherwise
    a search without waits, capped at the optimum, decides.

    Args:
        board: The board.
        found: A plan of minimal sum of costs.
        distances: The sum of single-agent distances.
        budget: What the board may still cost.
    """
    plan, optimum = found.plan, sum_of_costs(found.plan)
    excess = optimum - distances
    if excess == 0:
        return False
    if excess % 2 and board.bipartite:
        return True
    if is_wait_free(plan):
        return False
    starts = [path[0] for path in plan]
    goals = [path[-1] for path in plan]
    free = plan_search(board, starts, goals, budget, wait_free=True, cap=optimum, crowded=found.joint)
    return None if free.outcome is Outcome.LIMIT else free.outcome is Outcome.EXHAUSTED
