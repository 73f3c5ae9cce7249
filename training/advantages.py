"""Advantages per token that use the timestep of a plan's first violation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch

from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome

__all__ = ["last_deciding_step", "step_advantages"]


def last_deciding_step(rollout: Rollout) -> float:
    """The timestep after which nothing that a completion says can change its outcome; infinity when all of it counts."""
    if rollout.verdict.valid or rollout.failure_step is None or rollout.verdict is Outcome.GOAL_NOT_REACHED:
        return math.inf
    return rollout.failure_step


def step_advantages(
    rewards: Sequence[float],
    deaths: Sequence[float],
    group: int,
    num_agents: int,
    columns: int,
    *,
    scale_rewards: Literal["group", "batch", "none"] = "group",
) -> torch.Tensor:
    """Return group-relative advantages per token that use the timestep of the first violation.

    What a completion says after its first violation cannot change its reward, so those tokens get 0. A token of timestep t
    is compared with the members of its group that are still without a violation before t: the baseline is their mean
    reward. Both leave the expected policy gradient as it is (rewards depend on no later token; a baseline may depend on
    time) and take noise away: the step that broke a plan gets the largest share of the blame. Divided by the standard
    deviation of the group's rewards, as GRPO does (Shao et al., 2024), or by the batch's.

    Args:
        rewards: reward per completion, B of them, groups in a row.
        deaths: per completion the timestep of its violation, from 1; infinity for none.
        group: completions per group, G.
        num_agents: tokens per timestep.
        columns: tokens per row of the result, T.
        scale_rewards: what to divide by: the group's or the batch's standard deviation, or nothing.

    Returns:
        Advantages (B, T).
    """
    rewards_G1 = torch.tensor(rewards).view(-1, group, 1)
    steps_T = torch.arange(columns) // num_agents + 1
    alive_GT = steps_T <= torch.tensor(deaths).view(-1, group, 1)
    counts = alive_GT.sum(1, keepdim=True).clamp(min=1)
    baseline = (rewards_G1 * alive_GT).sum(1, keepdim=True) / counts
    advantages_GT = (rewards_G1 - baseline) * alive_GT
    if scale_rewards != "none":
        deviation = rewards_G1.std(1, keepdim=True) if scale_rewards == "group" else rewards_G1.std()
        advantages_GT = advantages_GT / (deviation + 1e-4)
    return advantages_GT.view(-1, columns)
