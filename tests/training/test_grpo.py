"""Our shortcut through TRL's loss changes the cost of a step, not its gradient."""

from __future__ import annotations

import math
from typing import Literal
from unittest.mock import patch

import pytest
import torch
from trl import GRPOTrainer

from envwright.env.generator import generate
from envwright.training import grpo
from envwright.training.advantages import step_advantages
from envwright.training.grpo import StepReport, train_stage
from envwright.training.policies.policy import load_policy
from envwright.training.settings import GrpoSettings, RunSettings
from envwright.training.trl_config import rate_factor


def _weights_after_training(settings: RunSettings, steps: int) -> tuple[torch.Tensor, list[StepReport]]:
    torch.set_num_threads(1)
    policy = load_policy("pocket")
    boards = generate(settings.config, steps * settings.grpo.boards_per_step, seed=5).instances
    reports: list[StepReport] = []
    train_stage(
        policy,
        boards,
        settings.grpo,
        stage=0,
        efficiency=settings.grpo.efficiency_weight,
        first_step=0,
        last_step=100,
        seed=1,
        optimizer_state=None,
        on_step=reports.append,
    )
    return torch.cat([parameter.detach().flatten() for parameter in policy.model.parameters()]), reports


def test_a_step_equals_a_step_of_trl_s_own_trainer(tiny_settings: RunSettings) -> None:
    plain = tiny_settings.grpo.model_copy(update={"step_credit": False, "efficiency_weight": 0.0})
    tiny_settings = tiny_settings.model_copy(update={"grpo": plain})
    ours, _ = _weights_after_training(tiny_settings, 1)
    with patch.object(grpo, "_Trainer", GRPOTrainer):
        theirs, _ = _weights_after_training(tiny_settings, 1)
    before = torch.cat([parameter.detach().flatten() for parameter in load_policy("pocket").model.parameters()])
    moved = (theirs - before).norm()
    assert moved > 0
    assert (ours - theirs).norm() < 0.02 * moved


@pytest.mark.parametrize(("rows", "passes"), [(32, 2), (8, 8)])
def test_a_batch_in_several_passes_equals_one_whole_batch(tiny_settings: RunSettings, rows: int, passes: int) -> None:
    halves = tiny_settings.grpo.model_copy(update={"per_device_train_batch_size": rows, "gradient_accumulation_steps": passes})
    whole, _ = _weights_after_training(tiny_settings, 1)
    split, _ = _weights_after_training(tiny_settings.model_copy(update={"grpo": halves}), 1)
    assert torch.allclose(whole, split, atol=2e-5)


def test_what_follows_a_violation_gets_no_advantage_and_the_violation_gets_most_of_the_blame() -> None:
    inf = math.inf
    rewards, deaths = [1.0, 1.0, 0.0, 0.0], [inf, inf, 1, 3]
    advantages = step_advantages(rewards, deaths, group=4, num_agents=2, columns=8)
    deviation = torch.tensor(rewards).std() + 1e-4
    expected = torch.tensor(
        [
            [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 0, 0],
            [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 0, 0],
            [-1 / 2, -1 / 2, 0, 0, 0, 0, 0, 0],
            [-1 / 2, -1 / 2, -2 / 3, -2 / 3, -2 / 3, -2 / 3, 0, 0],
        ]
    )
    assert torch.allclose(advantages, expected / deviation)


def test_without_violations_step_credit_is_plain_grpo() -> None:
    rewards = [1.3, 1.0, 1.2, 1.1, 1.0, 1.0, 1.0, 1.0]
    advantages = step_advantages(rewards, [math.inf] * 8, group=4, num_agents=2, columns=3)
    groups = torch.tensor(rewards).view(2, 4)
    plain = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).view(8, 1)
    assert torch.allclose(advantages, plain.expand(8, 3))


@pytest.mark.parametrize("scale", ["batch", "none"])
def test_rewards_that_hardly_differ_stay_small_when_scaled_by_the_batch_or_not_at_all(scale: Literal["batch", "none"]) -> None:
    rewards = [1.3, 1.29, 1.3, 1.29, 1.3, 0.0, 0.0, 0.0]
    advantages = step_advantages(rewards, [math.inf] * 8, group=4, num_agents=2, columns=1, scale_rewards=scale)
    divisor = torch.tensor(rewards).std() + 1e-4 if scale == "batch" else torch.tensor(1.0)
    groups = torch.tensor(rewards).view(2, 4)
    assert torch.allclose(advantages, (groups - groups.mean(1, keepdim=True)).view(8, 1) / divisor)
    assert advantages[:4].abs().max() < 0.02 < 0.2 < advantages[4:].abs().min()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("constant_with_warmup", [0.5, 1.0, 1.0, 1.0]), ("linear", [0.5, 1.0, 0.5, 0.125]), ("cosine", [0.5, 1.0, 0.5, 0.0380602])],
)
def test_the_learning_rate_warms_up_once_and_falls_over_the_whole_run(kind: str, expected: list[float]) -> None:
    settings = GrpoSettings.model_validate({"warmup_steps": 2, "lr_scheduler_type": kind})
    assert [rate_factor(settings, done, 10) for done in (0, 1, 6, 9)] == pytest.approx(expected)


def test_reports_count_reward_and_signal_per_step(tiny_settings: RunSettings) -> None:
    _, reports = _weights_after_training(tiny_settings, 2)
    assert [report.step for report in reports] == [1, 2]
    for report in reports:
        assert 0 <= report.reward <= 1
        assert 0 <= report.signal <= 1
        assert report.tokens > 1


def test_a_batch_that_does_not_divide_into_groups_is_refused_when_read() -> None:
    with pytest.raises(ValueError, match="per_device_train_batch_size 100 is not a multiple of num_generations 8; set it to 96"):
        GrpoSettings(per_device_train_batch_size=100)
