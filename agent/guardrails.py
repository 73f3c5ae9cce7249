"""Guard rails: how far one patch may go, beyond being well formed.

They are settings, and they are reported: what breaks one is named with the bound and the value that would pass, as an error
of `propose_patch` (the model proposes again) or as a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.config import GeneratorConfig
from envwright.env.jsonio import read_json
from envwright.env.patch import Change, PatchCheck, PatchProblem
from envwright.env.rules import Outcome
from envwright.tools import failure_breakdown
from envwright.tools.errors import ToolError
from envwright.tools.evidence import Evidence

__all__ = ["GuardRails", "judge", "read_guard_rails", "refused"]

Severity = Literal["off", "warn", "refuse"]
"""What happens to a patch that breaks a rail: nothing, a warning, or a refusal."""

_EPSILON = 1e-9
_SEVERITY_OF_CODE = {"no_evidence": "evidence", "unknown_evidence": "evidence", "infeasible": "infeasible"}


class GuardRails(FrozenModel):
    """Bounds on one patch.

    By default a well-formed patch is warned of, and refused only when the generator cannot fill what it asks for.
    """

    max_edits: StrictInt = Field(default=8, ge=1, le=1_000)
    """Most knobs that a patch edits, 1 or more (scaled shares do not count): few changes can be told apart afterwards."""
    max_data_step: float = Field(default=0.25, gt=0, le=1)
    """Largest change of a size's data ratio in a stage, over 0 to 1; sizes that are scaled count too."""
    max_hole_step: float = Field(default=0.1, gt=0, le=0.5)
    """Largest change of a hole ratio in a stage, over 0 to 0.5."""
    max_wait_step: float = Field(default=0.25, gt=0, le=1)
    """Largest change of a wait ratio in a stage, over 0 to 1."""
    min_share: float = Field(default=0.25, ge=0, le=1)
    """No size's data ratio falls below this fraction of an equal share, 0 to 1: a size that is starved is forgotten."""
    bounds: Severity = "warn"
    """What a patch beyond one of the bounds above means."""
    healthy: Severity = "warn"
    """What an edit of a healthy size means: one whose boards of each measured kind succeed at healthy_rate or more, and that is not saturated."""
    healthy_rate: float = Field(default=0.5, ge=0, le=1)
    """Validation valid rate, 0 to 1, from which a kind of board (wait-required or not) is healthy."""
    saturated_rate: float = Field(default=0.9, ge=0, le=1)
    """Validation valid rate, 0 to 1, from which a size is saturated and may be edited again: it teaches little."""
    min_samples: StrictInt = Field(default=10, ge=1)
    """Completions of a kind of board below which nothing is said about it, 1 or more."""
    evidence: Severity = "warn"
    """What an edit without evidence, or with evidence that this session has not seen, means."""
    infeasible: Severity = "refuse"
    """What a size that the generator cannot fill means; it is found by making a few boards."""

    def step_of(self, knob: str) -> float:
        """Return the largest change of a knob."""
        steps = {"data_ratio": self.max_data_step, "hole_ratio": self.max_hole_step, "wait_ratio": self.max_wait_step}
        return steps[knob]


def read_guard_rails(path: Path) -> GuardRails:
    """Read a JSON file of guard rails.

    Raises:
        UserError: no such file, not strict JSON, an unknown key or a value out of bounds; one line.
    """
    return GuardRails.parse(read_json(path), str(path))


def judge(check: PatchCheck, evidence: Evidence, rails: GuardRails) -> PatchCheck:
    """Hold an accepted patch against the guard rails.

    Args:
        check: what `propose_patch` found; a refused patch is returned as it is.
        evidence: holds the config before and the rollouts that say which sizes are healthy.
        rails: the bounds.

    Returns:
        The same check with more warnings, or a refusal with an error per broken rail and the config unchanged.
    """
    if not check.accepted or check.patch is None:
        return check
    errors: list[PatchProblem] = []
    warnings: list[PatchProblem] = []
    found = [(_SEVERITY_OF_CODE.get(warning.code), warning) for warning in check.warnings]
    found += [("bounds", problem) for problem in _beyond_bounds(check, evidence.config, rails)]
    found += [("healthy", problem) for problem in _healthy_touched(check, evidence, rails)]
    for rail, problem in found:
        severity: Severity = getattr(rails, rail) if rail is not None else "warn"
        if severity != "off":
            (errors if severity == "refuse" else warnings).append(problem)
    if errors:
        return refused(check, evidence.config, tuple(errors), tuple(warnings))
    return check.model_copy(update={"warnings": tuple(warnings)})


def refused(
    check: PatchCheck, config: GeneratorConfig, errors: tuple[PatchProblem, ...], warnings: tuple[PatchProblem, ...] = ()
) -> PatchCheck:
    """Return the refusal of a patch that is well formed: nothing changes."""
    return check.model_copy(update={"accepted": False, "errors": errors, "warnings": warnings, "diff": (), "config": config, "patch": None})


def _beyond_bounds(check: PatchCheck, before: GeneratorConfig, rails: GuardRails) -> list[PatchProblem]:
    return [*_too_many(check, rails), *_too_far(check.diff, rails), *_starved(before, check.config, rails)]


def _too_many(check: PatchCheck, rails: GuardRails) -> Iterator[PatchProblem]:
    changed = {change.path for change in check.diff}
    count = sum(edit.path in changed for edit in check.patch.edits) if check.patch is not None else 0
    if count > rails.max_edits:
        message = f"the patch changes {count} knobs; a stage takes at most {rails.max_edits}: keep those with the strongest evidence"
        yield PatchProblem(path="/edits", code="too_many_edits", message=message)


def _too_far(diff: tuple[Change, ...], rails: GuardRails) -> Iterator[PatchProblem]:
    for change in diff:
        knob = change.path.rpartition("/")[2]
        step = rails.step_of(knob)
        if abs(change.after - change.before) <= step + _EPSILON:
            continue
        nearest = change.before + (step if change.after > change.before else -step)
        message = (
            f"{knob} would go from {change.before:g} to {change.after:g}; it may change by at most {step:g} in a stage: "
            f"choose {nearest:.6g} or nearer to {change.before:g}"
        )
        yield PatchProblem(path=change.path, code="step_too_large", message=message)


def _starved(before: GeneratorConfig, after: GeneratorConfig, rails: GuardRails) -> Iterator[PatchProblem]:
    floor = rails.min_share / len(before.sizes)
    for bucket, knobs in after.buckets():
        share, old = knobs.data_ratio, before.sizes[bucket].data_ratio
        if share < old - _EPSILON and share < floor - _EPSILON:
            message = f"size {bucket} would get {share:.4g} of the data; no size falls below {floor:.4g}: make it easier instead"
            yield PatchProblem(path=f"/sizes/{bucket}/data_ratio", code="starved_size", message=message)


def _healthy_touched(check: PatchCheck, evidence: Evidence, rails: GuardRails) -> Iterator[PatchProblem]:
    """Name the edits of sizes that are healthy and not saturated."""
    if rails.healthy == "off" or check.patch is None:
        return
    counts = _validation_counts(evidence)
    for edit in check.patch.edits:
        bucket = edit.path.split("/")[2]
        kinds = [(n, valid) for n, valid in counts.get(bucket, []) if n >= rails.min_samples]
        n, valid = sum(n for n, _ in kinds), sum(valid for _, valid in kinds)
        if not kinds or valid >= rails.saturated_rate * n or any(valid < rails.healthy_rate * n for n, valid in kinds):
            continue
        message = (
            f"size {bucket} is healthy ({valid} of {n} validation completions valid, not yet saturated): leave it as it is, "
            "and edit sizes that fail or are mastered"
        )
        yield PatchProblem(path=edit.path, code="healthy_untouched", message=message)


def _validation_counts(evidence: Evidence) -> dict[str, list[tuple[int, int]]]:
    """Bucket -> completions and valid ones of each kind of board, at the latest stage that was validated."""
    try:
        counted = failure_breakdown.run(failure_breakdown.FailureBreakdownArguments(by=("size", "wait_required")), evidence)
    except ToolError:
        return {}
    counts: dict[str, list[tuple[int, int]]] = {}
    for row in counted.rows:
        valid = sum(row.outcomes.get(outcome.value, 0) for outcome in Outcome if outcome.valid)
        counts.setdefault(str(row.group["size"]), []).append((row.n, valid))
    return counts
