"""Evidence as text for a first message: raw counts of failures, and what earlier configs led to. Counts, no prose."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from envwright.agent.context_modules import ContextModules
from envwright.env.canonical import Split
from envwright.env.jsonio import dump_json
from envwright.env.rules import Outcome
from envwright.tools.errors import ToolError
from envwright.tools.evidence import Evidence, StageRecord
from envwright.tools.failure_breakdown import FailureBreakdown, FailureBreakdownArguments, run

__all__ = ["SHOWN_BREAKDOWN", "count_failures", "failures_text", "history_text", "visible_evidence"]

SHOWN_BREAKDOWN = "failure_breakdown#0"
"""What edits cite the breakdown in the first message by; results of calls count from 1."""
HISTORY_STAGES = 4
"""Stages in the first message: enough to see a trend; `env_stats` has them all."""
_DEFAULT_STAGE = 0


def visible_evidence(evidence: Evidence, modules: ContextModules) -> Evidence:
    """Return the evidence without what the modules hide, so that a tool does not show what the context leaves out.

    Without a history that is every stage before the latest; without the round-0 default it is stage 0, once it is past.
    """
    if modules.history == "with_default":
        return evidence
    latest = evidence.latest_stage

    def shown(stage: int) -> bool:
        return stage == latest or (modules.history == "without_default" and stage > _DEFAULT_STAGE)

    history = tuple(record for record in evidence.history if modules.history != "off" and record.stage > _DEFAULT_STAGE)
    if all(shown(stage) for _, stage in evidence.groups):
        return evidence if history == evidence.history else replace(evidence, history=history)
    return replace(evidence, rollouts=tuple(rollout for rollout in evidence.rollouts if shown(rollout.stage)), history=history)


def count_failures(evidence: Evidence, stage: int | None = None) -> FailureBreakdown | None:
    """Count failures per size and kind of board on validation boards, or on training boards where there are no others."""
    for split in (Split.VALIDATION, Split.TRAIN):
        try:
            return run(FailureBreakdownArguments(by=("size", "wait_required"), split=split, stage=stage), evidence)
        except ToolError:
            continue
    return None


def failures_text(evidence: Evidence) -> str:
    """Return a line of raw counts per size and kind of board."""
    counted = count_failures(evidence)
    if counted is None:
        return "Failure breakdown: the evidence holds no rollouts."
    lines = [dump_json({**row.group, "n": row.n, "outcomes": row.outcomes}) for row in counted.rows]
    return f"Failure breakdown, {counted.split} boards of stage {counted.stage} (cite as {SHOWN_BREAKDOWN}):\n" + "\n".join(lines)


def history_text(evidence: Evidence) -> str | None:
    """Return a line per finished stage: what it trained on, and how validation went; None without any."""
    records = evidence.history[-HISTORY_STAGES:]
    if not records:
        return None
    head = "Stages so far (data / hole / wait ratio per size -> validation valid rate and failures):"
    return "\n".join([head, *(_stage_line(record, evidence) for record in records)])


def _stage_line(record: StageRecord, evidence: Evidence) -> str:
    failures = _failures(evidence, record.stage)
    parts = []
    for bucket, values in record.config.buckets():
        rates = record.by_bucket.get(bucket)
        reached = "no data" if rates is None or rates.n == 0 else f"{rates.valid:.2f} of {rates.n}"
        told = ", ".join(f"{outcome} {count}" for outcome, count in failures.get(bucket, {}).items())
        parts.append(
            f"{bucket}: {values.data_ratio:.3f}/{values.hole_ratio:.3f}/{values.wait_ratio:.3f} -> {reached}{told and f' ({told})'}"
        )
    return f"stage {record.stage}: all {record.validation.valid:.2f} of {record.validation.n}; " + "; ".join(parts)


def _failures(evidence: Evidence, stage: int) -> dict[str, dict[str, int]]:
    """Bucket -> failing outcomes of a stage's validation, the commonest first; empty when its rollouts are not there."""
    try:
        counted = run(FailureBreakdownArguments(by=("size",), stage=stage), evidence)
    except ToolError:
        return {}
    found = {}
    for row in counted.rows:
        failing = Counter({outcome: count for outcome, count in row.outcomes.items() if not Outcome(outcome).valid})
        found[str(row.group["size"])] = dict(failing.most_common())
    return found
