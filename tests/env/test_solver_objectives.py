"""The makespan, general graphs and time limits: what `solve` and `solve_graph` promise beyond the sum of costs on small grids."""

import time

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.grading import grade_completion, solution_answer
from envwright.env.graph import to_networkx
from envwright.env.instance import Board, label_board
from envwright.env.rules import Outcome, paths_from_moves, simulate
from envwright.env.solver import Objective, SolveStatus, solve, solve_graph
from tests.env.boards import FEW, boards
from tests.env.solver_oracle import costs, grid, node_paths, violation


def test_objectives_disagree_where_a_fast_plan_costs_more() -> None:
    board = (3, [(2, 2)], [(2, 0), (1, 1)], [(1, 2), (1, 1)])  # the second agent starts on its goal, in the first one's way
    around = solve(*board)
    through = solve(*board, objective="makespan")
    assert (around.objective, around.sum_of_costs, around.makespan, around.wait_required) == ("sum_of_costs", 5, 5, False)
    assert (through.objective, through.sum_of_costs, through.makespan, through.wait_required) == ("makespan", 6, 3, True)


def test_unsolvable_boards_are_proved_so_for_the_makespan() -> None:
    block = [(0, 0), (0, 1), (1, 0), (1, 1)]
    found = solve(2, [], block, [block[1], block[0], block[2], block[3]], objective=Objective.MAKESPAN)
    assert (found.status, found.plan, found.makespan) == (SolveStatus.UNSOLVABLE, None, None)


def test_an_unknown_objective_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match="objective must be one of sum_of_costs, makespan, got 'fastest'"):
        solve(2, [], [(0, 0)], [(0, 1)], objective="fastest")


def test_three_agents_rotate_on_a_triangle_but_two_cannot_swap_on_an_edge() -> None:
    triangle: nx.Graph[str] = nx.Graph([("a", "b"), ("b", "c"), ("c", "a")])
    found = solve_graph(triangle, ["a", "b", "c"], ["b", "c", "a"])
    assert (found.sum_of_costs, found.makespan, found.wait_required) == (3, 1, False)
    assert found.plan == (("a", "b"), ("b", "c"), ("c", "a"))
    edge: nx.Graph[str] = nx.Graph([("a", "b")])
    assert solve_graph(edge, ["a", "b"], ["b", "a"]).status is SolveStatus.UNSOLVABLE


@pytest.mark.parametrize(
    ("starts", "goals", "message"),
    [
        (["a"], ["x"], "goal of agent 0 'x' is not a node of the graph"),
        (["a", "a"], ["a", "b"], "agents 0 and 1 have the same start 'a'"),
        (["a"], [], "1 starts but 0 goals"),
    ],
)
def test_bad_agents_on_a_graph_are_refused_with_the_value(starts: list[str], goals: list[str], message: str) -> None:
    graph: nx.Graph[str] = nx.Graph([("a", "b")])
    with pytest.raises(ValueError, match=message):
        solve_graph(graph, starts, goals)


def test_directed_graphs_are_refused() -> None:
    with pytest.raises(ValueError, match="must be undirected"):
        solve_graph(nx.DiGraph([("a", "b")]), ["a"], ["b"])


@FEW
@given(boards(largest=4, most_agents=3), st.sampled_from(Objective))
def test_a_grid_as_a_graph_gets_the_answers_of_the_grid(board: Board, objective: Objective) -> None:
    plain = solve(board.size, board.holes, board.starts, board.goals, objective=objective)
    graph = solve_graph(to_networkx(board), board.starts, board.goals, objective=objective)
    assert (plain.status, plain.sum_of_costs, plain.makespan, plain.wait_required, plain.sum_of_distances) == (
        graph.status,
        graph.sum_of_costs,
        graph.makespan,
        graph.wait_required,
        graph.sum_of_distances,
    )


@FEW
@given(boards(largest=4, most_agents=3), st.sampled_from(Objective), st.data())
def test_solver_simulator_grader_and_validator_agree_on_every_plan(board: Board, objective: Objective, data: st.DataObject) -> None:
    found = solve(board.size, board.holes, board.starts, board.goals, objective=objective)
    if found.plan is None:
        assert found.status is SolveStatus.UNSOLVABLE
        return
    plan = [list(letters) for letters in found.plan]
    if data.draw(st.booleans()):  # spoil it
        actions = plan[data.draw(st.integers(0, len(plan) - 1))]
        actions.insert(data.draw(st.integers(0, len(actions))), data.draw(st.sampled_from("UDLRW")))
    letters = tuple("".join(actions) for actions in plan)
    seen = simulate(board, paths_from_moves(board.starts, plan))
    wrong = violation(grid(board.size, board.holes), board.starts, board.goals, node_paths(board.starts, letters))
    grade = grade_completion(label_board(board, "drawn"), solution_answer(letters))
    assert (wrong is None) == (seen.violation is None) == grade.outcome.valid
    if wrong is not None:
        assert (grade.outcome, grade.failure_step, grade.failure_agents) == (seen.violation, seen.step, seen.agents)
        assert wrong == "goal not reached" or wrong.endswith(f"at {seen.step}")
        return
    spent = costs(node_paths(board.starts, letters))
    assert (seen.sum_of_costs, seen.makespan) == (grade.cost, grade.makespan) == (sum(spent), max(spent))
    if letters == found.plan:
        assert (sum(spent), max(spent)) == (found.sum_of_costs, found.makespan)
        assert grade.outcome is Outcome.OPTIMAL or objective is Objective.MAKESPAN


@pytest.mark.parametrize("objective", list(Objective))
def test_a_time_limit_holds_on_a_large_board_with_many_agents(objective: Objective) -> None:
    size, agents = 64, 30
    starts = [(0, col) for col in range(agents)]
    goals = starts[::-1]
    holes = [(row, col) for row in range(3, size) for col in range(0, size, 2)]
    begin = time.process_time()
    found = solve(size, holes, starts, goals, objective=objective, time_limit=1.0)
    assert time.process_time() - begin < 1.5
    assert found.status in (SolveStatus.BUDGET, SolveStatus.OPTIMAL)
