"""A textbook conflict-based search on a networkx graph: the yardstick of `bench.solver`, kept plain on purpose.

Sharon et al., "Conflict-based search for optimal multi-agent pathfinding", AIJ 2015, as its pseudocode has it: best-first over
constraint trees by sum of costs, the earliest conflict first, A* over (node, time) with exact distances as the heuristic.
Optimal and correct on solvable boards; it does not end on unsolvable ones, so it takes a time limit.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Hashable, Sequence
from itertools import combinations, count
from typing import Any

import networkx as nx

Node = Hashable
Constraint = tuple[int, Node, Node, int]
"""Agent, node it comes from (the same as the next for a forbidden node), node, timestep of arrival."""


def naive_cbs(graph: nx.Graph[Any], starts: Sequence[Node], goals: Sequence[Node], time_limit: float) -> list[list[Node]] | None:
    """Return paths of minimal sum of costs, or None after `time_limit` seconds of processor time."""
    end = time.process_time() + time_limit
    distances = [nx.single_source_shortest_path_length(graph, goal) for goal in goals]
    none: frozenset[Constraint] = frozenset()
    paths = [_low_level(graph, agent, starts[agent], goals[agent], distances[agent], none) for agent in range(len(starts))]
    if any(path is None for path in paths):
        return None
    serial = count()
    heap = [(sum(len(path) - 1 for path in paths if path), next(serial), none, paths)]
    while heap and time.process_time() < end:
        _, _, constraints, paths = heapq.heappop(heap)
        conflict = _first_conflict(paths)
        if conflict is None:
            return paths
        for constraint in conflict:
            agent = constraint[0]
            tighter = constraints | {constraint}
            path = _low_level(graph, agent, starts[agent], goals[agent], distances[agent], tighter)
            if path is not None:
                changed = [*paths[:agent], path, *paths[agent + 1 :]]
                heapq.heappush(heap, (sum(len(path) - 1 for path in changed), next(serial), tighter, changed))
    return None


def _low_level(
    graph: nx.Graph[Any], agent: int, start: Node, goal: Node, distance: dict[Node, int], constraints: frozenset[Constraint]
) -> list[Node] | None:
    """Return a shortest path of one agent under its constraints, after whose end it can stay on its goal."""
    forbidden = {(before, after, when) for who, before, after, when in constraints if who == agent}
    last = max((when for _, _, when in forbidden), default=0)
    free_from = 1 + max((when for before, after, when in forbidden if before == after == goal), default=-1)
    horizon = last + len(graph) + 1
    serial = count()
    heap = [(distance[start], next(serial), 0, start)]
    parents: dict[tuple[Node, int], Node | None] = {(start, 0): None}
    while heap:
        _, _, now, node = heapq.heappop(heap)
        if node == goal and now >= free_from:
            path = [node]
            while (before := parents[path[-1], now]) is not None:
                path.append(before)
                now -= 1
            return path[::-1]
        if now == horizon:
            continue
        for after in (*graph.neighbors(node), node):
            when = now + 1
            if (after, when) not in parents and (after, after, when) not in forbidden and (node, after, when) not in forbidden:
                parents[after, when] = node
                heapq.heappush(heap, (when + distance[after], next(serial), when, after))
    return None


def _first_conflict(paths: Sequence[Sequence[Node]]) -> tuple[Constraint, Constraint] | None:
    """Return the earliest conflict as the two constraints that resolve it; agents stay on their goals."""
    for when in range(1, max(map(len, paths))):
        for i, j in combinations(range(len(paths)), 2):
            mine, theirs = _at(paths[i], when), _at(paths[j], when)
            if mine == theirs:
                return (i, mine, mine, when), (j, mine, mine, when)
            before, other_before = _at(paths[i], when - 1), _at(paths[j], when - 1)
            if mine == other_before and theirs == before:
                return (i, before, mine, when), (j, other_before, theirs, when)
    return None


def _at(path: Sequence[Node], when: int) -> Node:
    return path[when] if when < len(path) else path[-1]
