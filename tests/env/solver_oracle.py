"""A joint Dijkstra that shares no code or argument with the solver, and a plan validator of its own.

The oracle searches over (positions, who has arrived for good) with every combination of moves. Its cost is a pair:
the objective first, then the other figure or the number of waits before arrival. So both minima, their tie-breaks, and
whether every minimal plan waits come without deadlines, caps or parity. It works on any graph: a mapping from node to neighbours.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Hashable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import networkx as nx

from envwright.env.solver import Cell, GraphSolution, Objective, Solution, SolveStatus

MOVES = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}

Node = Hashable
Graph = Mapping[Node, Sequence[Node]]
Place = tuple[Node, bool]
Board = tuple[int, list[Cell], list[Cell], list[Cell]]


class Expected(NamedTuple):
    """What the oracle says of one board and objective."""

    status: SolveStatus
    sum_of_costs: int | None = None
    makespan: int | None = None
    wait_required: bool | None = None


def grid(size: int, holes: Sequence[Cell]) -> dict[Node, list[Node]]:
    free = [(row, col) for row in range(size) for col in range(size) if (row, col) not in holes]
    around: dict[Node, list[Node]] = {}
    for row, col in free:
        around[row, col] = [cell for cell in ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)) if cell in free]
    return around


def node_paths(starts: Sequence[Any], plan: Sequence[str]) -> list[list[Node]]:
    """Returns the cells that action strings lead over, the start first."""
    paths: list[list[Node]] = []
    for (row, col), actions in zip(starts, plan, strict=True):
        path: list[Node] = [(row, col)]
        for action in actions:
            row, col = row + MOVES[action][0], col + MOVES[action][1]
            path.append((row, col))
        paths.append(path)
    return paths


def violation(graph: Graph, starts: Sequence[Node], goals: Sequence[Node], paths: Sequence[Sequence[Node]]) -> str | None:
    """Returns the first thing wrong with a plan of node paths, None when it is valid."""
    if [path[0] for path in paths] != list(starts):
        return "does not begin at the starts"
    before = list(starts)
    for time in range(1, max(map(len, paths))):
        after = [path[min(time, len(path) - 1)] for path in paths]
        for here, there in zip(before, after, strict=True):
            if there != here and there not in graph[here]:
                return f"{there} at {time}"
        if len(set(after)) < len(after):
            return f"vertex conflict at {time}"
        for i, j in product(range(len(paths)), repeat=2):
            if i != j and after[i] == before[j] and after[j] == before[i]:
                return f"swap conflict at {time}"
        before = after
    return "goal not reached" if before != list(goals) else None


def costs(paths: Sequence[Sequence[Node]]) -> list[int]:
    """Returns, for each agent of a valid plan, the timesteps until it is on its last node for good."""
    found = []
    for path in paths:
        time = len(path) - 1
        while time and path[time - 1] == path[-1]:
            time -= 1
        found.append(time)
    return found


def _choices(graph: Graph, place: Place, goal: Node) -> list[tuple[Place, int]]:
    """Lists where an agent may be next, each with the number of waits before arrival that it spends."""
    node, parked = place
    if parked:
        return [(place, 0)]
    found: list[tuple[Place, int]] = [((node, False), 1)]
    for other in graph[node]:
        found.append(((other, False), 0))
        if other == goal:
            found.append(((other, True), 0))
    return found


def least(graph: Graph, starts: Sequence[Node], goals: Sequence[Node], first: str, second: str) -> tuple[int, int] | None:
    """Returns the least pair of two of "sum", "time" and "waits", the first one decisive; None when there is no plan."""
    options = [[(s, False), (s, True)] if s == g else [(s, False)] for s, g in zip(starts, goals, strict=True)]
    best: dict[tuple[Place, ...], tuple[int, int]] = dict.fromkeys(product(*options), (0, 0))
    heap = [((0, 0), number, state) for number, state in enumerate(best)]
    serial = len(heap)
    known: list[dict[Place, list[tuple[Place, int]]]] = [{} for _ in starts]
    while heap:
        cost, _, state = heapq.heappop(heap)
        if cost > best[state]:
            continue
        if all(parked for _, parked in state):
            return cost
        active = sum(not parked for _, parked in state)
        for agent, place in enumerate(state):
            if place not in known[agent]:
                known[agent][place] = _choices(graph, place, goals[agent])
        partial: list[tuple[tuple[Place, ...], int]] = [((), 0)]
        for agent, (node, _) in enumerate(state):
            partial = [
                ((*chosen, place), waits + wait)
                for chosen, waits in partial
                for place, wait in known[agent][state[agent]]
                if not any(place[0] == other or (place[0] == state[k][0] and other == node) for k, (other, _) in enumerate(chosen))
            ]
        for child, waits in partial:
            growth = {"sum": active, "time": 1, "waits": waits}
            spent = (cost[0] + growth[first], cost[1] + growth[second])
            if child not in best or spent < best[child]:
                best[child] = spent
                serial += 1
                heapq.heappush(heap, (spent, serial, child))
    return None


def expected(graph: Graph, starts: Sequence[Node], goals: Sequence[Node]) -> dict[Objective, Expected]:
    """Returns what the oracle says about both objectives."""
    cheapest = least(graph, starts, goals, "sum", "time")
    if cheapest is None:
        return dict.fromkeys(Objective, Expected(SolveStatus.UNSOLVABLE))
    calm, shortest, brisk = (least(graph, starts, goals, *order) for order in (("sum", "waits"), ("time", "sum"), ("time", "waits")))
    assert calm is not None
    assert shortest is not None
    assert brisk is not None
    assert (calm[0], brisk[0]) == (cheapest[0], shortest[0])
    return {
        Objective.SUM_OF_COSTS: Expected(SolveStatus.OPTIMAL, cheapest[0], cheapest[1], calm[1] > 0),
        Objective.MAKESPAN: Expected(SolveStatus.OPTIMAL, shortest[1], shortest[0], brisk[1] > 0),
    }


def random_board(rng: random.Random, size: int, agents: int) -> Board:
    """Draws a board on which nothing but the rules of an instance holds: it may be unsolvable."""
    cells = [(row, col) for row in range(size) for col in range(size)]
    rng.shuffle(cells)
    holes = cells[: rng.randint(0, size * size // 2)]
    free = cells[len(holes) :]
    if len(free) < agents:
        return random_board(rng, size, agents)
    return size, holes, rng.sample(free, agents), rng.sample(free, agents)


def random_graph(rng: random.Random, nodes: int, agents: int) -> tuple[dict[Node, list[Node]], list[Node], list[Node]]:
    """Draws a sparse graph with odd cycles as often as not; it may fall into parts. Nodes are strings."""
    names: list[Node] = [f"n{index}" for index in range(nodes)]
    graph: dict[Node, list[Node]] = {name: [] for name in names}
    pairs = [(a, b) for index, a in enumerate(names) for b in names[:index]]
    for a, b in rng.sample(pairs, rng.randint(nodes - 2, min(len(pairs), nodes + 3))):
        graph[a].append(b)
        graph[b].append(a)
    return graph, rng.sample(names, agents), rng.sample(names, agents)


def as_networkx(graph: Graph) -> nx.Graph[Node]:
    made: nx.Graph[Node] = nx.Graph()
    made.add_nodes_from(graph)
    made.add_edges_from((node, other) for node in graph for other in graph[node])
    return made


def disagreement(
    graph: Graph, starts: Sequence[Node], goals: Sequence[Node], wanted: Expected, found: Solution | GraphSolution[Node]
) -> str | None:
    """Returns how the solver and the oracle differ, None when they agree and the plan is valid and has the figures told."""
    got = Expected(found.status, found.sum_of_costs, found.makespan, found.wait_required)
    if got != wanted:
        return f"{graph} {starts} {goals}: oracle {wanted}, solver {got}"
    if isinstance(found, Solution):
        paths: Sequence[Sequence[Node]] | None = None if found.plan is None else node_paths(starts, found.plan)
    else:
        paths = found.plan
    if paths is None:
        return None
    wrong = violation(graph, starts, goals, paths)
    if wrong is None and costs(paths) != [len(path) - 1 for path in paths]:
        wrong = "a path goes on after its arrival"
    if wrong is None and (sum(costs(paths)), max(costs(paths))) != (found.sum_of_costs, found.makespan):
        wrong = "the plan does not cost what it should"
    return f"{graph} {starts} {goals}: {wrong}, {paths}" if wrong else None
