"""The base checkpoint: imitation lowers the loss, is reproducible, and the shipped copy is whole."""

from __future__ import annotations

import torch

from envwright.env.cells import VOCABULARY
from envwright.training.policies.base import train_base
from envwright.training.policies.pocket import BASE_CHECKPOINT
from envwright.training.policies.policy import load_policy


def _losses(steps: int) -> tuple[list[float], torch.Tensor]:
    torch.set_num_threads(1)
    losses: list[float] = []
    model = train_base(steps, 0, lambda _step, loss, _model: losses.append(loss))
    return losses, torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_imitation_learns_and_gives_the_same_weights_twice() -> None:
    losses, weights = _losses(4)
    again, same = _losses(4)
    assert losses[-1] < losses[0]
    assert losses == again
    assert torch.equal(weights, same)


def test_the_shipped_base_is_under_five_megabytes_and_two_million_parameters() -> None:
    policy = load_policy("pocket")
    assert sum(path.stat().st_size for path in BASE_CHECKPOINT.iterdir()) < 5_000_000
    assert sum(parameter.numel() for parameter in policy.model.parameters()) < 2_000_000
    assert policy.model.config.vocab_size == len(VOCABULARY)
