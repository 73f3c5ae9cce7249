"""Engineers without a model that do not look at the evidence: keep the config, or draw it at random.

The base of all baselines is here too; the others are in `envwright.agent.schedules`, `envwright.agent.learnability` and
`envwright.agent.oracle`. Each leaves a transcript that states its patch as a propose_patch call, so that every stage folder has
one and it replays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envwright.agent.approval import Reviewer
from envwright.agent.context import Bookkeeping
from envwright.agent.guardrails import GuardRails
from envwright.agent.loop import KEEP
from envwright.agent.messages import AssistantMessage, ToolMessage, Usage
from envwright.agent.probe_count import count_probe
from envwright.agent.redesign import Redesign
from envwright.agent.scripted import call_message
from envwright.agent.stop import StopReason
from envwright.agent.transcript import SessionEnd, SessionHeader, Transcript, config_hash
from envwright.env.jsonio import dump_json
from envwright.env.patch import PatchCheck, check_patch
from envwright.env.seeding import random_stream
from envwright.tools import propose_patch
from envwright.tools.evidence import Evidence

__all__ = ["RANDOM_HOLES", "RANDOM_WAITS", "Baseline", "FixedEngineer", "RandomEngineer", "edit", "scaled_shares"]

RANDOM_HOLES = (0.0, 0.35)
"""Range of random hole ratios: above it the generator rejects most boards."""
RANDOM_WAITS = (0.0, 0.75)
"""Range of random wait ratios: above it small boards run out."""
_DECIMALS = 4


class Baseline(ABC):
    """An engineer that computes its patch at once.

    Attributes:
        rails: guard rails that its patch is held against, as a model's is; a patch that they refuse leaves the config as it
            is. None, the default, binds it to nothing but the bounds of the knobs: the comparisons that baselines come from
            redraw or rewrite everything.
    """

    rails: GuardRails | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """Name, as in `--engineer`."""

    @abstractmethod
    def propose(self, evidence: Evidence, bookkeeping: Bookkeeping) -> dict[str, Any] | str:
        """Return `summary` and `edits` as propose_patch takes them, or why the config is kept."""

    def check(self) -> None:  # noqa: B027  (not abstract: no baseline can lack anything)
        """Nothing can be missing."""

    def design(self, evidence: Evidence, transcript: Path | None = None, *, bookkeeping: Bookkeeping | None = None) -> Redesign:
        """Decide on the next config; see `envwright.agent.engineers.Engineer`."""
        seen, asked = count_probe(evidence)
        proposal = self.propose(seen, bookkeeping or Bookkeeping(stage=evidence.latest_stage))
        record = Transcript(transcript)
        record.add(
            SessionHeader(
                model=self.name,
                seed=evidence.seed,
                stage=evidence.latest_stage,
                config_hash=config_hash(evidence.config),
                guard_rails=self.rails,
            )
        )
        accepted: PatchCheck | None = None
        if isinstance(proposal, dict):
            verdict = self._judged(proposal, evidence)
            message = call_message(("propose_patch", proposal))
            record.add(message)
            record.add(ToolMessage(tool_call_id=message.tool_calls[0].id, content=dump_json(verdict.to_json())))
            accepted = verdict if verdict.accepted else None
            reason = StopReason.PATCH_ACCEPTED if verdict.accepted else StopReason.KEPT
            note = str(proposal["summary"]) if verdict.accepted else "; ".join(problem.message for problem in verdict.errors)
            if not verdict.accepted:
                record.add(AssistantMessage(content=f"{KEEP}: {note}"))
        else:
            reason, note = StopReason.KEPT, proposal
            record.add(AssistantMessage(content=f"{KEEP}: {proposal}"))
        redesign = Redesign.of(evidence.config, accepted, reason, note, Usage(policy_completions=asked()))
        record.add(SessionEnd(stop_reason=reason, note=note, patch=redesign.patch))
        return redesign

    def _judged(self, proposal: dict[str, Any], evidence: Evidence) -> PatchCheck:
        if self.rails is None:
            return check_patch(evidence.config, proposal)
        return Reviewer(self.rails)(propose_patch.judge(proposal, evidence, None), evidence)


class FixedEngineer(Baseline):
    """Keeps the config, always."""

    @property
    def name(self) -> str:
        """`fixed`."""
        return "fixed"

    def propose(self, evidence: Evidence, bookkeeping: Bookkeeping) -> str:  # noqa: ARG002  (nothing is looked at)
        """Keep."""
        return "the fixed engineer changes nothing"


class RandomEngineer(Baseline):
    """Draws every knob anew, from a stream of the evidence's seed and stage.

    Args:
        kept: draw once, after the first stage, and keep the config from then on.
    """

    def __init__(self, *, kept: bool = False) -> None:
        self.kept = kept

    @property
    def name(self) -> str:
        """`random`, or `random:kept`."""
        return "random:kept" if self.kept else "random"

    def propose(self, evidence: Evidence, bookkeeping: Bookkeeping) -> dict[str, Any] | str:
        """Draw hole and wait ratios uniformly and the shares from a flat Dirichlet distribution."""
        if self.kept and bookkeeping.stage > 0:
            return "drawn after the first stage, and kept since"
        rng = random_stream(evidence.seed, "random-engineer", evidence.latest_stage)
        buckets = list(evidence.config.sizes)
        shares = scaled_shares({bucket: float(share) for bucket, share in zip(buckets, rng.dirichlet([1.0] * len(buckets)), strict=True)})
        edits = []
        for bucket in buckets:
            values = {"data_ratio": shares[bucket]}
            values |= {
                knob: round(float(rng.uniform(*span)), 3) for knob, span in (("hole_ratio", RANDOM_HOLES), ("wait_ratio", RANDOM_WAITS))
            }
            edits += [edit(bucket, knob, value, f"{bucket}x{bucket}: drawn at random") for knob, value in values.items()]
        return {"summary": f"Random knobs for every size, stage {evidence.latest_stage + 1}", "edits": edits}


def scaled_shares(weights: Mapping[str, float], total: float = 1.0) -> dict[str, float]:
    """Scale weights to a sum of `total`, rounded; the largest takes the rest of the rounding."""
    whole = sum(weights.values())
    shares = {bucket: round(total * weight / whole, _DECIMALS) for bucket, weight in weights.items()}
    largest = max(shares, key=lambda bucket: shares[bucket])
    shares[largest] = round(shares[largest] + total - sum(shares.values()), _DECIMALS)
    return shares


def edit(bucket: str, knob: str, value: float, reason: str) -> dict[str, Any]:
    """Return one edit as propose_patch takes it."""
    return {"op": "replace", "path": f"/sizes/{bucket}/{knob}", "value": value, "reason": reason}
