"""Figures over graded rollouts: what a run's metrics, `grade --json` and `evaluate --json` have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from envwright.env.base import FrozenModel
from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome
from envwright.env.statistics import Interval, wilson

__all__ = ["RolloutSummary", "Tally", "summarise", "tally_of"]


class Tally(FrozenModel):
    """Rates and outcomes of a number of completions."""

    n: int = Field(ge=0)
    """Completions."""
    valid: Interval
    """Share that is valid, with its 95 % Wilson interval."""
    optimal: Interval
    """Share that is optimal, with its 95 % Wilson interval."""
    outcomes: dict[str, int]
    """Completions per outcome; outcomes that did not occur are left out."""


class RolloutSummary(Tally):
    """A tally of everything, per bucket and per wait label."""

    by_size: dict[str, Tally]
    """The same per map size."""
    by_wait: dict[str, Tally]
    """The same for boards whose optimal plans must wait (`required`) and the others (`free`)."""


def tally_of(outcomes: Counter[Outcome]) -> Tally:
    """Return the figures of a count of outcomes."""
    n = sum(outcomes.values())
    valid = sum(count for outcome, count in outcomes.items() if outcome.valid)
    named = {outcome.value: outcomes[outcome] for outcome in Outcome if outcomes[outcome]}
    return Tally(n=n, valid=wilson(valid, n), optimal=wilson(outcomes[Outcome.OPTIMAL], n), outcomes=named)


def summarise(rollouts: Sequence[Rollout]) -> RolloutSummary:
    """Return the figures of graded rollouts."""
    total: Counter[Outcome] = Counter()
    by_size: dict[str, Counter[Outcome]] = {}
    by_wait: dict[str, Counter[Outcome]] = {}
    for rollout in rollouts:
        outcome = rollout.verdict
        total[outcome] += 1
        by_size.setdefault(rollout.instance.bucket, Counter())[outcome] += 1
        by_wait.setdefault("required" if rollout.instance.wait_required else "free", Counter())[outcome] += 1
    return RolloutSummary(
        **dict(tally_of(total)),
        by_size={bucket: tally_of(by_size[bucket]) for bucket in sorted(by_size, key=int)},
        by_wait={label: tally_of(by_wait[label]) for label in sorted(by_wait)},
    )
