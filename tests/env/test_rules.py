"""The rules: what breaks them, in which order, and what a plan costs."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.grading import judge
from envwright.env.instance import Board
from envwright.env.rules import MOVES, Outcome, Simulation, paths_from_moves, simulate
from tests.env.boards import FEW, board_of, boards, instances
from tests.env.reference import reference_verdict


def carried_out(board: Board, *plan: str | Sequence[str]) -> Simulation:
    return simulate(board, paths_from_moves(board.starts, plan))


def broken(outcome: Outcome, step: int, *agents: int) -> Simulation:
    return Simulation(outcome, step, agents, None)


def valid(*costs: int) -> Simulation:
    return Simulation(None, None, (), costs)


CROWD = board_of("a..fg ....z .b#.. ..... c.d..", "za", "ab", "bc", "cd", "df", "fg", "gz")
"""Agents 0 to 6 at z, a, b, c, d, f, g: each violation can happen at timestep 1."""
AT_ONCE = [
    (Outcome.ILLEGAL_MOVE, {0: "X"}),
    (Outcome.OUT_OF_BOUNDS, {1: "U"}),
    (Outcome.HOLE, {2: "R"}),
    (Outcome.VERTEX_CONFLICT, {3: "R", 4: "L"}),
    (Outcome.SWAP_CONFLICT, {5: "R", 6: "L"}),
]


@pytest.mark.parametrize("first", range(len(AT_ONCE)))
def test_within_a_timestep_violations_count_in_the_documented_order(first: int) -> None:
    moves = {agent: move for _, culprits in AT_ONCE[first:] for agent, move in culprits.items()}
    outcome, culprits = AT_ONCE[first]
    assert carried_out(CROWD, *(moves.get(agent, "W") for agent in range(7))) == broken(outcome, 1, *culprits)


@pytest.mark.parametrize("later", range(len(AT_ONCE)))
def test_the_earliest_timestep_decides_whatever_breaks_later(later: int) -> None:
    _, culprits = AT_ONCE[later]
    plan = {agent: "W" + move for agent, move in culprits.items()} | {5: "R", 6: "L"}
    assert carried_out(CROWD, *(plan.get(agent, "") for agent in range(7))) == broken(Outcome.SWAP_CONFLICT, 1, 5, 6)


def test_an_unknown_action_is_illegal_at_its_own_timestep() -> None:
    board = board_of("a.b ... ...", "ab")
    assert carried_out(board, "RXR") == broken(Outcome.ILLEGAL_MOVE, 2, 0)


def test_a_jump_between_cells_is_illegal_even_off_the_board_or_into_a_hole() -> None:
    board = board_of("a.b .#. ...", "ab")
    for cell in ((0, 2), (1, 1), (0, 5)):
        assert simulate(board, [[cell]]) == broken(Outcome.ILLEGAL_MOVE, 1, 0)


def test_every_agent_that_breaks_the_same_rule_is_named() -> None:
    board = board_of("a.b ... c.d", "ab", "bc", "cd", "da")
    assert carried_out(board, "U", "W", "D", "R") == broken(Outcome.OUT_OF_BOUNDS, 1, 0, 2, 3)
    assert carried_out(board_of("a.b ... .c.", "ab", "bc", "ca"), "RD", "LD", "U") == broken(Outcome.VERTEX_CONFLICT, 1, 0, 1)
    assert carried_out(board_of(".a. b.c .d.", "ab", "bc", "cd", "da"), "D", "R", "L", "W") == broken(Outcome.VERTEX_CONFLICT, 1, 0, 1, 2)


def test_a_waiting_agent_can_be_hit() -> None:
    assert carried_out(board_of("ab. ... ...", "ab", "ba"), "R", "W") == broken(Outcome.VERTEX_CONFLICT, 1, 0, 1)


def test_a_parked_agent_can_be_hit_after_its_plan_has_ended() -> None:
    board = board_of("ab. .c. ...", "ab", "bc")
    assert carried_out(board, "WWR", "") == broken(Outcome.VERTEX_CONFLICT, 3, 0, 1)


def test_exchanging_cells_is_a_swap_conflict() -> None:
    assert carried_out(board_of("ab ..", "ab", "ba"), "R", "L") == broken(Outcome.SWAP_CONFLICT, 1, 0, 1)


def test_following_is_legal() -> None:
    assert carried_out(board_of("abc ... ...", "ab", "bc"), "R", "R") == valid(1, 1)


@pytest.mark.parametrize(
    ("board", "plan"),
    [
        (board_of("ab dc", "ab", "bc", "cd", "da"), ("R", "D", "L", "U")),
        (board_of("abc h.d gfe", "ab", "bc", "cd", "de", "ef", "fg", "gh", "ha"), ("R", "R", "D", "D", "L", "L", "U", "U")),
    ],
)
def test_a_rotation_is_legal(board: Board, plan: tuple[str, ...]) -> None:
    assert carried_out(board, *plan) == valid(*[1] * board.num_agents)


def test_an_agent_that_never_moves_off_its_goal_costs_nothing() -> None:
    board = Board(size=2, holes=(), starts=((0, 0), (1, 0)), goals=((0, 0), (1, 1)))
    assert carried_out(board, "", "R") == valid(0, 1)
    assert carried_out(board, "WW", "WR") == valid(0, 2)


def test_the_cost_counts_until_arrival_for_good() -> None:
    board = board_of("a.b ... ...", "ab")
    assert carried_out(board, "RRWW") == valid(2)
    assert carried_out(board, "WRWR") == valid(4)
    assert carried_out(board, "RRWLR") == valid(5)
    assert carried_out(board, "RRDULRWW") == valid(6)


def test_an_agent_that_steps_off_its_start_which_is_its_goal_pays_until_it_is_back() -> None:
    board = Board(size=2, holes=(), starts=((0, 0),), goals=((0, 0),))
    assert carried_out(board, "WRWL") == valid(4)


def test_sum_of_costs_and_makespan_come_from_the_costs() -> None:
    simulation = carried_out(board_of("a.b ... c.d", "ab", "cd"), "RR", "RWR")
    assert (simulation.costs, simulation.sum_of_costs, simulation.makespan) == ((2, 3), 5, 3)
    assert broken(Outcome.HOLE, 1, 0).sum_of_costs is None
    assert broken(Outcome.HOLE, 1, 0).makespan is None


def test_agents_that_do_not_end_at_their_goals_are_named_with_the_last_timestep() -> None:
    board = board_of("a.b ... c.d", "ab", "cd")
    assert carried_out(board, "RRL", "RR") == broken(Outcome.GOAL_NOT_REACHED, 3, 0)
    assert carried_out(board, "", "") == broken(Outcome.GOAL_NOT_REACHED, 0, 0, 1)


def first_violation(board: Board, plan: Sequence[str]) -> tuple[str, int] | None:
    """The documented rules, one by one,."""
    cells = list(board.starts)
    for step in range(max(map(len, plan))):
        moves = [MOVES[actions[step]] if step < len(actions) else (0, 0) for actions in plan]
        after = [(row + move[0], col + move[1]) for (row, col), move in zip(cells, moves, strict=True)]
        pairs = [(a, b) for a in range(len(after)) for b in range(a)]
        checks = {
            "out_of_bounds": any(min(cell) < 0 or max(cell) >= board.size for cell in after),
            "hole": any(cell in board.holes for cell in after),
            "vertex_conflict": any(after[a] == after[b] for a, b in pairs),
            "swap_conflict": any(after[a] == cells[b] and after[b] == cells[a] for a, b in pairs),
        }
        for name, happened in checks.items():
            if happened:
                return name, step + 1
        cells = after
    return None if cells == list(board.goals) else ("goal_not_reached", max(map(len, plan)))


@FEW
@given(st.data())
def test_the_simulator_agrees_with_the_rules_checked_one_by_one(data: st.DataObject) -> None:
    board = data.draw(boards())
    moves = st.text(st.sampled_from("UDLRW"), max_size=6)
    plan = data.draw(st.lists(moves, min_size=board.num_agents, max_size=board.num_agents))
    simulation = carried_out(board, *plan)
    found = None if simulation.violation is None else (simulation.violation.value, simulation.step)
    assert found == first_violation(board, plan)


@FEW
@given(st.data())
def test_paths_that_wander_jump_and_leave_the_board_get_the_verdict_of_a_plain_reading(data: st.DataObject) -> None:
    instance = data.draw(instances(largest=3, most_agents=4))
    near = st.sampled_from([(0, 0), (0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), None])
    for _ in range(8):
        paths: list[list[tuple[int, int] | None]] = []
        for cell in instance.starts:
            path: list[tuple[int, int] | None] = []
            for change in data.draw(st.lists(near, max_size=4)):
                cell = cell if change is None else (cell[0] + change[0], cell[1] + change[1])
                path.append(cell if change is not None else None)
            paths.append(path)
        assert judge(instance, simulate(instance, paths)) == reference_verdict(instance, paths), paths
