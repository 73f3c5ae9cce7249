"""How hard instances are: exact figures that do not depend on a policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from pydantic import Field

from envwright.env.base import FrozenModel
from envwright.env.independent import Mdd, cell_bits, shortest_mdd
from envwright.env.instance import Instance

__all__ = ["Hardness", "conflict_density", "excess", "measure_hardness", "shortest_path_counts"]

Cell = tuple[int, int]


class Hardness(FrozenModel):
    """Means over a set of instances."""

    instances: int = Field(ge=0)
    """Number of instances."""
    hole_ratio: float
    """Mean share of cells that are holes, as measured."""
    wait_ratio: float
    """Share of instances in which every optimal plan must wait, as measured."""
    optimal_cost: float
    """Mean minimal sum of costs, in timesteps."""
    optimal_makespan: float
    """Mean makespan of the optimal plans, in timesteps."""
    excess: float
    """Mean of optimal cost minus the sum of the agents' shortest distances, in timesteps: what coordination costs."""
    conflict_density: float
    """Mean chance that two agents collide when each walks a uniformly random shortest path, 0 to 1."""
    shortest_paths: float = Field(ge=1.0)
    """Geometric mean, over instances and agents, of an agent's number of shortest paths alone on the board: room to dodge at no cost."""


def measure_hardness(instances: Sequence[Instance]) -> Hardness | None:
    """Return the means over `instances`, or None when there are none."""
    n = len(instances)
    if n == 0:
        return None
    return Hardness(
        instances=n,
        hole_ratio=sum(instance.hole_ratio for instance in instances) / n,
        wait_ratio=sum(instance.wait_required for instance in instances) / n,
        optimal_cost=sum(instance.optimal_cost for instance in instances) / n,
        optimal_makespan=sum(instance.optimal_makespan for instance in instances) / n,
        excess=sum(excess(instance) for instance in instances) / n,
        conflict_density=sum(conflict_density(instance) for instance in instances) / n,
        shortest_paths=math.exp(sum(_mean_log(shortest_path_counts(instance)) for instance in instances) / n),
    )


def excess(instance: Instance) -> int:
    """Return the optimal cost minus the sum of the agents' shortest distances, in timesteps."""
    return instance.optimal_cost - _figures(instance.size, instance.holes, instance.starts, instance.goals).distances


def conflict_density(instance: Instance) -> float:
    """Return the mean, over pairs of agents, of the chance that two independent uniformly random shortest paths collide.

    Exact: a dynamic program over the pair's positions, where a path steps to a cell with the share of shortest paths
    that go on through it. Agents stay at their goals. 0 for a single agent.
    """
    return _figures(instance.size, instance.holes, instance.starts, instance.goals).density


def shortest_path_counts(instance: Instance) -> tuple[int, ...]:
    """Return how many shortest paths each agent has alone on the board, in the order of the agents; 1 for an agent at its goal."""
    return _figures(instance.size, instance.holes, instance.starts, instance.goals).counts


def _mean_log(counts: tuple[int, ...]) -> float:
    return sum(math.log(count) for count in counts) / len(counts)


class _Figures(NamedTuple):
    """What is remembered of a board."""

    distances: int
    density: float
    counts: tuple[int, ...]


@lru_cache(maxsize=65_536)
def _figures(size: int, holes: tuple[Cell, ...], starts: tuple[Cell, ...], goals: tuple[Cell, ...]) -> _Figures:
    """Measure a board."""
    hole_set = frozenset(holes)
    mdds = _mdds(size, hole_set, starts, goals)
    walks = [_transitions(size, hole_set, start, goal) for start, goal in zip(starts, goals, strict=True)]
    distances = sum(len(mdd) - 1 for mdd in mdds)
    counts = tuple(count for _, count in walks)
    pairs = list(combinations(range(len(starts)), 2))
    if not pairs:
        return _Figures(distances, 0.0, counts)
    meeting = [(i, j) for i, j in pairs if _may_meet(mdds[i], mdds[j])]
    density = sum(_collision(walks[i][0], walks[j][0], starts[i], starts[j]) for i, j in meeting) / len(pairs)
    return _Figures(distances, density, counts)


def _mdds(size: int, holes: frozenset[Cell], starts: tuple[Cell, ...], goals: tuple[Cell, ...]) -> list[Mdd]:
    """Return each agent's cells on shortest paths, timestep by timestep."""
    bits = cell_bits(size)
    free = sum(bits[row * size + col] for row in range(size) for col in range(size) if (row, col) not in holes)
    mdds = []
    for start, goal in zip(starts, goals, strict=True):
        mdd = shortest_mdd(free, size + 1, bits[start[0] * size + start[1]], bits[goal[0] * size + goal[1]])
        if mdd is None:
            raise ValueError(f"goal {goal} cannot be reached from {start}")
        mdds.append(mdd)
    return mdds


def _may_meet(first: Mdd, second: Mdd) -> bool:
    """False when no two shortest paths of the agents can share a cell or exchange cells: most pairs on large boards."""
    before, other_before = 0, 0
    for time in range(max(len(first), len(second))):
        here, other = first[min(time, len(first) - 1)], second[min(time, len(second) - 1)]
        if here & other or (here & other_before and before & other):
            return True
        before, other_before = here, other
    return False


def _transitions(size: int, holes: frozenset[Cell], start: Cell, goal: Cell) -> tuple[dict[Cell, tuple[tuple[Cell, float], ...]], int]:
    """Per cell on a shortest path from `start`, the next cells and their chances; the goal goes to itself.

    Returns:
        The transitions, and the number of shortest paths.
    """
    order = [goal]
    distance = {goal: 0}
    for cell in order:
        for near in _neighbours(cell, size, holes):
            if near not in distance:
                distance[near] = distance[cell] + 1
                order.append(near)
    paths = {goal: 1}
    result: dict[Cell, tuple[tuple[Cell, float], ...]] = {goal: ((goal, 1.0),)}
    for cell in order[1:]:
        if distance[cell] > distance[start]:
            break
        closer = [near for near in _neighbours(cell, size, holes) if distance[near] == distance[cell] - 1]
        paths[cell] = sum(paths[near] for near in closer)
        result[cell] = tuple((near, paths[near] / paths[cell]) for near in closer)
    return result, paths[start]


def _neighbours(cell: Cell, size: int, holes: frozenset[Cell]) -> list[Cell]:
    row, col = cell
    around = ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1))
    return [(r, c) for r, c in around if 0 <= r < size and 0 <= c < size and (r, c) not in holes]


def _collision(
    first: dict[Cell, tuple[tuple[Cell, float], ...]], second: dict[Cell, tuple[tuple[Cell, float], ...]], a: Cell, b: Cell
) -> float:
    """Chance that two random shortest paths share a cell at a timestep or exchange cells."""
    alive = {(a, b): 1.0}
    while any(u not in dict(first[u]) or v not in dict(second[v]) for u, v in alive):
        following: dict[tuple[Cell, Cell], float] = {}
        for (u, v), mass in alive.items():
            for x, p in first[u]:
                for y, q in second[v]:
                    if x != y and not (x == v and y == u):
                        following[x, y] = following.get((x, y), 0.0) + mass * p * q
        alive = following
    return max(0.0, 1.0 - sum(alive.values()))
