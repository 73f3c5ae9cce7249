"""What the pictures tell of a plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.errors import UserError
from envwright.env.instance import Instance
from envwright.env.pictures.story import Story, story_of
from envwright.env.rules import Outcome, paths_from_moves, simulate
from tests.env.boards import FEW, board_of, instance_of, instances

BOARD = instance_of("a.b .#. d.c", "ab", "cd")


def told(*plan: str, board: Instance = BOARD) -> Story:
    return story_of(board, paths_from_moves(board.starts, plan))


def test_a_verdict_says_what_when_who_and_where() -> None:
    assert told("RR", "LL").verdict() == "valid and optimal: sum of costs 4, makespan 2"
    assert told("WRR", "LL").verdict() == "valid, not optimal (optimum 4): sum of costs 5, makespan 3"
    assert told("RD", "").verdict() == "hole at timestep 2: agent 0 enters the hole (1, 1)"
    assert told("U", "R").verdict() == (
        "out of bounds at timestep 1: agent 0 leaves the board from (0, 0); agent 1 leaves the board from (2, 2)"
    )
    assert told("RR", "LX").verdict() == "illegal move at timestep 2: agent 1 makes no legal move from (2, 1)"
    assert told("R", "LL").verdict() == "goal not reached at timestep 2: agent 0 ends at (0, 1), its goal is (0, 2)"


def test_conflicts_name_the_shared_cell_and_who_stays() -> None:
    row = instance_of("a.b ... ...", "ab", "ba")
    assert told("R", "L", board=row).verdict() == "vertex conflict at timestep 1: agents 0 and 1 both enter (0, 1)"
    assert told("RR", "", board=row).verdict() == "vertex conflict at timestep 2: agent 0 enters (0, 2), where agent 1 stays"
    assert told("WR", "LL", board=row).verdict() == "swap conflict at timestep 2: agents 0 and 1 exchange (0, 0) and (0, 1)"
    three = board_of("a.b .c. ...", "ab", "bc", "ca")
    crowd = story_of(three, paths_from_moves(three.starts, ["R", "L", "U"]))
    assert crowd.verdict() == "vertex conflict at timestep 1: agents 0, 1 and 2 enter (0, 1)"


def test_the_broken_timestep_is_not_carried_out() -> None:
    story = told("RD", "LL")
    assert (story.last, story.broken_step) == (2, 2)
    assert story.positions(1) == story.positions(2) == ((0, 1), (2, 1))
    assert story.attempts() == ((1, 1), (2, 0))
    assert [story.moves(agent) for agent in (0, 1)] == ["RD", "LL"]


def test_waits_count_on_the_way_and_not_after_arrival_or_after_the_last_action() -> None:
    assert told("WWRWRWW", "L").waits(0) == {(0, 0): 2, (0, 1): 1}
    assert told("WWRWRWW", "L").waits(1) == {}
    assert told("RW", "L").waits(0) == {(0, 1): 1}


def test_a_timestep_that_is_not_there_is_refused_with_the_range() -> None:
    with pytest.raises(UserError, match="timestep 3 is not in the plan; it has timesteps 0 to 2"):
        told("RR", "LL").check_step(3)
    with pytest.raises(UserError, match="timestep -1"):
        told("RR", "LL").check_step(-1)


@FEW
@given(instances(largest=4, most_agents=3), st.data())
def test_a_story_follows_the_simulator(instance: Instance, data: st.DataObject) -> None:
    plan = [data.draw(st.text("UDLRWX", max_size=6)) for _ in instance.starts]
    paths = paths_from_moves(instance.starts, plan)
    story, simulation = story_of(instance, paths), simulate(instance, paths)
    assert (story.violation, story.culprits) == (simulation.violation, simulation.agents)
    if simulation.violation not in (None, Outcome.GOAL_NOT_REACHED):
        assert story.last == simulation.step
    assert story.positions(0) == instance.starts
    for step in range(story.last + 1):
        assert len(set(story.positions(step))) == instance.num_agents
        assert all(0 <= cell[0] < instance.size and cell not in instance.hole_set for cell in story.positions(step))
    if simulation.violation is None:
        assert story.positions(story.last) == instance.goals
