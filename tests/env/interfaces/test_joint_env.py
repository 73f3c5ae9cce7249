"""The Gymnasium environment: conformance, registration, and the same play as the parallel one."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from envwright import mapf_frozenlake_v0
from envwright.env.errors import UserError
from tests.env.boards import instance_of, plan_of

ID = "envwright/MAPF-FrozenLake-v0"
BOARD = instance_of("a.b .#. d.c", "ab", "cd")


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_it_passes_gymnasiums_checker(render_mode: str | None) -> None:
    check_env(gymnasium.make(ID, render_mode=render_mode).unwrapped)


def test_registering_again_changes_nothing() -> None:
    mapf_frozenlake_v0.register_envs()
    assert mapf_frozenlake_v0.GYMNASIUM_ID == ID
    assert isinstance(gymnasium.make(ID).unwrapped, mapf_frozenlake_v0.MapfFrozenLakeEnv)


def test_the_same_seed_gives_the_same_board_as_in_the_parallel_environment() -> None:
    joint, parallel = gymnasium.make(ID, size=5, num_agents=3), mapf_frozenlake_v0.parallel_env(size=5, num_agents=3)
    for seed in (0, 0, 7):
        observation, info = joint.reset(seed=seed)
        _, infos = parallel.reset(seed=seed)
        assert info["instance_id"] == infos["agent_0"]["instance_id"]
        assert np.array_equal(observation, parallel.state())


def test_actions_and_planes_have_an_entry_per_agent_and_the_end_carries_the_verdict() -> None:
    env = gymnasium.make(ID, instances=[BOARD])
    assert env.action_space == gymnasium.spaces.MultiDiscrete([5, 5])
    observation, info = env.reset(seed=0)
    assert [np.argwhere(plane).tolist() for plane in observation] == [[[1, 1]], [[0, 0]], [[0, 2]], [[2, 2]], [[2, 0]]]
    assert info["action_mask"].tolist() == [[0, 1, 0, 1, 1], [1, 0, 1, 0, 1]]
    assert plan_of(BOARD) == ("RR", "LL")
    assert env.step(np.array([3, 2]))[1:4] == (0.0, False, False)
    _, reward, terminated, truncated, info = env.step(np.array([3, 2]))
    assert (reward, terminated, truncated) == (1.0, True, False)
    end = {key: value for key, value in info.items() if key != "action_mask"}
    assert end == {
        "outcome": "optimal",
        "failure_step": None,
        "failure_agents": (),
        "sum_of_costs": 4,
        "makespan": 2,
        "optimal_cost": 4,
    }


def test_masked_samples_stay_on_the_board_and_out_of_holes() -> None:
    env = gymnasium.make(ID, size=5, hole_ratio=0.3, max_steps=200)
    env.action_space.seed(1)
    for seed in range(20):
        _, info = env.reset(seed=seed)
        ended = False
        while not ended:
            _, _, terminated, truncated, info = env.step(env.action_space.sample(mask=tuple(info["action_mask"])))
            ended = terminated or truncated
        assert info["outcome"] in {"vertex_conflict", "swap_conflict", "goal_not_reached", "suboptimal", "optimal"}


def test_an_episode_is_truncated_after_its_steps() -> None:
    env = gymnasium.make(ID, instances=[BOARD], max_steps=2)
    env.reset(seed=0)
    env.step(np.array([4, 4]))
    _, reward, terminated, truncated, info = env.step(np.array([3, 4]))
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["outcome"], info["failure_step"], info["failure_agents"]) == ("goal_not_reached", 2, (0, 1))


def test_it_can_be_vectorised() -> None:
    envs = gymnasium.make_vec(ID, num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=5)
    assert observations.shape == (3, 5, 4, 4)
    for _ in range(20):
        _, rewards, _, _, _ = envs.step(envs.action_space.sample())
        assert rewards.shape == (3,)
    envs.close()


def test_an_action_of_the_wrong_shape_is_named() -> None:
    env = gymnasium.make(ID, instances=[BOARD], disable_env_checker=True)
    env.reset()
    with pytest.raises(UserError, match=r"the action has shape \(3,\); expected one action number per agent, shape \(2,\)"):
        env.step(np.array([0, 1, 2]))
