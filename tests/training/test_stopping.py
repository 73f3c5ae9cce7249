"""Training stops by itself when nothing can be learned, or when what is learned is not what is sampled."""

from __future__ import annotations

import math

import pytest
import torch

from envwright.env.canonical import Split
from envwright.env.errors import JobFailedError
from envwright.env.generator import generate
from envwright.env.rollout import Rollout
from envwright.training.evaluation import evaluate
from envwright.training.grpo import train_stage
from envwright.training.policies.pocket_policy import PocketPolicy
from envwright.training.policies.pocket_sampler import PocketSampler
from envwright.training.policies.policy import load_policy
from envwright.training.settings import GrpoSettings, RunSettings
from envwright.training.stopping import Watch


def _rollouts(settings: RunSettings, rewards: list[float]) -> list[Rollout]:
    boards = generate(settings.config, 2, seed=0).instances
    made = evaluate(load_policy("pocket"), boards, stage=0, split=Split.TRAIN, samples=len(rewards) // 2, seed=0)
    return [rollout.model_copy(update={"reward": reward}) for rollout, reward in zip(made, rewards, strict=True)]


def test_equal_rewards_stop_only_when_they_last(tiny_settings: RunSettings) -> None:
    watch = Watch(GrpoSettings(num_generations=2, per_device_train_batch_size=4, no_signal_steps=2))
    equal, mixed = _rollouts(tiny_settings, [1, 1, 0, 0]), _rollouts(tiny_settings, [1, 0, 0, 0])
    for step, rollouts in enumerate((equal, mixed, equal), start=1):
        watch.rewards(rollouts, step)
    with pytest.raises(
        JobFailedError, match="step 4: no learning signal for 2 steps: every group of completions has equal rewards: 3x3 mostly"
    ):
        watch.rewards(equal, 4)


def test_a_reward_that_is_no_number_stops(tiny_settings: RunSettings) -> None:
    with pytest.raises(JobFailedError, match=r"step 3: the reward of a completion on board .* is nan"):
        Watch(GrpoSettings()).rewards(_rollouts(tiny_settings, [1, math.nan]), 3)


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (0.1, math.inf)])
def test_a_loss_or_gradient_that_is_no_number_stops(loss: float, norm: float) -> None:
    with pytest.raises(JobFailedError, match=r"at step 7: lower grpo\.learning_rate"):
        Watch(GrpoSettings()).update(loss, norm, 7)


def test_a_gap_that_is_no_number_counts_as_too_wide() -> None:
    with pytest.raises(JobFailedError, match="did not follow"):
        Watch(GrpoSettings()).gap(math.nan, 1)


class _StalePolicy(PocketPolicy):
    """Samples for ever with the weights that it had at first."""

    def sampler(self) -> PocketSampler:
        if not hasattr(self, "_first"):
            self._first = PocketSampler(self.model)
        return self._first


def test_a_sampler_whose_weights_do_not_follow_is_noticed(tiny_settings: RunSettings) -> None:
    torch.set_num_threads(1)
    base = load_policy("pocket")
    settings = tiny_settings.grpo.model_copy(update={"learning_rate": 0.02, "warmup_steps": 0, "max_grad_norm": 1.0})
    boards = generate(tiny_settings.config, 4 * settings.boards_per_step, seed=5).instances

    def train(policy: PocketPolicy) -> None:
        train_stage(
            policy, boards, settings, stage=0, efficiency=0, first_step=0, last_step=4, seed=1, optimizer_state=None, on_step=lambda _: None
        )

    with pytest.raises(JobFailedError, match=r"step 2: the sampler's weights did not follow the trainer's: their log-probabilities are \d"):
        train(_StalePolicy(base.model, base.tokenizer, "stale"))
