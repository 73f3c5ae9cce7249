"""Exact joint costs of two agents from every pair of places: the joint search's heuristic.

Each table is a pattern database (Culberson and Schaeffer, 1998) of two agents. The agents of disjoint pairs can
be added up, so the best matching of the agents into pairs gives a consistent bound on the sum of costs.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

PARKED = -1
"""The place of an agent that has arrived for good."""

PairCosts: TypeAlias = dict[tuple[int, ...], int]
"""The places of two agents to the least joint cost left."""


class Step(NamedTuple):
    """What one agent may do in a timestep."""

    growth: int  # of the lower bound on the agent's cost
    place: int  # its cell index, or PARKED
    cell: int


def _predecessors(
    first: Mapping[int, Iterable[Step]], second: Mapping[int, Iterable[Step]], goal: int, other_goal: int
) -> defaultdict[tuple[int, int], list[tuple[int, int]]]:
    """Maps each pair of places to those that one conflict-free timestep leads from."""
    before: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for place, steps in first.items():
        cell = goal if place == PARKED else place
        for other, other_steps in second.items():
            other_cell = other_goal if other == PARKED else other
            if cell == other_cell:
                continue
            for _, after, to in steps:
                for _, other_after, other_to in other_steps:
                    if to != other_to and (to != other_cell or other_to != cell):
                        before[after, other_after].append((place, other))
    return before


def pair_costs(first: Mapping[int, Iterable[Step]], second: Mapping[int, Iterable[Step]], goal: int, other_goal: int) -> PairCosts:
    """Returns the least joint cost left for two agents; a pair of places from which there is no way is missing.

    Args:
        first: The steps of an agent from every place.
        second: The same of another agent.
        goal: The first agent's goal, as a cell index.
        other_goal: The second agent's goal.
    """
    before = _predecessors(first, second, goal, other_goal)
    costs: PairCosts = {(PARKED, PARKED): 0}
    frontier = [[(PARKED, PARKED)], [], []]  # the pairs at the current cost, one and two above it
    cost = 0
    while any(frontier):
        for pair in frontier[0]:
            if costs[pair] < cost:
                continue
            for source in before[pair]:
                weight = (source[0] != PARKED) + (source[1] != PARKED)
                if weight and cost + weight < costs.get(source, cost + weight + 1):
                    costs[source] = cost + weight
                    frontier[weight].append(source)
        frontier = [frontier[1], frontier[2], []]
        cost += 1
    return costs


def pair_times(first: Mapping[int, Iterable[Step]], second: Mapping[int, Iterable[Step]], goal: int, other_goal: int) -> PairCosts:
    """Returns the fewest timesteps until both of two agents have arrived for good; the arguments are those of `pair_costs`."""
    before = _predecessors(first, second, goal, other_goal)
    times: PairCosts = {(PARKED, PARKED): 0}
    order = [(PARKED, PARKED)]
    for pair in order:
        for source in before[pair]:
            if source not in times:
                times[source] = times[pair] + 1
                order.append(source)
    return times


def matchings(agents: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Lists the ways to put agents into disjoint pairs, leaving at most one out."""
    if len(agents) < 2:
        return [[]]
    first, rest = agents[0], agents[1:]
    found = [[(first, partner), *others] for partner in rest for others in matchings([agent for agent in rest if agent != partner])]
    if len(agents) % 2:
        found += matchings(rest)
    return found
