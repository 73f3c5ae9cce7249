"""Patch by patch: what changed after a stage, why, on what evidence, and what the next stage's validation said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envwright.agent.messages import ToolMessage
from envwright.agent.transcript import Recording, read_transcript
from envwright.env.errors import UserError
from envwright.env.jsonio import parse_json
from envwright.training.report.data import RunData, pick
from envwright.training.report.parts import Cell, Table, change_cell, rate_cell, table_of
from envwright.training.report.text import number, percent, size_name

__all__ = ["Decision", "Evidence", "decisions"]

_LONGEST = 6000
"""Letters of a tool result that the page shows."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A tool result that a patch cites."""

    id: str
    call: str
    """Arguments of the call, as JSON text."""
    text: str
    """The result, as JSON text; empty when the transcript has no result of that id."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One knob that changed."""

    path: str
    before: str
    after: str
    reason: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided after a stage."""

    stage: int
    engineer: str
    stop_reason: str
    note: str
    edits: tuple[Edit, ...]
    evidence: tuple[Evidence, ...]
    refused: int
    """Proposals that were refused before the session ended."""
    session: str
    """What the session used, in words."""
    next: Table | None
    """Validation by size before and after; None while there is no next stage."""


def decisions(data: RunData) -> list[Decision]:
    """Return the decisions of a run, stage by stage; the last stage has none."""
    return [_decision(data, stage) for stage in range(min(data.finished, data.settings.num_stages - 1))]


def _decision(data: RunData, stage: int) -> Decision:
    rows = pick(data.tables["patches"], stage=stage)
    folder = data.store.stage(stage)
    recording: Recording | None = None
    if folder.transcript.is_file():
        try:
            recording = read_transcript(folder.transcript)
        except UserError:
            recording = None
    edits = tuple(
        Edit(
            row["path"],
            number(row["before"]),
            number(row["after"]),
            row["reason"] or "",
            tuple(cited for cited in (row["evidence"] or "").split(", ") if cited),
        )
        for row in rows
        if row["path"] is not None
    )
    results = {} if recording is None else _results(recording)
    cited = list(dict.fromkeys(name for edit in edits for name in edit.evidence))
    evidence = tuple(Evidence(name, *results.get(name, ("", ""))) for name in cited)
    usage = folder.outcome().get("usage", {})
    return Decision(
        stage,
        str(rows[0]["engineer"]),
        str(rows[0]["stop_reason"]),
        str(rows[0]["note"] or "").removeprefix(f"{rows[0]['engineer']}: "),
        edits,
        evidence,
        0 if recording is None else _refused(recording),
        _session(usage),
        _what_came(data, stage, {path.split("/")[2] for path in (edit.path for edit in edits)}),
    )


def _results(recording: Recording) -> dict[str, tuple[str, str]]:
    """Return id of a tool result -> arguments of its call and the result, as texts."""
    calls = {call.id: call.function.arguments for message in recording.assistant_messages for call in message.tool_calls}
    results: dict[str, tuple[str, str]] = {}
    for message in recording.messages:
        if isinstance(message, ToolMessage) and (name := _answer(message).get("id")) is not None:
            text = message.content
            shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text)} letters)"
            results[str(name)] = (calls.get(message.tool_call_id, ""), shown)
    return results


def _answer(message: ToolMessage) -> Mapping[str, Any]:
    try:
        value = parse_json(message.content)
    except UserError:
        return {}
    return value if isinstance(value, dict) else {}


def _refused(recording: Recording) -> int:
    return sum(isinstance(message, ToolMessage) and _answer(message).get("accepted") is False for message in recording.messages)


def _session(usage: Mapping[str, Any]) -> str:
    requests, calls = usage.get("requests", 0), usage.get("tool_calls", 0)
    tokens = usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0)
    if not requests and not calls:
        return "no session was needed"
    return f"{requests} requests, {calls} tool calls" + (f", {tokens:,} tokens" if tokens else "")


def _what_came(data: RunData, stage: int, touched: set[str]) -> Table | None:
    """Return the validation rates of the stage and of the next one; touched sizes are marked."""
    rows = []
    for dimension, value in (("all", "all"), *(("size", size) for size in data.sizes)):
        before = data.rates(stage=stage, set="validation", decoding="sampled", dimension=dimension, value=value)
        after = data.rates(stage=stage + 1, set="validation", decoding="sampled", dimension=dimension, value=value)
        if not before or not after:
            continue
        one, two = before[0], after[0]
        name = "all boards" if dimension == "all" else size_name(value)
        rows.append(
            (
                Cell(name, "edited" if value in touched else ""),
                rate_cell(one["valid"], one["valid_low"], one["valid_high"]),
                rate_cell(two["valid"], two["valid_low"], two["valid_high"]),
                change_cell(two["valid"] - one["valid"], None, None),
                Cell(percent(one["optimal"]), "", one["optimal"]),
                Cell(percent(two["optimal"]), "", two["optimal"]),
            )
        )
    if not rows:
        return None
    caption = f"What happened next: sampled validation after stage {stage} and after stage {stage + 1}, with 95 % Wilson intervals"
    return table_of(caption, ("boards", f"valid, stage {stage}", f"valid, stage {stage + 1}", "points", "optimal", "optimal, next"), rows)
