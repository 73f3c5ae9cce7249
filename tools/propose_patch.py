"""`propose_patch`: the one tool that decides something. Judges a patch, shows what it does, and warns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import Field

from envwright.env.base import FrozenModel
from envwright.env.config import GeneratorConfig, Knobs
from envwright.env.patch import Edit, PatchCheck, PatchProblem, check_patch
from envwright.env.rules import Outcome
from envwright.tools import failure_breakdown
from envwright.tools.deadline import check_time
from envwright.tools.errors import ToolError
from envwright.tools.evidence import Evidence
from envwright.tools.trial import same_instances, try_knobs

__all__ = ["ProposePatchArguments", "judge", "run"]

FEASIBILITY_SAMPLE = 2
"""Boards made per edited bucket to see whether the generator can fill it: one of each kind that the knobs ask for."""
HEALTHY_RATE = 0.9
"""Validation valid rate from which a bucket is healthy."""
HEALTHY_SAMPLES = 20
"""Completions that a bucket needs before it can be called healthy."""
_CITED_SHOWN = 80
"""Characters of an unknown citation that a warning repeats."""


class ProposePatchArguments(FrozenModel):
    """Propose the next config as a patch: it is checked, and accepted or refused with every problem, the bound and a hint."""

    summary: str = Field(min_length=1)
    """What the patch is for, in a sentence."""
    edits: tuple[Edit, ...] = Field(min_length=1)
    """The edits; at most one per knob."""


def run(arguments: ProposePatchArguments, evidence: Evidence, known_ids: Collection[str] | None = None) -> PatchCheck:
    """Judge a patch that is well formed; see `judge`."""
    return judge(arguments.to_json(), evidence, known_ids)


def judge(raw: Mapping[str, Any], evidence: Evidence, known_ids: Collection[str] | None = None) -> PatchCheck:
    """Judge a patch given as plain JSON data. A refused patch is an answer, not an error.

    Args:
        raw: the patch; `schema_version` may be left out.
        evidence: holds the config that the patch would change.
        known_ids: ids of the results that edits may cite; None leaves citations unchecked.
    """
    check = check_patch(evidence.config, dict(raw))
    if not check.accepted or check.patch is None:
        return check.model_copy(update={"patch": None})
    edits = check.patch.edits
    warnings = (
        *check.warnings,
        *_citations(edits, known_ids),
        *_healthy(edits, evidence),
        *_infeasible(edits, evidence.config, check.config, evidence.seed),
    )
    return check.model_copy(update={"warnings": warnings})


def _bucket_and_knob(edit: Edit) -> tuple[str, str]:
    _, _, bucket, knob = edit.path.split("/")
    return bucket, knob


def _citations(edits: tuple[Edit, ...], known_ids: Collection[str] | None) -> Iterator[PatchProblem]:
    for edit in edits:
        if not edit.evidence:
            yield PatchProblem(
                path=edit.path, code="no_evidence", message="the edit cites no evidence; name the ids of the results that support it"
            )
        for cited in edit.evidence:
            if known_ids is not None and cited not in known_ids:
                there = ", ".join(known_ids) or "none so far"
                shown = cited if len(cited) <= _CITED_SHOWN else f"{cited[:_CITED_SHOWN]}..."
                message = f"no result of this session is {shown!r}; results: {there}"
                yield PatchProblem(path=edit.path, code="unknown_evidence", message=message)


def _healthy(edits: tuple[Edit, ...], evidence: Evidence) -> Iterator[PatchProblem]:
    """Warn of edits that give a healthy bucket more data or make it easier."""
    wasted = [edit for edit in edits if _wasted(evidence.config, edit)]
    rates = _validation_rates(evidence) if wasted else {}
    for edit in wasted:
        bucket, _ = _bucket_and_knob(edit)
        n, valid = rates.get(bucket, (0, 0))
        if n < HEALTHY_SAMPLES or valid < HEALTHY_RATE * n:
            continue
        message = (
            f"bucket {bucket} is healthy ({valid} of {n} validation completions valid): take data from it or make it harder, or leave it"
        )
        yield PatchProblem(path=edit.path, code="healthy_size", message=message)


def _wasted(config: GeneratorConfig, edit: Edit) -> bool:
    """True when the new value means more data (data ratio) or easier boards (any other knob)."""
    bucket, knob = _bucket_and_knob(edit)
    before: float = getattr(config.sizes[bucket], knob)
    return edit.value > before if knob == "data_ratio" else edit.value < before


def _validation_rates(evidence: Evidence) -> dict[str, tuple[int, int]]:
    """Bucket -> completions and valid ones, at the latest stage that was validated; empty without validation."""
    try:
        counted = failure_breakdown.run(failure_breakdown.FailureBreakdownArguments(by=("size",)), evidence)
    except ToolError:
        return {}
    valid = {row.group["size"]: sum(row.outcomes.get(outcome.value, 0) for outcome in Outcome if outcome.valid) for row in counted.rows}
    return {str(row.group["size"]): (row.n, valid[row.group["size"]]) for row in counted.rows}


def _infeasible(edits: tuple[Edit, ...], before: GeneratorConfig, config: GeneratorConfig, seed: int) -> Iterator[PatchProblem]:
    """Warn of edited buckets that the generator cannot fill, and of those that there was no time to try.

    A bucket that was filled before with the same knobs, its share aside, is not tried again.
    """
    edited = dict.fromkeys(_bucket_and_knob(edit)[0] for edit in edits)
    buckets = [bucket for bucket in edited if _to_try(before.sizes[bucket], config.sizes[bucket])]
    for number, bucket in enumerate(buckets):
        knobs = config.sizes[bucket]
        try:
            check_time(f"whether the generator can fill sizes {', '.join(buckets[number:])} was not checked; simulate_config can")
            trial = try_knobs(config.num_agents, bucket, _both_kinds(knobs), FEASIBILITY_SAMPLE, seed)
        except ToolError as error:
            yield PatchProblem(path=f"/sizes/{bucket}", code="not_checked", message=error.message)
            return
        if trial.reason is not None:
            yield PatchProblem(path=f"/sizes/{bucket}", code="infeasible", message=trial.reason)


def _to_try(before: Knobs, after: Knobs) -> bool:
    return after.data_ratio > 0 and (before.data_ratio == 0 or not same_instances(before, after))


def _both_kinds(knobs: Knobs) -> Knobs:
    """Return knobs with which even a few boards hold both kinds, wait-required and wait-free, when the ratio asks for both."""
    if knobs.wait_ratio in (0.0, 1.0):
        return knobs
    share = 1.0 / FEASIBILITY_SAMPLE
    return knobs.model_copy(update={"wait_ratio": min(max(knobs.wait_ratio, share), 1.0 - share)})
