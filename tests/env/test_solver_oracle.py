"""The solver against a joint Dijkstra that shares no code or argument with it; `bench/oracle.py` runs thousands more."""

import random
from dataclasses import replace

import pytest

from envwright.env.solver import Objective, makespan, search, solve, solve_graph
from tests.env.solver_oracle import as_networkx, disagreement, expected, grid, random_board, random_graph


def check_board(rng: random.Random, size: int, agents: int) -> None:
    board = random_board(rng, size, agents)
    graph = grid(board[0], board[1])
    wanted = expected(graph, board[2], board[3])
    for objective in Objective:
        found = solve(*board, objective=objective)
        assert found.objective is objective
        assert disagreement(graph, board[2], board[3], wanted[objective], found) is None


@pytest.mark.parametrize(("size", "agents", "boards"), [(3, 1, 30), (3, 2, 120), (3, 3, 20), (4, 1, 30), (4, 2, 60), (3, 4, 1), (4, 3, 1)])
def test_solver_agrees_with_the_oracle_in_cost_tie_break_and_wait_for_both_objectives(size: int, agents: int, boards: int) -> None:
    rng = random.Random(f"{size}-{agents}")
    for _ in range(boards):
        check_board(rng, size, agents)


def without_cbs(monkeypatch: pytest.MonkeyPatch, joint_nodes: int) -> None:
    """Leaves a board to the joint searches: A* for so many states, then the search by sets of states."""
    for name in ("EASY_NODES", "EASY_PAIR_NODES", "MIN_NODES", "MAX_NODES"):
        monkeypatch.setattr(search, name, 0)
    monkeypatch.setattr(search, "JOINT_NODES", joint_nodes)
    monkeypatch.setattr(makespan, "EASY_NODES", 0)
    monkeypatch.setattr(makespan, "MORE_NODES", 0)


@pytest.mark.parametrize("joint_nodes", [search.JOINT_NODES, 0])
@pytest.mark.parametrize(("size", "agents", "boards"), [(3, 1, 10), (3, 2, 60), (3, 3, 12), (4, 2, 30)])
def test_fallbacks_agree_with_the_oracle_when_cbs_gets_no_nodes(
    monkeypatch: pytest.MonkeyPatch, size: int, agents: int, boards: int, joint_nodes: int
) -> None:
    without_cbs(monkeypatch, joint_nodes)
    rng = random.Random(f"fallback-{size}-{agents}")
    for _ in range(boards):
        check_board(rng, size, agents)


@pytest.mark.parametrize("objective", list(Objective))
def test_crowds_get_the_same_labels_from_cbs_and_from_sets_of_states(monkeypatch: pytest.MonkeyPatch, objective: Objective) -> None:
    rng = random.Random("crowd")
    boards = [random_board(rng, 4, agents) for agents in (3, 4) * 6]
    plain = [solve(*board, objective=objective) for board in boards]
    without_cbs(monkeypatch, 0)
    for board, known in zip(boards, plain, strict=True):
        found = solve(*board, objective=objective)
        assert replace(found, plan=known.plan) == known


@pytest.mark.parametrize(("nodes", "agents", "graphs"), [(5, 2, 60), (6, 2, 60), (6, 3, 10), (5, 4, 6)])
def test_solver_agrees_with_the_oracle_on_graphs_with_odd_cycles(nodes: int, agents: int, graphs: int) -> None:
    rng = random.Random(f"graph-{nodes}-{agents}")
    for _ in range(graphs):
        graph, starts, goals = random_graph(rng, nodes, agents)
        wanted = expected(graph, starts, goals)
        for objective in Objective:
            found = solve_graph(as_networkx(graph), starts, goals, objective=objective)
            assert disagreement(graph, starts, goals, wanted[objective], found) is None


def test_sets_of_states_agree_with_the_oracle_on_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    without_cbs(monkeypatch, 0)
    rng = random.Random("fallback-graph")
    for _ in range(40):
        graph, starts, goals = random_graph(rng, 6, rng.choice((2, 3)))
        wanted = expected(graph, starts, goals)
        for objective in Objective:
            found = solve_graph(as_networkx(graph), starts, goals, objective=objective)
            assert disagreement(graph, starts, goals, wanted[objective], found) is None


def test_a_crowd_that_has_to_walk_about_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    holes = [(2, 2), (1, 4), (2, 1), (4, 3), (1, 3), (0, 1), (3, 1), (0, 4)]
    starts, goals = [(3, 0), (2, 4), (2, 0), (3, 4), (0, 2)], [(1, 0), (4, 2), (4, 0), (3, 0), (3, 4)]
    without_cbs(monkeypatch, 0)  # A* over single states takes ten times as long to find the same
    found = solve(5, holes, starts, goals, label_waits=False)
    assert (found.sum_of_costs, found.sum_of_distances, found.makespan) == (71, 25, 18)
