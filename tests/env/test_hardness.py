"""Hardness figures against enumeration of every shortest path, with networkx."""

from itertools import combinations, product

import networkx as nx
import pytest
from hypothesis import given

from envwright.env.hardness import Hardness, conflict_density, excess, measure_hardness, shortest_path_counts
from envwright.env.instance import Cell, Instance
from tests.env.boards import FEW, instance_of, instances

Path = list[Cell]


def graph_of(instance: Instance) -> "nx.Graph[Cell]":
    graph = nx.grid_2d_graph(instance.size, instance.size)
    graph.remove_nodes_from(instance.holes)
    return graph


def collide(first: Path, second: Path) -> bool:
    """True when two agents on these paths, parked at their ends, share a cell or exchange cells."""
    length = max(len(first), len(second))
    a, b = (path + [path[-1]] * (length - len(path)) for path in (first, second))
    return any(a[t] == b[t] or (t and a[t] == b[t - 1] and a[t - 1] == b[t]) for t in range(length))


def density_by_enumeration(instance: Instance) -> float:
    graph = graph_of(instance)
    paths = [list(nx.all_shortest_paths(graph, s, g)) for s, g in zip(instance.starts, instance.goals, strict=True)]
    chances = []
    for first, second in combinations(paths, 2):
        pairs = list(product(first, second))
        chances.append(sum(collide(a, b) for a, b in pairs) / len(pairs))
    return sum(chances) / len(chances) if chances else 0.0


@FEW
@given(instances(largest=4, most_agents=3))
def test_conflict_density_is_the_share_of_colliding_pairs_of_shortest_paths(instance: Instance) -> None:
    assert conflict_density(instance) == pytest.approx(density_by_enumeration(instance), abs=1e-12)


@FEW
@given(instances(largest=5))
def test_excess_is_what_the_optimum_costs_beyond_the_distances(instance: Instance) -> None:
    graph = graph_of(instance)
    distances = [nx.shortest_path_length(graph, s, g) for s, g in zip(instance.starts, instance.goals, strict=True)]
    assert excess(instance) == instance.optimal_cost - sum(distances) >= 0


@FEW
@given(instances(largest=5))
def test_shortest_paths_are_counted_agent_by_agent(instance: Instance) -> None:
    graph = graph_of(instance)
    paths = [list(nx.all_shortest_paths(graph, s, g)) for s, g in zip(instance.starts, instance.goals, strict=True)]
    assert shortest_path_counts(instance) == tuple(len(found) for found in paths)


def test_paths_on_an_open_board_are_counted_by_the_binomial_coefficient() -> None:
    assert shortest_path_counts(instance_of("a.... ..... ....b ..... .....", "ab", "ba")) == (15, 15)


def test_agents_that_must_meet_have_density_1_and_lone_agents_0() -> None:
    assert conflict_density(instance_of("ab ..", "ab", "ba")) == 1.0
    assert conflict_density(instance_of("ab ..", "ab")) == 0.0
    assert conflict_density(instance_of("a.b ... c.d", "ab", "cd")) == 0.0


def test_the_figures_of_a_set_are_means() -> None:
    meeting = instance_of("ab ..", "ab", "ba")
    apart = instance_of("a.b .#. c.d", "ab", "cd")
    assert measure_hardness([meeting, apart]) == Hardness(
        instances=2,
        hole_ratio=1 / 18,
        wait_ratio=0.0,
        optimal_cost=4.0,
        optimal_makespan=2.5,
        excess=1.0,
        conflict_density=0.5,
        shortest_paths=1.0,
    )
    assert measure_hardness([]) is None


def test_the_mean_number_of_shortest_paths_is_geometric() -> None:
    six_and_one = instance_of("a.. ... c.b", "ab", "ca")
    measured = measure_hardness([six_and_one, instance_of("ab ..", "ab")])
    assert shortest_path_counts(six_and_one) == (6, 1)
    assert measured is not None
    assert measured.shortest_paths == pytest.approx(6.0**0.25)
