"""Engineers that follow a plan made before the run, whatever the evidence says: the same knobs everywhere, or from easy to hard."""

from __future__ import annotations

from typing import Any

from envwright.agent.baselines import RANDOM_HOLES, RANDOM_WAITS, Baseline, edit, scaled_shares
from envwright.agent.context import Bookkeeping
from envwright.env.config import Knobs
from envwright.tools.evidence import Evidence

__all__ = ["EasyToHardEngineer", "UniformEngineer"]

MIDDLE_HOLES = sum(RANDOM_HOLES) / 2
"""Hole ratio of `uniform`, 0.175: the mean of what `random` draws."""
MIDDLE_WAITS = sum(RANDOM_WAITS) / 2
"""Wait ratio of `uniform`, 0.375: the mean of what `random` draws."""
_SAME = 1e-3


class UniformEngineer(Baseline):
    """Gives every size the same share, holes and waits: the middle of the ranges that `random` draws from, found without measuring."""

    @property
    def name(self) -> str:
        """`uniform`."""
        return "uniform"

    def propose(self, evidence: Evidence, bookkeeping: Bookkeeping) -> dict[str, Any] | str:  # noqa: ARG002  (a plan without stages)
        """Set every knob; keep the config once it is so."""
        buckets = list(evidence.config.sizes)
        shares = scaled_shares(dict.fromkeys(buckets, 1.0))
        goals = {bucket: Knobs(data_ratio=shares[bucket], hole_ratio=MIDDLE_HOLES, wait_ratio=MIDDLE_WAITS) for bucket in buckets}
        if all(_alike(goals[bucket], knobs) for bucket, knobs in evidence.config.buckets()):
            return "the config is uniform already"
        edits = [
            edit(bucket, knob, value, f"{bucket}x{bucket}: the same for every size") for bucket in buckets for knob, value in goals[bucket]
        ]
        return {"summary": f"Equal shares, hole ratio {MIDDLE_HOLES:g} and wait ratio {MIDDLE_WAITS:g} for every size", "edits": edits}


class EasyToHardEngineer(Baseline):
    """Small maps without waiting first, large ones with many waits last, in even steps over the stages that it designs.

    The first designed stage has wait ratio 0 and shares that fall evenly from the smallest size (m parts of m sizes) to the
    largest (one part); the last one has `RANDOM_WAITS`' upper end, 0.75, and the shares the other way round; those between lie
    on the line between the two. A single designed stage is the middle. Hole ratios stay. Stage 0 is the run's own config.
    """

    @property
    def name(self) -> str:
        """`easy-to-hard`."""
        return "easy-to-hard"

    def propose(self, evidence: Evidence, bookkeeping: Bookkeeping) -> dict[str, Any] | str:
        """Set every share and wait ratio to the schedule's; needs the number of stages, which a run knows."""
        if bookkeeping.stages is None:
            return "the schedule needs the number of stages, which only a run knows"
        designed = bookkeeping.stages - 1
        if bookkeeping.stage >= designed:
            return "the schedule has ended with the run"
        hard = bookkeeping.stage / (designed - 1) if designed > 1 else 0.5
        buckets = list(evidence.config.sizes)
        parts = range(1, len(buckets) + 1)
        shares = scaled_shares(
            {bucket: (1 - hard) * easy + hard * part for bucket, easy, part in zip(buckets, reversed(parts), parts, strict=True)}
        )
        waits = round(RANDOM_WAITS[0] + hard * (RANDOM_WAITS[1] - RANDOM_WAITS[0]), 3)
        step = f"step {bookkeeping.stage + 1} of {designed} from easy to hard"
        edits = [
            edit(bucket, knob, value, f"{bucket}x{bucket}: {step}")
            for bucket in buckets
            for knob, value in (("data_ratio", shares[bucket]), ("wait_ratio", waits))
        ]
        return {"summary": f"{step[0].upper()}{step[1:]}: wait ratio {waits:g} for every size", "edits": edits}


def _alike(first: Knobs, second: Knobs) -> bool:
    return all(abs(value - getattr(second, knob)) < _SAME for knob, value in first)
