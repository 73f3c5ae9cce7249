"""The competence-frontier rule as a chat model: it plays the protocol by reading nothing but the conversation.

It counts failures per size and kind of board, tries its candidate, halves its steps once when the policy at hand is
predicted to get fewer mixed groups, proposes, mends what is refused, and keeps the config when nothing is to change. It
holds no state: the same conversation always gets the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envwright.agent.frontier import FRONTIER_LOW, MASTERED_RATE, Counts, PlannedEdit, SizeEvidence, halved, plan_edits
from envwright.agent.loop import KEEP
from envwright.agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from envwright.agent.models import Completion, ModelError
from envwright.agent.scripted import call_message
from envwright.agent.session import SUMMARY_REQUEST
from envwright.env.config import KNOB_BOUNDS, GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.jsonio import first_json_value, parse_json
from envwright.env.rules import Outcome

__all__ = ["SUMMARY", "RuleModel", "told_edit", "told_summary"]

BREAKDOWN, SIMULATE, PROPOSE = "failure_breakdown", "simulate_config", "propose_patch"
GROUPING = ["size", "wait_required"]
SPLITS = ("validation", "train")
"""Where failures are counted: on validation boards; a log without any is read on its training boards."""
MAX_SIMULATIONS = 2
"""The candidate, and once more with half the steps."""
MAX_PROPOSALS = 3
"""A proposal and two corrections: a rule that is refused more often has misread something."""


SUMMARY = "The rule keeps no summary: it goes by the counts alone."
"""What the rule answers when it is asked for its own summary (context module S)."""
CLEARLY = 1.645
"""Standard errors (95 %, one-sided) by which mixed groups must fall to count: raising the wait ratio of a policy that cannot
coordinate yet costs a few mixed groups at first, and is still what teaches it."""


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One tool call and its answer."""

    tool: str
    arguments: Mapping[str, Any]
    answer: Mapping[str, Any]

    @property
    def failed(self) -> bool:
        """True when the tool answered with an error."""
        return "error" in self.answer

    @property
    def id(self) -> str | None:
        """What edits cite."""
        value = self.answer.get("id")
        return value if isinstance(value, str) else None


class RuleModel:
    """The deterministic engineer: offline default, baseline and test double."""

    @property
    def name(self) -> str:
        """Name for transcripts."""
        return "rule"

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:  # noqa: ARG002  (it knows its tools)
        """Return the next move.

        Raises:
            ModelError: the conversation does not show the current config.
        """
        if messages and isinstance(messages[-1], UserMessage) and messages[-1].content == SUMMARY_REQUEST:
            return Completion(AssistantMessage(content=SUMMARY))
        exchanges = _exchanges(messages)
        step = _next_step(messages, exchanges)
        if isinstance(step, str):
            return Completion(AssistantMessage(content=f"{KEEP}: {step}"))
        return Completion(call_message(step, first_id=len(exchanges) + 1))


def _next_step(messages: Sequence[Message], exchanges: Sequence[_Exchange]) -> tuple[str, dict[str, Any]] | str:
    """Return the next call, or why the config is kept."""
    breakdowns = [exchange for exchange in exchanges if exchange.tool == BREAKDOWN]
    counted = next((exchange for exchange in breakdowns if not exchange.failed), None)
    if counted is None:
        if len(breakdowns) == len(SPLITS):
            return f"failures cannot be counted: {_error(breakdowns[-1])}"
        return BREAKDOWN, {"by": GROUPING, **({"split": SPLITS[1]} if breakdowns else {})}
    config = _current_config(messages)
    evidence = _sizes(counted.answer)
    planned = plan_edits(config, evidence)
    if not planned:
        return _nothing_to_change(config, evidence)
    simulations = [exchange for exchange in exchanges if exchange.tool == SIMULATE]
    proposals = [exchange for exchange in exchanges if exchange.tool == PROPOSE]
    edits = _after_simulations(planned, simulations)
    if any(proposal.answer.get("accepted") for proposal in proposals):
        return "the proposal was accepted already"
    if not proposals and edits and _wants_simulation(edits, simulations):
        return SIMULATE, {"edits": [{"op": "replace", "path": edit.path, "value": edit.value} for edit in edits]}
    edits = [edit for edit in edits if not edit.tentative or any(_rises(edit, trial) for trial in simulations[-1:])]
    for proposal in proposals:
        edits = _corrected(edits, proposal)
    if not edits:
        considered = "; ".join(edit.reason for edit in planned)
        refusal = f"; the last refusal: {_refusal(proposals[-1])}" if proposals else ""
        return f"neither the trial nor the checks left an edit standing; considered were {considered}{refusal}"
    if len(proposals) >= MAX_PROPOSALS:
        return f"{len(proposals)} proposals were refused, the last because {_refusal(proposals[-1])}"
    cited = [exchange.id for exchange in (counted, *simulations[-1:]) if exchange.id is not None]
    return PROPOSE, {"summary": told_summary(edits), "edits": [_edit(edit, cited, simulations) for edit in edits]}


def _exchanges(messages: Sequence[Message]) -> list[_Exchange]:
    """Pair calls with their answers, in order."""
    answers = {message.tool_call_id: message.content for message in messages if isinstance(message, ToolMessage)}
    found = []
    for message in messages:
        for call in message.tool_calls if isinstance(message, AssistantMessage) else ():
            if call.id in answers:
                found.append(_Exchange(call.function.name, _object(call.function.arguments), _object(answers[call.id])))
    return found


def _object(text: str) -> dict[str, Any]:
    """Read a JSON object; a text that is none becomes an error, as a tool would report it."""
    try:
        value = parse_json(text)
    except UserError as error:
        return {"error": {"code": "bad_json", "message": str(error)}}
    return value if isinstance(value, dict) else {"error": {"code": "bad_json", "message": "not a JSON object"}}


def _current_config(messages: Sequence[Message]) -> GeneratorConfig:
    """Find the config in the words of the user.

    Raises:
        ModelError: it is not there.
    """
    for message in messages:
        if isinstance(message, UserMessage):
            start = message.content.find('{"schema_version"')
            raw = first_json_value(message.content[start:]) if start >= 0 else None
            if isinstance(raw, dict) and "sizes" in raw:
                return GeneratorConfig.parse(raw, "the config in the conversation")
    raise ModelError("rule: the conversation shows no current config; begin it with envwright.agent.context.build_context")


def _sizes(answer: Mapping[str, Any]) -> dict[str, SizeEvidence]:
    """Read the rows of the breakdown."""
    kinds: dict[str, dict[bool, Counts]] = {}
    for row in answer.get("rows", []):
        group = row["group"]
        outcomes = {outcome: count for outcome, count in row["outcomes"].items() if outcome in tuple(Outcome)}
        kinds.setdefault(str(group["size"]), {})[bool(group["wait_required"])] = Counts(outcomes)
    return {bucket: SizeEvidence(wait=found.get(True), free=found.get(False)) for bucket, found in kinds.items()}


def _nothing_to_change(config: GeneratorConfig, evidence: Mapping[str, SizeEvidence]) -> str:
    """Say why no edit is planned."""
    parts = []
    for bucket in config.sizes:
        seen = evidence.get(bucket)
        total = Counts({}) if seen is None else seen.both
        judged = seen is not None and all(kind is not None and kind.measured for kind in (seen.wait, seen.free))
        place = f"within {FRONTIER_LOW:g} to {MASTERED_RATE:g} or not clearly outside" if judged else "too few of each kind to judge"
        parts.append(f"{bucket}x{bucket} {total.valid} of {total.n} valid ({place})")
    return "no size is clearly off the frontier: " + ", ".join(parts)


def _wants_simulation(edits: Sequence[PlannedEdit], simulations: Sequence[_Exchange]) -> bool:
    """True for the first trial, and for one more when the steps were changed by what the first one said."""
    if not simulations:
        return True
    if len(simulations) >= MAX_SIMULATIONS or simulations[-1].failed:
        return False
    tried = {edit["path"]: edit["value"] for edit in simulations[-1].arguments.get("edits", [])}
    return any(tried.get(edit.path) != edit.value for edit in edits)


def _after_simulations(edits: list[PlannedEdit], simulations: Sequence[_Exchange]) -> list[PlannedEdit]:
    """Fold the trials in: drop what the generator cannot fill; halve on fewer mixed groups, then drop what still lowers them."""
    for number, trial in enumerate(simulations[:MAX_SIMULATIONS], start=1):
        if trial.failed:
            continue
        rows = _rows(trial)
        edits = [edit for edit in edits if edit.knob == "data_ratio" or rows.get(edit.bucket, {}).get("feasible") is not False]
        if not _loses_signal(edits, trial):
            continue
        if number < MAX_SIMULATIONS:
            edits = [halved(edit) for edit in edits]
        else:
            edits = [edit for edit in edits if edit.knob == "data_ratio" or not _gain(edit.bucket, rows, default=0.0) < 0]
    return edits


def _rows(trial: _Exchange) -> dict[str, Mapping[str, Any]]:
    return {str(row["bucket"]): row for row in trial.answer.get("buckets", [])}


def _gain(bucket: str, rows: Mapping[str, Mapping[str, Any]], default: float) -> float:
    """Return how much the share of mixed groups rises in a bucket; the default without a policy."""
    row = rows.get(bucket, {})
    after, before = ((row.get(side) or {}).get("mixed_groups") for side in ("forecast", "current_forecast"))
    return default if after is None or before is None else float(after) - float(before)


def _loses_signal(edits: Sequence[PlannedEdit], trial: _Exchange) -> bool:
    """True when the edited sizes get clearly fewer mixed groups, at the largest standard error that the sample can have."""
    rows = _rows(trial)
    gains = [_gain(bucket, rows, default=math.nan) for bucket in {edit.bucket: None for edit in edits if edit.knob != "data_ratio"}]
    known = [gain for gain in gains if not math.isnan(gain)]
    if not known:
        return False
    error = math.sqrt(2 * 0.25 / (len(known) * int(trial.answer["n"])))
    return sum(known) / len(known) < -CLEARLY * error


def _rises(edit: PlannedEdit, trial: _Exchange) -> bool:
    """True when a policy was at hand and gets more mixed groups with the edit."""
    return not trial.failed and _gain(edit.bucket, _rows(trial), default=0.0) > 0


def _corrected(edits: list[PlannedEdit], proposal: _Exchange) -> list[PlannedEdit]:
    """Mend a refused proposal by its errors: clip what is out of bounds, drop what else is named."""
    if proposal.failed:
        return []
    before = edits
    sent = [edit.get("path") for edit in proposal.arguments.get("edits", [])]
    for error in proposal.answer.get("errors", []):
        path = _knob_path(str(error["path"]), sent)
        if error["code"] == "out_of_bounds":
            edits = [edit if edit.path != path else _clipped(edit) for edit in edits if edit.path != path or _clipped(edit) != edit]
        elif path == "/sizes":
            edits = [edit for edit in edits if edit.knob != "data_ratio"]
        elif path == "/edits":
            edits = []
        else:
            edits = [edit for edit in edits if edit.path != path and not edit.path.startswith(f"{path}/")]
    return edits if edits != before else []


def _knob_path(path: str, sent: Sequence[Any]) -> str:
    """Turn a pointer into the patch (/edits/2/value) into the knob that the edit named."""
    parts = path.split("/")
    if len(parts) > 2 and parts[1] == "edits" and parts[2].isdigit() and int(parts[2]) < len(sent):
        return str(sent[int(parts[2])])
    return path


def _clipped(edit: PlannedEdit) -> PlannedEdit:
    low, high = KNOB_BOUNDS[edit.knob]
    return replace(edit, value=min(high, max(low, edit.value)))


def told_summary(edits: Sequence[PlannedEdit]) -> str:
    """Say in a sentence what the edits do."""
    parts = []
    for knob, word in (("wait_ratio", "wait-required boards"), ("hole_ratio", "holes"), ("data_ratio", "share of the data")):
        for more, sign in (("more", 1), ("fewer" if knob != "data_ratio" else "smaller", -1)):
            buckets = [edit.bucket for edit in edits if edit.knob == knob and (edit.value - edit.before) * sign > 0]
            if buckets:
                parts.append(f"{more} {word} at {', '.join(f'{bucket}x{bucket}' for bucket in buckets)}")
    return "Move practice to the competence frontier: " + "; ".join(parts)


def _edit(edit: PlannedEdit, cited: Sequence[str], simulations: Sequence[_Exchange]) -> dict[str, Any]:
    """Return the edit as propose_patch takes it, with what the last trial said."""
    trial = simulations[-1] if simulations and not simulations[-1].failed else None
    row = _rows(trial).get(edit.bucket, {}) if trial is not None else {}
    after, before = ((row.get(side) or {}).get("mixed_groups") for side in ("forecast", "current_forecast"))
    trial_words = ""
    if trial is not None and edit.knob != "data_ratio" and after is not None and before is not None:
        trial_words = f"; mixed groups {before:.2f} to {after:.2f} on {trial.answer['n']} simulated boards"
    return told_edit(edit, cited, trial_words)


def told_edit(edit: PlannedEdit, cited: Sequence[str], more: str = "") -> dict[str, Any]:
    """Return an edit as propose_patch takes it."""
    reason = f"{edit.reason} ({edit.knob} {edit.before:g} to {edit.value:g}){more}"
    return {"op": "replace", "path": edit.path, "value": edit.value, "reason": reason, "evidence": list(cited)}


def _error(exchange: _Exchange) -> str:
    error = exchange.answer.get("error")
    return str(error.get("message")) if isinstance(error, dict) else str(error)


def _refusal(proposal: _Exchange) -> str:
    if proposal.failed:
        return _error(proposal)
    return "; ".join(str(error.get("message")) for error in proposal.answer.get("errors", []))
