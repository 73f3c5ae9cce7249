"""The learnability baseline: practice in proportion to p(1-p), the variance of success, over sizes and knobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from envwright.agent.baselines import RANDOM_HOLES, Baseline, edit, scaled_shares
from envwright.agent.context import Bookkeeping
from envwright.agent.frontier import FLOOR, WAIT_MAX, Counts
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.rollout import Rollout
from envwright.tools.errors import ToolError
from envwright.tools.evidence import Evidence
from envwright.tools.selection import select

__all__ = ["LearnabilityEngineer"]

_Group = tuple[str, bool, int]
"""Size, whether every optimal plan waits, number of holes."""


class LearnabilityEngineer(Baseline):
    """Follows p(1-p) of the latest validation valid rates.

    Shares are in proportion to p(1-p) of each size. A wait ratio is the mean of "needs a wait" (1 or 0) over the two kinds of
    boards, weighted by the p(1-p) of each; a hole ratio is the mean of the hole ratios that were measured on the size, weighted
    in the same way. Both need two measured kinds to choose between: validation boards with one number of holes per size say
    nothing about holes, and leave that knob as it is.
    """

    @property
    def name(self) -> str:
        """`learnability`."""
        return "learnability"

    def propose(self, evidence: Evidence, bookkeeping: Bookkeeping) -> dict[str, Any] | str:  # noqa: ARG002  (the same at every stage)
        """Read the latest validation rollouts; sizes without any keep their share's weight and their knobs."""
        try:
            _, rollouts = select(evidence, Split.VALIDATION, None)
        except ToolError as error:
            return error.message
        groups = _counted(evidence.config, rollouts)
        totals = {bucket: _pooled(groups, bucket) for bucket in evidence.config.sizes}
        measured = {bucket: total for bucket, total in totals.items() if total.n}
        edits = _share_edits(evidence.config, measured)
        for bucket in evidence.config.sizes:
            edits += [*_wait_edits(bucket, groups), *_hole_edits(bucket, groups)]
        if not edits:
            return "no size has a success rate between 0 and 1"
        return {"summary": "Practice in proportion to p(1-p) of the validation valid rate", "edits": edits}


def _counted(config: GeneratorConfig, rollouts: Sequence[Rollout]) -> dict[_Group, Counts]:
    """Count outcomes per size of the config, kind of board and number of holes."""
    counters: dict[_Group, Counter[str]] = {}
    for rollout in rollouts:
        board = rollout.instance
        if board.bucket in config.sizes:
            key = (board.bucket, board.wait_required, len(board.holes))
            counters.setdefault(key, Counter())[rollout.verdict.value] += 1
    return {key: Counts(dict(counters[key])) for key in sorted(counters)}


def _pooled(groups: Mapping[_Group, Counts], bucket: str, *, wait: bool | None = None, holes: int | None = None) -> Counts:
    """Add up the groups of a size that have this kind and number of holes; None takes all."""
    chosen = (
        counts for (size, kind, number), counts in groups.items() if size == bucket and wait in (None, kind) and holes in (None, number)
    )
    return sum(chosen, Counts({}))


def _variance(counts: Counts) -> float:
    return counts.rate * (1.0 - counts.rate)


def _share_edits(config: GeneratorConfig, measured: Mapping[str, Counts]) -> list[dict[str, Any]]:
    """Shares of the measured sizes by p(1 - p), above a floor; they keep what they have together."""
    together = sum(config.sizes[bucket].data_ratio for bucket in measured)
    whole = sum(_variance(counts) for counts in measured.values())
    if whole == 0 or together == 0:
        return []
    floor = FLOOR / len(measured)
    shares = scaled_shares({bucket: floor + (1 - FLOOR) * _variance(counts) / whole for bucket, counts in measured.items()}, together)
    reasons = {
        bucket: f"{bucket}x{bucket}: {counts.valid} of {counts.n} valid, p(1-p) = {_variance(counts):.3f}"
        for bucket, counts in measured.items()
    }
    return [edit(bucket, "data_ratio", share, reasons[bucket]) for bucket, share in shares.items()]


def _wait_edits(bucket: str, groups: Mapping[_Group, Counts]) -> list[dict[str, Any]]:
    """Weigh boards that need a wait against those that do not, where both are measured."""
    wait, free = _pooled(groups, bucket, wait=True), _pooled(groups, bucket, wait=False)
    whole = _variance(wait) + _variance(free)
    if not (wait.measured and free.measured) or whole == 0:
        return []
    value = round(min(WAIT_MAX, _variance(wait) / whole), 3)
    counts = f"{wait.valid} of {wait.n} wait-required and {free.valid} of {free.n} wait-free boards are valid"
    return [edit(bucket, "wait_ratio", value, f"{bucket}x{bucket}: {counts}, weighed by p(1-p)")]


def _hole_edits(bucket: str, groups: Mapping[_Group, Counts]) -> list[dict[str, Any]]:
    """Weigh the numbers of holes against each other, where at least two are measured."""
    numbers = sorted({number for size, _, number in groups if size == bucket})
    counts = {number: total for number in numbers if (total := _pooled(groups, bucket, holes=number)).measured}
    whole = sum(map(_variance, counts.values()))
    if len(counts) < 2 or whole == 0:
        return []
    mean = sum(number * _variance(total) for number, total in counts.items()) / whole
    value = round(min(RANDOM_HOLES[1], mean / int(bucket) ** 2), 3)
    told = ", ".join(f"{total.valid} of {total.n} with {number} holes" for number, total in counts.items())
    return [edit(bucket, "hole_ratio", value, f"{bucket}x{bucket}: {told} are valid, weighed by p(1-p)")]
