"""Boards of a stage: passes over them, and proof that they follow the config."""

from __future__ import annotations

import pytest

from envwright.env.config import GeneratorConfig
from envwright.env.errors import JobFailedError, UserError
from envwright.env.generator import generate
from envwright.training.boards import check_boards_follow, fitting, met_in_order
from envwright.training.policies.policy import load_policy


def _config(holes: float) -> GeneratorConfig:
    return GeneratorConfig.model_validate({"num_agents": 2, "sizes": {"4": {"data_ratio": 1.0, "hole_ratio": holes, "wait_ratio": 0.25}}})


def test_every_pass_meets_every_board_once_in_an_order_of_its_own() -> None:
    boards = generate(_config(0.2), 8, seed=0).instances
    met = met_in_order(boards, 24, seed=1, stage=0)
    passes = [[board.id for board in met[first : first + 8]] for first in (0, 8, 16)]
    assert passes[0] == [board.id for board in boards]
    assert sorted(passes[1]) == sorted(passes[2]) == sorted(passes[0])
    assert passes[1] != passes[0]
    assert passes[2] != passes[1]
    assert met == met_in_order(boards, 24, seed=1, stage=0)


def test_a_config_that_changed_without_its_boards_is_noticed() -> None:
    boards = generate(_config(0.2), 16, seed=0).instances
    other = generate(_config(0.3), 16, seed=0).instances
    check_boards_follow(_config(0.2), boards, _config(0.3), other)
    with pytest.raises(
        JobFailedError, match=r"the config changed \(4x4\) but the boards have the sizes, holes and waits of the stage before"
    ):
        check_boards_follow(_config(0.2), boards, _config(0.3), boards)


def test_a_change_too_small_for_one_hole_is_no_reason_to_stop() -> None:
    boards = generate(_config(0.2), 16, seed=0).instances
    check_boards_follow(_config(0.2), boards, _config(0.201), boards)


def test_prompts_of_which_most_are_too_long_are_refused_with_their_lengths() -> None:
    boards = generate(_config(0.2), 8, seed=0).instances
    policy = load_policy("pocket")
    length = len(policy.encode(policy.prompt(boards[0])))
    assert fitting(policy, boards, length) == boards
    with pytest.raises(UserError, match=rf"8 of 8 prompts are longer than {length - 1} tokens \(the longest, 4x4, has {length}\)"):
        fitting(policy, boards, length - 1)
