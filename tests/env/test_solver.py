"""What `solve` and `BitBoard` promise, on boards small enough to check by eye."""

import pytest

from envwright.env.solver import BitBoard, Cell, Solution, SolveStatus, solve

CORRIDOR_WITH_BAY: list[Cell] = [(1, 0), (1, 2), (2, 0), (2, 1), (2, 2)]
"""Row 0 of a 3x3 board, and the bay (1, 1) below its middle."""


def test_lone_agent_takes_a_shortest_path() -> None:
    assert solve(3, [(1, 1)], [(0, 0)], [(2, 0)]) == Solution(
        status=SolveStatus.OPTIMAL, sum_of_costs=2, makespan=2, wait_required=False, plan=("DD",), sum_of_distances=2
    )


def test_agent_that_starts_on_its_goal_and_stays_has_an_empty_plan() -> None:
    assert solve(2, [], [(0, 0), (1, 0)], [(0, 0), (1, 1)]).plan == ("", "R")


def test_agent_leaves_its_goal_to_let_another_one_pass() -> None:
    found = solve(3, CORRIDOR_WITH_BAY, [(0, 1), (0, 0)], [(0, 1), (0, 2)])
    assert (found.sum_of_costs, found.makespan, found.plan) == (4, 2, ("DU", "RR"))


def test_following_is_legal() -> None:
    found = solve(3, [(1, 0), (1, 1), (1, 2)], [(0, 0), (0, 1)], [(0, 1), (0, 2)])
    assert (found.sum_of_costs, found.plan) == (2, ("R", "R"))


def test_full_block_of_four_rotates() -> None:
    block = [(0, 0), (0, 1), (1, 1), (1, 0)]
    found = solve(2, [], block, block[1:] + block[:1])
    assert (found.sum_of_costs, found.makespan, found.wait_required) == (4, 1, False)


def test_full_block_of_four_cannot_exchange_two_agents() -> None:
    block = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert solve(2, [], block, [block[1], block[0], block[2], block[3]]).status is SolveStatus.UNSOLVABLE


def test_swap_in_a_corridor_is_proved_unsolvable() -> None:
    corridor = [(row, col) for row in range(1, 6) for col in range(6)]
    found = solve(6, corridor, [(0, 0), (0, 5)], [(0, 5), (0, 0)])
    assert found == Solution(SolveStatus.UNSOLVABLE, None, None, None, None, 10)


def test_goal_in_another_component_is_unsolvable_without_a_sum_of_distances() -> None:
    found = solve(3, [(0, 1), (1, 1), (2, 1)], [(0, 0)], [(0, 2)])
    assert found == Solution(SolveStatus.UNSOLVABLE, None, None, None, None, None)


def test_components_are_solved_apart_and_added_up() -> None:
    found = solve(3, [(0, 1), (1, 1), (2, 1)], [(0, 0), (0, 2), (2, 0)], [(1, 0), (2, 2), (2, 0)])
    assert found == Solution(SolveStatus.OPTIMAL, 3, 2, False, ("D", "DD", ""), 3)


def test_even_excess_without_a_wait_is_told_from_one_with() -> None:
    exchange = solve(2, [], [(0, 0), (0, 1)], [(0, 1), (0, 0)])
    assert (exchange.sum_of_costs, exchange.sum_of_distances, exchange.wait_required) == (4, 2, False)


def test_labels_not_asked_for_are_none_and_not_undecided() -> None:
    found = solve(3, [], [(0, 0), (0, 2)], [(0, 2), (0, 0)], label_waits=False, break_ties=False)
    assert (found.status, found.makespan, found.wait_required, found.undecided) == (SolveStatus.OPTIMAL, None, None, ())


def test_spent_node_budget_is_neither_optimal_nor_unsolvable() -> None:
    found = solve(3, [], [(0, 0), (0, 1), (0, 2)], [(0, 2), (0, 1), (0, 0)], node_limit=0)
    assert found == Solution(SolveStatus.BUDGET, None, None, None, None, 4)


def test_budget_spent_on_labels_leaves_the_cost_and_names_them() -> None:
    board = (3, [(2, 0)], [(0, 0), (0, 1), (0, 2)], [(0, 2), (0, 1), (0, 0)])
    answers = [solve(*board, node_limit=limit) for limit in range(200)]
    whole = solve(*board)
    partial = [found for found in answers if found.undecided]
    assert partial
    for found in partial:
        assert found.sum_of_costs == whole.sum_of_costs
        assert (found.makespan is None) == ("makespan" in found.undecided)
        assert (found.wait_required is None) == ("wait_required" in found.undecided)
    assert answers[-1] == whole


def test_spent_time_budget_is_reported() -> None:
    assert solve(2, [], [(0, 0), (0, 1)], [(0, 1), (0, 0)], time_limit=0.0).status is SolveStatus.BUDGET


def test_full_board_exchanges_two_agents_by_rotations() -> None:
    cells = [(row, col) for row in range(3) for col in range(3)]
    found = solve(3, [], cells, [cells[1], cells[0], *cells[2:]])
    assert (found.sum_of_costs, found.makespan) == (16, 3)


def test_repeated_calls_and_a_reused_board_give_the_same_answer() -> None:
    size, holes = 4, [(1, 1), (2, 2)]
    starts, goals = [(0, 0), (3, 3), (0, 3)], [(3, 3), (0, 0), (3, 0)]
    board = BitBoard(size, holes)
    assert (
        solve(size, holes, starts, goals)
        == solve(size, holes, starts, goals, board=board)
        == solve(size, holes, starts, goals, board=board)
    )


@pytest.mark.parametrize(
    ("starts", "goals", "message"),
    [
        ([(0, 3)], [(0, 0)], r"start of agent 0 \(0, 3\) is off the board of size 3"),
        ([(0, 0)], [(-1, 0)], r"goal of agent 0 \(-1, 0\) is off the board"),
        ([(1, 1)], [(0, 0)], r"start of agent 0 \(1, 1\) is a hole"),
        ([(0, 0), (0, 0)], [(0, 1), (0, 2)], r"agents 0 and 1 have the same start \(0, 0\)"),
        ([(0, 0), (0, 1)], [(0, 2), (0, 2)], r"agents 0 and 1 have the same goal \(0, 2\)"),
        ([(0, 0), (0, 1)], [(0, 2)], "2 starts but 1 goals"),
        ([], [], "at least 1 agent"),
    ],
)
def test_bad_agents_are_refused_with_the_value(starts: list[Cell], goals: list[Cell], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve(3, [(1, 1)], starts, goals)


def test_bad_boards_are_refused_with_the_value() -> None:
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        solve(0, [], [(0, 0)], [(0, 0)])
    with pytest.raises(ValueError, match=r"hole \(3, 0\) is off the board of size 3"):
        solve(3, [(3, 0)], [(0, 0)], [(0, 0)])
    with pytest.raises(ValueError, match="is not the one"):
        solve(3, [], [(0, 0)], [(0, 0)], board=BitBoard(3, [(1, 1)]))


def test_bitboard_counts_steps_around_holes() -> None:
    board = BitBoard(3, [(0, 1), (1, 1)])
    assert board.distance((0, 0), (0, 2)) == 6
    assert board.distance((0, 0), (0, 0)) == 0
    assert [layer.bit_count() for layer in board.layers((0, 0))] == [1] * 7
    assert board.cell(board.index((2, 1))) == (2, 1)
    assert board.bit((2, 1)) == 1 << board.index((2, 1))


def test_bitboard_does_not_wrap_around_rows() -> None:
    board = BitBoard(2, [(0, 0), (1, 1)])
    assert board.distance((0, 1), (1, 0)) is None
    assert board.components() == [board.bit((0, 1)), board.bit((1, 0))]
    assert board.component((0, 1)) == board.bit((0, 1))
    assert board.component((0, 0)) == 0
