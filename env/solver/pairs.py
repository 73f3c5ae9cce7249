"""How much two agents' costs must grow because of each other, and the bound that follows for all agents.

WDG, the weighted dependency graph heuristic: Li et al., "Improved heuristics for multi-agent path finding
with conflict-based search", IJCAI 2019. Its edge weights are exact here: joint MDDs, one bit set per cell of
the first agent.
"""

from collections.abc import Mapping
from operator import and_
from typing import TypeAlias

from envwright.env.solver.budget import Budget
from envwright.env.solver.mdd import ConstrainedAgent, Mdd, without_moves
from envwright.env.solver.space import indices

Pair: TypeAlias = tuple[int, int]

WEIGHT_LIMIT = 12
"""A pair's increase is searched up to about this; beyond it stays a lower bound."""

COVER_STEPS = 200_000
"""Steps of the branch and bound over one component's increases."""

WEIGHT_STEP = 2
"""How far a pair's increase is searched each time that its node is looked at."""


def compatible(first: ConstrainedAgent, mdd: Mdd, second: ConstrainedAgent, other: Mdd, budget: Budget) -> bool:
    """Tells whether two MDDs hold paths that do not conflict, both agents parked at the end.

    Raises:
        TimeUpError: The budget's time limit has passed.
    """
    cost, other_cost = len(mdd) - 1, len(other) - 1
    width, near, moving, adjacency = first.board.width, first.board.near, first.wait_free, first.adjacency
    begin, end = _meeting(mdd, other)
    cells = other[min(begin - 1, other_cost)]
    states = dict.fromkeys(indices(mdd[min(begin - 1, cost)]), cells)  # cell of the first agent -> cells of the second
    for time in range(begin, end + 1):
        budget.check()
        forbidden = first.forbidden_moves.get(time, ())
        other_forbidden = second.forbidden_moves.get(time, ())
        following: dict[int, int] = {}
        for source, cells in states.items():
            after = cells
            if time <= other_cost:
                after = cells << 1 | cells >> 1 | cells << width | cells >> width if width else near(cells)
                if not moving:
                    after |= cells
                after &= other[time]
                if other_forbidden:
                    after = without_moves(after, cells, other_forbidden, adjacency)
            targets = adjacency[source] & mdd[time] if time <= cost else 1 << source
            while targets:
                bit = targets & -targets
                targets ^= bit
                target = bit.bit_length() - 1
                if forbidden and (source, target) in forbidden:
                    continue
                rest = after & ~bit
                if target != source and rest >> source & 1 and cells >> target & 1:
                    rest = without_moves(rest, cells, ((target, source), *other_forbidden), adjacency)
                if rest:
                    following[target] = following.get(target, 0) | rest
        if not following:
            return False
        states = following
    return True


def _meeting(mdd: Mdd, other: Mdd) -> tuple[int, int]:
    """Returns the first and the last timestep at which paths of two MDDs could conflict, an empty range when they cannot.

    Before and after these any two paths go together, and each cell of an MDD is on some path.
    """
    times = max(len(mdd), len(other))
    mine = [*mdd, *mdd[-1:] * (times - len(mdd))]
    theirs = [*other, *other[-1:] * (times - len(other))]
    ahead, behind = map(and_, mine[1:], theirs[:-1]), map(and_, mine[:-1], theirs[1:])
    shared = map(and_, mine[1:], theirs[1:])
    met = [time for time, (same, here, there) in enumerate(zip(shared, ahead, behind, strict=True), 1) if same or (here and there)]
    return (met[0], met[-1]) if met else (1, 0)


def pair_increase(
    first: ConstrainedAgent, second: ConstrainedAgent, cost: int, other_cost: int, *, known: int, limit: int, budget: Budget
) -> tuple[int, bool]:
    """Searches by how much the joint cost of a pair exceeds its single costs.

    Args:
        first: An agent.
        second: Another agent.
        cost: The first agent's minimal cost.
        other_cost: The second agent's minimal cost.
        known: An increase already known to be needed.
        limit: Where to stop.
        budget: Whose clock to look at.

    Returns:
        The increase and True, or a lower bound on it (the larger of `known` and `limit`) and False.
    """
    for increase in range(known, limit):
        for extra in range(increase + 1):
            mine, theirs = cost + extra, other_cost + increase - extra
            if mine > first.high or theirs > second.high:
                continue
            mdd = first.mdd(mine)
            other = second.mdd(theirs) if mdd is not None else None
            if mdd is not None and other is not None and compatible(first, mdd, second, other, budget):
                return increase, True
    return max(known, limit), False


def cover_weight(weights: Mapping[Pair, int], budget: Budget) -> int:
    """Returns the least sum of agents' increases that gives every pair its weight (a weighted vertex cover).

    Beyond `COVER_STEPS` a lower bound on it: the weight of a matching.

    Raises:
        TimeUpError: The budget's time limit has passed.
    """
    if len(weights) <= 1:
        return sum(weights.values())
    graph: dict[int, dict[int, int]] = {}
    for (first, second), weight in weights.items():
        graph.setdefault(first, {})[second] = weight
        graph.setdefault(second, {})[first] = weight
    total = 0
    seen: set[int] = set()
    for agent in graph:
        if agent in seen:
            continue
        component = [agent]
        seen.add(agent)
        for member in component:
            fresh = [other for other in graph[member] if other not in seen]
            seen.update(fresh)
            component += fresh
        total += _cover_component(graph, sorted(component, key=lambda member: -len(graph[member])), budget)
    return total


def _cover_component(graph: Mapping[int, Mapping[int, int]], order: list[int], budget: Budget) -> int:
    """Branch and bound over the increases of one connected component's agents."""
    if len(order) == 2:
        return graph[order[0]][order[1]]
    best = sum(max(graph[agent].values()) for agent in order)
    chosen: dict[int, int] = {}
    steps = 0

    def assign(position: int, spent: int) -> None:
        nonlocal best, steps
        if spent >= best or steps > COVER_STEPS:
            return
        steps += 1
        if steps % 1024 == 0:
            budget.check()
        if position == len(order):
            best = spent
            return
        agent = order[position]
        edges = graph[agent]
        least = max((weight - chosen[other] for other, weight in edges.items() if other in chosen), default=0)
        for value in range(max(least, 0), max(edges.values()) + 1):
            chosen[agent] = value
            assign(position + 1, spent + value)
        del chosen[agent]

    assign(0, 0)
    return best if steps <= COVER_STEPS else _matching_weight(graph, order)


def _matching_weight(graph: Mapping[int, Mapping[int, int]], agents: list[int]) -> int:
    """Returns the weight of a greedy matching: its pairs share no agent, so their weights add up to a lower bound."""
    edges = sorted((-weight, i, j) for i in agents for j, weight in graph[i].items() if i < j)
    matched: set[int] = set()
    total = 0
    for weight, i, j in edges:
        if i not in matched and j not in matched:
            matched |= {i, j}
            total -= weight
    return total
