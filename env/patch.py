"""Patches: small, checked, reversible changes to a generator config.

`check_patch` judges raw data and reports every problem at once; `apply_patch` is pure and applies a patch whole or
raises. An edit of a data ratio keeps the value given; the sizes that were not edited are scaled so that the sum is 1.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from envwright.env.base import FrozenModel
from envwright.env.config import KNOB_BOUNDS, KNOBS, SUM_TOLERANCE, GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.jsonio import read_json
from envwright.env.schemas import schema_problems

__all__ = ["Change", "Edit", "Patch", "PatchCheck", "PatchProblem", "apply_patch", "check_patch", "diff_configs", "read_patch"]


class Edit(FrozenModel):
    """One knob of one size, set to a new value."""

    op: Literal["replace"] = "replace"
    """The only operation: knobs exist already, none is added or removed."""
    path: str = Field(pattern=r"^/sizes/[0-9]+/(data_ratio|hole_ratio|wait_ratio)$")
    """JSON pointer of the knob: /sizes/<size>/<knob>."""
    value: float = Field(ge=0.0, le=1.0)
    """New value: data_ratio and wait_ratio 0 to 1, hole_ratio 0 to 0.5."""
    reason: str = Field(min_length=1)
    """Why, with the figures that say so."""
    evidence: tuple[str, ...] = ()
    """Ids of the tool results that support the edit, such as "failure_breakdown#1"."""


class Patch(FrozenModel):
    """A set of edits that applies whole or not at all."""

    schema_version: Literal[1] = 1
    """Version of the file format."""
    summary: str = Field(min_length=1)
    """What the patch is for, in a sentence."""
    edits: tuple[Edit, ...] = Field(min_length=1)
    """The edits; at most one per knob."""


class PatchProblem(FrozenModel):
    """One reason why a patch was refused, or one warning about it."""

    path: str
    """JSON pointer into the config (`/sizes/6/wait_ratio`) or into the patch (`/edits/0/value`)."""
    code: str
    """Stable name of the problem."""
    message: str
    """What was wrong, the bound, and what to do next."""


class Change(FrozenModel):
    """One knob before and after."""

    path: str
    """JSON pointer of the knob."""
    before: float
    """Value in the old config."""
    after: float
    """Value in the new config."""


class PatchCheck(FrozenModel):
    """The verdict on a patch."""

    accepted: bool
    """True when the patch applies."""
    errors: tuple[PatchProblem, ...] = ()
    """Why it was refused; empty when accepted."""
    warnings: tuple[PatchProblem, ...] = ()
    """What to know about it all the same."""
    diff: tuple[Change, ...] = ()
    """Every knob that changes, the scaled data ratios included."""
    config: GeneratorConfig
    """The resulting config; the old one when refused."""
    patch: Patch | None = None
    """The patch as it was read, numbers as numbers; None when it could not be read."""


_PLAIN_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
_MANY_DIGITS = 40


def apply_patch(config: GeneratorConfig, patch: Patch) -> GeneratorConfig:
    """Return the config with the patch applied; the argument is not changed.

    Raises:
        UserError: the patch does not apply; the message holds every problem. Nothing is applied in part.
    """
    check = check_patch(config, patch.to_json())
    if not check.accepted:
        raise UserError("patch refused: " + "; ".join(f"{problem.path}: {problem.message}" for problem in check.errors))
    return check.config


def check_patch(config: GeneratorConfig, raw: Any) -> PatchCheck:
    """Judge a patch given as plain JSON data, and show what it would do."""
    coerced, warnings = _coerce_numbers(raw)
    problems = [PatchProblem(path=path, code="schema", message=message) for path, message in schema_problems("patch", coerced)]
    problems = [_explain(config, coerced, problem) for problem in problems]
    if problems:
        return PatchCheck(accepted=False, errors=tuple(problems), warnings=tuple(warnings), config=config)
    try:
        patch = Patch.parse(coerced, "patch")
    except UserError as error:  # what JSON Schema lets through: half a surrogate pair, a line break after the path
        refusal = PatchProblem(path="", code="schema", message=str(error))
        return PatchCheck(accepted=False, errors=(refusal,), warnings=tuple(warnings), config=config)
    errors = _knob_problems(config, patch)
    if not errors:
        after, sum_errors, sum_warnings = _resulting_config(config, patch)
        errors += sum_errors
        warnings += sum_warnings
        if after is not None:
            diff = diff_configs(config, after)
            if diff:
                return PatchCheck(accepted=True, warnings=tuple(warnings), diff=diff, config=after, patch=patch)
            errors.append(
                PatchProblem(path="/edits", code="no_change", message="the patch changes nothing; every edit equals the current value")
            )
    return PatchCheck(accepted=False, errors=tuple(errors), warnings=tuple(warnings), config=config, patch=patch)


def _coerce_numbers(raw: Any) -> tuple[Any, list[PatchProblem]]:
    """Read plain decimal strings in `value` as numbers, once, and say so."""
    if not isinstance(raw, dict) or not isinstance(raw.get("edits"), list):
        return raw, []
    edits, warnings = [], []
    for index, edit in enumerate(raw["edits"]):
        value = edit.get("value") if isinstance(edit, dict) else None
        if isinstance(value, str) and len(value) <= _MANY_DIGITS and _PLAIN_DECIMAL.fullmatch(value):
            edit = {**edit, "value": float(value)}
            warnings.append(
                PatchProblem(
                    path=f"/edits/{index}/value", code="coerced", message=f"the string {value!r} was read as the number {float(value)}"
                )
            )
        edits.append(edit)
    return {**raw, "edits": edits}, warnings


def _explain(config: GeneratorConfig, raw: Any, problem: PatchProblem) -> PatchProblem:
    """Give a schema problem the code and the hint that lets the next try succeed."""
    match = re.fullmatch(r"/edits/(\d+)/(op|path|value)", problem.path)
    if match is None or not isinstance(raw["edits"], list):
        return problem
    edit = raw["edits"][int(match[1])]
    if match[2] == "op":
        return problem.model_copy(update={"code": "bad_op", "message": f"op must be 'replace', got {edit['op']!r}"})
    if match[2] == "path":
        return PatchProblem(path=problem.path, code="unknown_path", message=_unknown_path(config, edit["path"]))
    path = edit.get("path")
    where = path if isinstance(path, str) else problem.path
    value = edit["value"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return PatchProblem(path=where, code="bad_value", message=f"the value must be a number, got {value!r}")
    return _bound_problem(where, value) or problem


def _unknown_path(config: GeneratorConfig, path: object) -> str:
    sizes = ", ".join(config.sizes)
    return f"no knob at {path!r}; paths are /sizes/<size>/<knob> with size one of {sizes} and knob one of {', '.join(KNOBS)}"


def _bound_problem(path: str, value: float) -> PatchProblem | None:
    knob = path.rpartition("/")[2]
    low, high = KNOB_BOUNDS.get(knob, (0.0, 1.0))
    if isinstance(value, float) and not math.isfinite(value):
        return PatchProblem(path=path, code="bad_value", message=f"the value must be a finite number, got {value!r}")
    if low <= value <= high:
        return None
    return PatchProblem(path=path, code="out_of_bounds", message=f"{knob} must be between {low:g} and {high:g}, got {value!r}")


def _knob_problems(config: GeneratorConfig, patch: Patch) -> list[PatchProblem]:
    """Unknown and repeated paths and values out of their knob's bounds."""
    problems: list[PatchProblem] = []
    seen: set[str] = set()
    for index, edit in enumerate(patch.edits):
        if edit.path.split("/")[2] not in config.sizes:
            problems.append(PatchProblem(path=edit.path, code="unknown_path", message=_unknown_path(config, edit.path)))
        elif edit.path in seen:
            problems.append(
                PatchProblem(path=edit.path, code="repeated_path", message=f"edited twice (edits/{index}); give each knob one value")
            )
        elif (problem := _bound_problem(edit.path, edit.value)) is not None:
            problems.append(problem)
        seen.add(edit.path)
    return problems


def _resulting_config(config: GeneratorConfig, patch: Patch) -> tuple[GeneratorConfig | None, list[PatchProblem], list[PatchProblem]]:
    """Set the edited knobs and bring the data ratios back to a sum of 1; returns `(config or None, errors, warnings)`."""
    values = {bucket: knobs.model_dump() for bucket, knobs in config.buckets()}
    edited: dict[str, float] = {}
    for edit in patch.edits:
        _, _, bucket, knob = edit.path.split("/")
        values[bucket][knob] = edit.value
        if knob == "data_ratio":
            edited[bucket] = edit.value
    warnings: list[PatchProblem] = []
    if edited:
        ratios, problem, warning = _balanced_ratios({bucket: knobs.data_ratio for bucket, knobs in config.buckets()}, edited)
        if problem is not None:
            return None, [problem], []
        if warning is not None:
            warnings.append(warning)
        for bucket, ratio in ratios.items():
            values[bucket]["data_ratio"] = ratio
    return GeneratorConfig.model_validate({**config.to_json(), "sizes": values}), [], warnings


def _balanced_ratios(
    current: dict[str, float], edited: dict[str, float]
) -> tuple[dict[str, float], PatchProblem | None, PatchProblem | None]:
    """Return the data ratios that keep the edited values and sum to 1, an error, and a warning."""
    given = math.fsum(edited.values())
    others = {bucket: ratio for bucket, ratio in current.items() if bucket not in edited}
    if not others:
        if abs(given - 1.0) > SUM_TOLERANCE + 1e-12:
            message = f"every size's data_ratio is edited and they sum to {given:.6g}; they must sum to 1 (tolerance {SUM_TOLERANCE})"
            return {}, PatchProblem(path="/sizes", code="bad_sum", message=message), None
        if abs(given - 1.0) <= 1e-9:
            return edited, None, None
        scaled = {bucket: ratio / given for bucket, ratio in edited.items()}
        return scaled, None, PatchProblem(path="/sizes", code="scaled", message=f"the data ratios sum to {given:.6g} and were scaled to 1")
    if given > 1.0 + 1e-9:
        message = f"the edited data ratios alone sum to {given:.6g}; leave at most 1 for all sizes"
        return {}, PatchProblem(path="/sizes", code="sum_exceeds_one", message=message), None
    left, rest = max(0.0, 1.0 - given), math.fsum(others.values())
    if abs(left - rest) <= 1e-9:
        return {**edited, **others}, None, None
    if rest == 0.0 and left > 1e-9:
        message = f"the edited data ratios sum to {given:.6g} and all other sizes have 0, so nothing can take the remaining {left:.6g}; edit them too"
        return {}, PatchProblem(path="/sizes", code="bad_sum", message=message), None
    return {**edited, **{bucket: round(ratio * left / rest, 12) if rest else 0.0 for bucket, ratio in others.items()}}, None, None


def diff_configs(before: GeneratorConfig, after: GeneratorConfig) -> tuple[Change, ...]:
    """Return every knob whose value differs, smallest map first."""
    changes = []
    for bucket, knobs in before.buckets():
        for knob in KNOBS:
            old, new = getattr(knobs, knob), getattr(after.sizes[bucket], knob)
            if old != new:
                changes.append(Change(path=f"/sizes/{bucket}/{knob}", before=old, after=new))
    return tuple(changes)


def read_patch(path: Path) -> Patch:
    """Read a patch file.

    Raises:
        UserError: the file is missing, not strict JSON, or not a patch; one line.
    """
    raw, _ = _coerce_numbers(read_json(path))
    problems = schema_problems("patch", raw)
    if problems:
        raise UserError(f"{path}: {problems[0][0] or '/'}: {problems[0][1]}")
    return Patch.parse(raw, str(path))
