"""When training stops by itself: nothing can be learned, or what is learned is not what is sampled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from envwright.env.errors import JobFailedError
from envwright.env.rollout import Rollout
from envwright.training.settings import GrpoSettings

__all__ = ["Watch"]


class Watch:
    """Looks at every step of a stage.

    Args:
        settings: bounds.
    """

    def __init__(self, settings: GrpoSettings) -> None:
        self._settings = settings
        self._silent: list[list[Rollout]] = []

    def rewards(self, rollouts: Sequence[Rollout], step: int) -> None:
        """Look at the rewards of a step, before they are trained on.

        Raises:
            JobFailedError: one is not finite, or no group of several steps has mixed rewards.
        """
        bad = next((rollout for rollout in rollouts if rollout.reward is None or not math.isfinite(rollout.reward)), None)
        if bad is not None:
            raise JobFailedError(
                f"step {step}: the reward of a completion on board {bad.instance.id} is {bad.reward}; rewards must be finite"
            )
        group = self._settings.num_generations
        groups = [rollouts[first : first + group] for first in range(0, len(rollouts), group)]
        if any(len({rollout.reward for rollout in members}) > 1 for members in groups):
            self._silent = []
            return
        self._silent.append(list(rollouts))
        if 0 < self._settings.no_signal_steps <= len(self._silent):
            raise JobFailedError(
                _no_signal([rollout for step_rollouts in self._silent for rollout in step_rollouts], len(self._silent), step)
            )

    def gap(self, gap: float, step: int) -> None:
        """Look at the gap between the log-probabilities of sampler and trainer.

        Raises:
            JobFailedError: it is above the bound.
        """
        if not gap <= self._settings.max_logp_gap:
            raise JobFailedError(
                f"step {step}: the sampler's weights did not follow the trainer's: their log-probabilities are {gap:.3g} nats apart on average "
                f"(grpo.max_logp_gap {self._settings.max_logp_gap:g}); with vLLM look at its version and number type"
            )

    def update(self, loss: float, grad_norm: float, step: int) -> None:
        """Look at a step's loss and gradients.

        Raises:
            JobFailedError: one is not finite.
        """
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            raise JobFailedError(f"loss {loss} and gradient norm {grad_norm} at step {step}: lower grpo.learning_rate")


def _no_signal(rollouts: Sequence[Rollout], steps: int, step: int) -> str:
    """Say, per size, what all the equal rewards are."""
    by_size: dict[str, Counter[str]] = {}
    for rollout in rollouts:
        by_size.setdefault(rollout.instance.bucket, Counter())[rollout.verdict.value] += 1
    shares = []
    for bucket in sorted(by_size, key=int):
        outcomes = by_size[bucket]
        outcome, count = outcomes.most_common(1)[0]
        shares.append(f"{bucket}x{bucket} mostly {outcome} ({count} of {outcomes.total()})")
    return (
        f"step {step}: no learning signal for {steps} steps: every group of completions has equal rewards: {', '.join(shares)}; take easier or "
        "harder boards, a warm start (warm_start), more num_generations, or set grpo.no_signal_steps to 0 to go on"
    )
