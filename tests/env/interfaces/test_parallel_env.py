"""The PettingZoo environment: conformance, seeds, and agreement with simulator and grader."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test

from envwright import mapf_frozenlake_v0
from envwright.env.errors import UserError
from envwright.env.grading import Grade, grade_completion, solution_answer
from envwright.env.instance import Instance
from envwright.env.interfaces.episode import ACTIONS
from envwright.env.jsonio import write_json_lines
from envwright.env.rules import Outcome, paths_from_moves, simulate
from tests.env.boards import FEW, instance_of, instances, plan_of

CORRIDOR = instance_of("a.b .#. d.c", "ab", "cd")
SWAP = instance_of("ab ..", "ab", "ba")


def play(env: Any, moves: list[str]) -> tuple[list[str], dict[str, Any], dict[str, float], tuple[bool, bool]]:
    """Play one string of letters per agent until the episode ends; returns the moves made, last info, rewards, ends."""
    made = ["" for _ in moves]
    for letters in zip(*moves, strict=True):
        made = [before + letter for before, letter in zip(made, letters, strict=True)]
        acting = env.agents
        step = {agent: ACTIONS.index(letter) for agent, letter in zip(acting, letters, strict=True)}
        _, rewards, terminations, truncations, infos = env.step(step)
        if not env.agents:
            first = acting[0]
            assert all(info["outcome"] == infos[first]["outcome"] for info in infos.values())
            return made, infos[first], rewards, (terminations[first], truncations[first])
    raise AssertionError("the episode did not end")


def verdict(info: dict[str, Any]) -> Grade:
    return Grade(Outcome(info["outcome"]), info["failure_step"], info["failure_agents"], info["sum_of_costs"], info["makespan"])


def test_it_passes_the_conformance_suites_of_pettingzoo(capsys: pytest.CaptureFixture[str]) -> None:
    parallel_api_test(mapf_frozenlake_v0.parallel_env(), 60)
    parallel_api_test(mapf_frozenlake_v0.parallel_env(num_agents=5, size=6, max_steps=3), 10)
    parallel_seed_test(mapf_frozenlake_v0.parallel_env, 50)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Observation")  # it expects plain boxes, where a mask needs a Dict
        api_test(mapf_frozenlake_v0.env(), 30)
    assert "Passed Parallel API test" in capsys.readouterr().out


def test_it_renders_text_and_pixels_as_pettingzoo_wants_them() -> None:
    def env_of(render_mode: str) -> Any:
        return mapf_frozenlake_v0.env(render_mode=None if render_mode == "human" else render_mode)

    render_test(env_of)


def test_six_resets_with_one_seed_give_six_equal_boards_and_another_seed_another() -> None:
    env = mapf_frozenlake_v0.parallel_env(size=6, num_agents=3, hole_ratio=0.2, wait_ratio=0.5)
    boards = []
    for _ in range(6):
        env.reset(seed=11)
        boards.append(env.instance)
    assert all(board == boards[0] for board in boards)
    assert (boards[0].size, boards[0].num_agents, len(boards[0].holes)) == (6, 3, 7)
    env.reset(seed=12)
    assert env.instance != boards[0]


def test_resets_without_a_seed_go_on_in_the_seeds_stream() -> None:
    def ids() -> list[str]:
        env = mapf_frozenlake_v0.parallel_env()
        env.reset(seed=3)
        return [env.reset()[1]["agent_0"]["instance_id"] for _ in range(4)]

    assert ids() == ids()
    assert len(set(ids())) > 1


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_the_wait_ratio_is_the_probability_of_a_wait_required_board(ratio: float) -> None:
    env = mapf_frozenlake_v0.parallel_env(wait_ratio=ratio)
    for seed in range(5):
        env.reset(seed=seed)
        assert env.instance.wait_required == (ratio == 1.0)


@FEW
@given(instances(largest=4, most_agents=3), st.data())
def test_random_episodes_end_as_the_simulator_and_the_grader_say(instance: Instance, data: st.DataObject) -> None:
    steps = data.draw(st.integers(1, 8))
    moves = [data.draw(st.text("".join(ACTIONS), min_size=steps, max_size=steps)) for _ in instance.starts]
    env = mapf_frozenlake_v0.parallel_env(instances=[instance], max_steps=steps)
    env.reset(seed=0)
    made, info, rewards, (terminated, truncated) = play(env, moves)
    grade = grade_completion(instance, solution_answer(tuple(made)))
    assert verdict(info) == grade
    simulation = simulate(instance, paths_from_moves(instance.starts, made))
    assert (info["failure_step"], info["failure_agents"], info["sum_of_costs"]) == (
        simulation.step,
        simulation.agents,
        simulation.sum_of_costs,
    )
    assert info["optimal_cost"] == instance.optimal_cost
    assert set(rewards.values()) == {1.0 if grade.outcome.valid else 0.0}
    assert (terminated, truncated) == (grade.outcome is not Outcome.GOAL_NOT_REACHED, grade.outcome is Outcome.GOAL_NOT_REACHED)


@FEW
@given(instances(largest=4, most_agents=3))
def test_an_optimal_plan_earns_one_and_is_called_optimal(instance: Instance) -> None:
    plan = plan_of(instance)
    horizon = max(1, *map(len, plan))
    env = mapf_frozenlake_v0.parallel_env(instances=[instance], efficiency_weight=0.5)
    env.reset(seed=0)
    _, info, rewards, _ = play(env, [letters.ljust(horizon, "W") for letters in plan])
    assert (info["outcome"], info["sum_of_costs"]) == ("optimal", instance.optimal_cost)
    assert set(rewards.values()) == {1.5}


def test_a_detour_earns_less_efficiency() -> None:
    env = mapf_frozenlake_v0.parallel_env(instances=[CORRIDOR], efficiency_weight=0.5)
    env.reset(seed=0)
    _, info, rewards, ends = play(env, ["WRR", "LLW"])
    assert (info["outcome"], info["sum_of_costs"], info["makespan"], ends) == ("suboptimal", 5, 3, (True, False))
    assert rewards == {"agent_0": 1.0 + 0.5 * 4 / 5, "agent_1": 1.0 + 0.5 * 4 / 5}


def test_a_violation_ends_the_episode_for_all_and_leaves_the_agents_where_they_were() -> None:
    env = mapf_frozenlake_v0.parallel_env(instances=[SWAP])
    before, _ = env.reset(seed=0)
    after, rewards, terminations, truncations, infos = env.step({"agent_0": 3, "agent_1": 2})
    assert (infos["agent_1"]["outcome"], infos["agent_1"]["failure_step"], infos["agent_1"]["failure_agents"]) == (
        "swap_conflict",
        1,
        (0, 1),
    )
    assert set(rewards.values()) == {0.0}
    assert set(terminations.values()) == {True}
    assert set(truncations.values()) == {False}
    assert np.array_equal(before["agent_0"]["observation"], after["agent_0"]["observation"])
    assert env.agents == []
    assert env.step({}) == ({}, {}, {}, {}, {})
    with pytest.raises(UserError, match=r"the episode has ended \(swap_conflict\); call reset"):
        env.step({"agent_0": 4, "agent_1": 4})


def test_the_planes_show_holes_own_and_other_places_and_the_mask_what_is_on_the_board() -> None:
    env = mapf_frozenlake_v0.parallel_env(instances=[CORRIDOR])
    observations, infos = env.reset(seed=0)
    planes, mask = observations["agent_0"]["observation"], observations["agent_0"]["action_mask"]
    assert [np.argwhere(plane).tolist() for plane in planes] == [[[1, 1]], [[0, 0]], [[0, 2]], [[2, 2]], [[2, 0]]]
    assert mask.tolist() == [0, 1, 0, 1, 1]
    assert np.array_equal(infos["agent_0"]["action_mask"], mask)
    assert env.observation_space("agent_0").contains(observations["agent_0"])
    assert [np.argwhere(plane).tolist() for plane in env.state()] == [[[1, 1]], [[0, 0]], [[0, 2]], [[2, 2]], [[2, 0]]]
    assert env.state_space.contains(env.state())


def test_boards_of_several_sizes_share_one_space_and_what_is_beyond_a_small_one_is_blocked() -> None:
    env = mapf_frozenlake_v0.parallel_env(instances=[SWAP, CORRIDOR])
    observations, _ = env.reset(options={"instance": SWAP})
    planes = observations["agent_0"]["observation"]
    assert planes.shape == (5, 3, 3)
    assert planes[0].tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 1]]
    seen = {env.reset(seed=seed)[1]["agent_0"]["instance_id"] for seed in range(12)}
    assert seen == {SWAP.id, CORRIDOR.id}


def test_boards_come_from_a_file_too(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "boards.jsonl", [CORRIDOR.to_json()])
    env = mapf_frozenlake_v0.parallel_env(instances=tmp_path / "boards.jsonl")
    env.reset()
    assert env.instance == CORRIDOR


def test_rendering_shows_the_board_and_keeps_one_shape_all_episode_long() -> None:
    text = mapf_frozenlake_v0.parallel_env(instances=[CORRIDOR], render_mode="ansi")
    text.reset()
    assert text.render() == "t=0\n  012\n0 A.a\n1 .#.\n2 b.B"
    text.step({"agent_0": 1, "agent_1": 4})
    text.step({"agent_0": 3, "agent_1": 4})
    assert text.render() == "t=2 !\n  012\n0 ..a\n1 A!.\n2 b.B"
    pixels = mapf_frozenlake_v0.parallel_env(instances=[CORRIDOR], render_mode="rgb_array")
    pixels.reset()
    first = pixels.render()
    pixels.step({"agent_0": 0, "agent_1": 4})
    last = pixels.render()
    assert isinstance(first, np.ndarray)
    assert isinstance(last, np.ndarray)
    assert first.shape == last.shape
    assert first.dtype == np.uint8
    assert not np.array_equal(first, last)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "hole ratio": ({"hole_ratio": 0.7}, "hole_ratio"),
    "size": ({"size": 1}, "sizes"),
    "agents": ({"num_agents": 11}, "num_agents"),
    "split": ({"split": "test"}, "split must be one of train, validation, benchmark, got 'test'"),
    "one agent waits": ({"num_agents": 1}, "a single agent never has to wait; set wait_ratio to 0"),
    "max steps": ({"max_steps": 0}, "max_steps must be an integer of at least 1, or None for the board's own limit, got 0"),
    "efficiency": ({"efficiency_weight": float("nan")}, "efficiency_weight must be a finite number of at least 0, got nan"),
    "render mode": ({"render_mode": "human"}, "render_mode must be None or one of ansi, rgb_array, got 'human'"),
    "no boards": ({"instances": []}, "instances is empty"),
    "agents differ": ({"instances": [SWAP, instance_of("ab ..", "ab")]}, r"instances\[1\] has 1 agents, the first one 2"),
    "bad board": ({"instances": [{"size": 2}]}, r"instances\[0\]"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named_in_one_line(name: str) -> None:
    arguments, message = BAD[name]
    with pytest.raises(UserError, match=message) as caught:
        mapf_frozenlake_v0.parallel_env(**arguments)
    assert "\n" not in str(caught.value)


def test_bad_steps_and_resets_are_named_in_one_line() -> None:
    env = mapf_frozenlake_v0.parallel_env(instances=[SWAP])
    with pytest.raises(UserError, match=r"call reset\(\) before this"):
        env.step({"agent_0": 4, "agent_1": 4})
    env.reset()
    with pytest.raises(UserError, match="no action for agent_1"):
        env.step({"agent_0": 4})
    with pytest.raises(UserError, match=r"action 5 is not one of 0 to 4 \(U, D, L, R, W\)"):
        env.step({"agent_0": 5, "agent_1": 4})
    with pytest.raises(UserError, match="takes boards up to 2x2 with 2 agents"):
        env.reset(options={"instance": CORRIDOR})
