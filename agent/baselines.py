"""Engineers without a model: keep the config, draw one at random, or follow p(1 - p).

Each leaves a transcript that states its patch as a propose_patch call, so that every stage folder has one and it replays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envwright.agent.context import Bookkeeping
from envwright.agent.frontier import FLOOR, WAIT_MAX, Counts
from envwright.agent.loop import KEEP
from envwright.agent.messages import AssistantMessage, ToolMessage, Usage
from envwright.agent.redesign import Redesign
from envwright.agent.scripted import call_message
from envwright.agent.stop import StopReason
from envwright.agent.transcript import SessionEnd, SessionHeader, Transcript, config_hash
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.jsonio import dump_json
from envwright.env.patch import PatchCheck, check_patch
from envwright.env.rollout import Rollout
from envwright.env.seeding import random_stream
from envwright.tools.errors import ToolError
from envwright.tools.evidence import Evidence
from envwright.tools.selection import select

__all__ = ["Baseline", "FixedEngineer", "LearnabilityEngineer", "RandomEngineer"]

RANDOM_HOLES = (0.0, 0.35)
"""Range of random hole ratios: above it the generator rejects most boards."""
RANDOM_WAITS = (0.0, 0.75)
"""Range of random wait ratios: above it small boards run out."""
_DECIMALS = 4


class Baseline(ABC):
    """An engineer that computes its patch from the evidence at once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name, as in `--engineer`."""

    @abstractmethod
    def propose(self, evidence: Evidence) -> dict[str, Any] | str:
        """Return `summary` and `edits` as propose_patch takes them, or why the config is kept."""

    def check(self) -> None:  # noqa: B027  (not abstract: no baseline can lack anything)
        """Nothing can be missing."""

    def design(self, evidence: Evidence, transcript: Path | None = None, *, bookkeeping: Bookkeeping | None = None) -> Redesign:  # noqa: ARG002  (a protocol's argument)
        """Decide on the next config; see `envwright.agent.engineers.Engineer`."""
        proposal = self.propose(evidence)
        record = Transcript(transcript)
        record.add(
            SessionHeader(model=self.name, seed=evidence.seed, stage=evidence.latest_stage, config_hash=config_hash(evidence.config))
        )
        accepted: PatchCheck | None = None
        if isinstance(proposal, dict):
            verdict = check_patch(evidence.config, proposal)
            message = call_message(("propose_patch", proposal))
            record.add(message)
            record.add(ToolMessage(tool_call_id=message.tool_calls[0].id, content=dump_json(verdict.to_json())))
            accepted = verdict if verdict.accepted else None
            reason = StopReason.PATCH_ACCEPTED if verdict.accepted else StopReason.KEPT
            note = str(proposal["summary"]) if verdict.accepted else "; ".join(problem.message for problem in verdict.errors)
        else:
            reason, note = StopReason.KEPT, proposal
            record.add(AssistantMessage(content=f"{KEEP}: {proposal}"))
        redesign = Redesign.of(evidence.config, accepted, reason, note, Usage())
        record.add(SessionEnd(stop_reason=reason, note=note, patch=redesign.patch))
        return redesign


class FixedEngineer(Baseline):
    """Keeps the config, always."""

    @property
    def name(self) -> str:
        """`fixed`."""
        return "fixed"

    def propose(self, evidence: Evidence) -> str:  # noqa: ARG002  (nothing is looked at)
        """Keep."""
        return "the fixed engineer changes nothing"


class RandomEngineer(Baseline):
    """Draws every knob anew, from a stream of the evidence's seed and stage."""

    @property
    def name(self) -> str:
        """`random`."""
        return "random"

    def propose(self, evidence: Evidence) -> dict[str, Any]:
        """Draw hole and wait ratios uniformly and the shares from a flat Dirichlet distribution."""
        rng = random_stream(evidence.seed, "random-engineer", evidence.latest_stage)
        buckets = list(evidence.config.sizes)
        shares = _shares({bucket: float(share) for bucket, share in zip(buckets, rng.dirichlet([1.0] * len(buckets)), strict=True)})
        edits = []
        for bucket in buckets:
            values = {"data_ratio": shares[bucket]}
            values |= {
                knob: round(float(rng.uniform(*span)), 3) for knob, span in (("hole_ratio", RANDOM_HOLES), ("wait_ratio", RANDOM_WAITS))
            }
            edits += [_edit(bucket, knob, value, f"{bucket}x{bucket}: drawn at random") for knob, value in values.items()]
        return {"summary": f"Random knobs for every size, stage {evidence.latest_stage + 1}", "edits": edits}


class LearnabilityEngineer(Baseline):
    """Shares in proportion to p(1 - p), the variance of success, and wait ratios by the same measure of the two kinds of boards."""

    @property
    def name(self) -> str:
        """`learnability`."""
        return "learnability"

    def propose(self, evidence: Evidence) -> dict[str, Any] | str:
        """Read the latest validation rollouts; sizes without any keep their share's weight and their knobs."""
        try:
            _, rollouts = select(evidence, Split.VALIDATION, None)
        except ToolError as error:
            return error.message
        kinds = _counted(evidence.config, rollouts)
        totals = {bucket: kinds[bucket, True] + kinds[bucket, False] for bucket in evidence.config.sizes}
        measured = {bucket: total for bucket, total in totals.items() if total.n}
        edits = [*_share_edits(evidence.config, measured), *_wait_edits(evidence.config, kinds)]
        if not edits:
            return "no size has a success rate between 0 and 1"
        return {"summary": "Practice in proportion to p(1-p) of the validation valid rate", "edits": edits}


def _counted(config: GeneratorConfig, rollouts: Sequence[Rollout]) -> dict[tuple[str, bool], Counts]:
    """Count outcomes per size of the config and kind of board."""
    counters: dict[tuple[str, bool], Counter[str]] = {(bucket, kind): Counter() for bucket in config.sizes for kind in (True, False)}
    for rollout in rollouts:
        key = (rollout.instance.bucket, rollout.instance.wait_required)
        if key in counters:
            counters[key][rollout.verdict.value] += 1
    return {key: Counts(dict(counter)) for key, counter in counters.items()}


def _variance(counts: Counts) -> float:
    return counts.rate * (1.0 - counts.rate)


def _share_edits(config: GeneratorConfig, measured: Mapping[str, Counts]) -> list[dict[str, Any]]:
    """Shares of the measured sizes by p(1 - p), above a floor; they keep what they have together."""
    together = sum(config.sizes[bucket].data_ratio for bucket in measured)
    whole = sum(_variance(counts) for counts in measured.values())
    if whole == 0 or together == 0:
        return []
    floor = FLOOR / len(measured)
    shares = _shares({bucket: floor + (1 - FLOOR) * _variance(counts) / whole for bucket, counts in measured.items()}, together)
    reasons = {
        bucket: f"{bucket}x{bucket}: {counts.valid} of {counts.n} valid, p(1-p) = {_variance(counts):.3f}"
        for bucket, counts in measured.items()
    }
    return [_edit(bucket, "data_ratio", share, reasons[bucket]) for bucket, share in shares.items()]


def _wait_edits(config: GeneratorConfig, kinds: Mapping[tuple[str, bool], Counts]) -> list[dict[str, Any]]:
    """Wait ratios by p(1 - p) of wait-required against wait-free boards, where both are measured."""
    edits = []
    for bucket in config.sizes:
        wait, free = kinds[bucket, True], kinds[bucket, False]
        whole = _variance(wait) + _variance(free)
        if not (wait.measured and free.measured) or whole == 0:
            continue
        value = round(min(WAIT_MAX, _variance(wait) / whole), 3)
        counts = f"{wait.valid} of {wait.n} wait-required and {free.valid} of {free.n} wait-free boards are valid"
        edits.append(_edit(bucket, "wait_ratio", value, f"{bucket}x{bucket}: {counts}, weighed by p(1-p)"))
    return edits


def _shares(weights: Mapping[str, float], total: float = 1.0) -> dict[str, float]:
    """Scale weights to a sum of `total`, rounded; the largest takes the rest of the rounding."""
    whole = sum(weights.values())
    shares = {bucket: round(total * weight / whole, _DECIMALS) for bucket, weight in weights.items()}
    largest = max(shares, key=lambda bucket: shares[bucket])
    shares[largest] = round(shares[largest] + total - sum(shares.values()), _DECIMALS)
    return shares


def _edit(bucket: str, knob: str, value: float, reason: str) -> dict[str, Any]:
    return {"op": "replace", "path": f"/sizes/{bucket}/{knob}", "value": value, "reason": reason}
