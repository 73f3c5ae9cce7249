"""Direct mode: the context in one prompt, a patch or the whole config in one constrained answer (the paper's way).

No tools are offered. The answer is put to `propose_patch`, so checks, guard rails, approval, transcript and outcome are those
of the tool loop. An answer that cannot be read, or is refused, may be mended once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from envwright.agent.events import Listener
from envwright.agent.limits import Limits
from envwright.agent.loop import keeps
from envwright.agent.messages import AssistantMessage, FunctionCall, Message, ToolCall
from envwright.agent.models import ChatModel, Completion, ModelError, StructuredModel
from envwright.agent.session import Ending, Session, SessionResult, Tools
from envwright.agent.stop import StopReason
from envwright.agent.transcript import SessionHeader, Transcript
from envwright.agent.work_settings import Answer, answer_of
from envwright.env.base import FrozenModel
from envwright.env.chat import strip_thinking
from envwright.env.config import KNOBS, GeneratorConfig, Knobs
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, json_values
from envwright.env.patch import Edit
from envwright.tools.arguments import decode_strings, inline_references, read_object, validate
from envwright.tools.errors import ToolError
from envwright.tools.registry import of_these_sizes

__all__ = ["answer_schema", "run_direct"]


class PatchAnswer(FrozenModel):
    """The next config as a patch; no edits keep the config."""

    summary: str = Field(min_length=1)
    """What the patch is for, in a sentence; or why the config is kept."""
    edits: tuple[Edit, ...]
    """The edits; at most one per knob; an empty list keeps the config."""


class ConfigAnswer(FrozenModel):
    """The next config, whole; the current values keep it."""

    summary: str = Field(min_length=1)
    """What changes and why, in a sentence."""
    evidence: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Ids of the results that support it."""
    sizes: dict[str, Knobs] = Field(min_length=1)
    """Size -> its knobs."""


def answer_schema(answer: Answer, config: GeneratorConfig) -> dict[str, Any]:
    """Return the JSON Schema of the one answer, references inlined; patch and config name the sizes that there are."""
    if answer == "patch":
        schema: dict[str, Any] = of_these_sizes(inline_references(PatchAnswer.model_json_schema()), config)
        return schema
    schema = inline_references(ConfigAnswer.model_json_schema())
    knobs = schema["properties"]["sizes"]["additionalProperties"]
    schema["properties"]["sizes"] = {
        "type": "object",
        "description": "Size -> its knobs.",
        "properties": dict.fromkeys(config.sizes, knobs),
        "required": list(config.sizes),
        "additionalProperties": False,
    }
    return schema


def run_direct(
    model: ChatModel,
    toolbox: Tools,
    messages: Sequence[Message],
    config: GeneratorConfig,
    *,
    header: SessionHeader,
    limits: Limits | None = None,
    transcript: Transcript | None = None,
    repairs: int = 1,
    summary: bool = False,
    on_event: Listener | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SessionResult:
    """Ask a model once for the next config, as the header's `engineering` says.

    Args:
        model: who is asked; a `StructuredModel` is held to the schema, any other is asked in words.
        toolbox: judges the answer as a proposal.
        messages: the context, made for this kind of answer.
        config: the current config.
        header: first line of the transcript.
        limits: bounds on the session.
        transcript: where the session is written.
        repairs: answers that may be mended.
        summary: ask the model for its own summary of the context first (context module S).
        on_event: told everything that happens, as it happens.
        clock: seconds, for the time limit.
    """
    session = Session(model, toolbox, limits=limits, transcript=transcript, on_event=on_event, clock=clock)
    turn = _Direct(session, config, answer_of(header.engineering) or "patch", repairs).turn
    return session.run(header, messages, turn, summary=summary)


class _Direct:
    """Asks for the answer, and judges it."""

    def __init__(self, session: Session, config: GeneratorConfig, answer: Answer, repairs: int) -> None:
        self.session, self.config, self.answer, self.repairs = session, config, answer, repairs
        self.schema = answer_schema(answer, config)

    def turn(self) -> Ending | None:
        """Ask once; returns why the session ends, or None when the answer may be mended."""
        try:
            completion = self._ask()
        except ModelError as error:
            return StopReason.MODEL_ERROR, str(error)
        self.session.say(AssistantMessage(content=completion.message.content or ""))  # no tool was offered, so none is called
        text = (strip_thinking(completion.message.content or "") or "").strip()
        if keeps(text):
            return StopReason.KEPT, text
        try:
            proposal = self._proposal(text)
        except (UserError, ToolError) as error:
            return self._mend(f"the answer cannot be read: {_words(error)}")
        if proposal.get("edits") == []:
            return StopReason.KEPT, str(proposal.get("summary") or "an empty list of edits")
        return self._judge(proposal)

    def _ask(self) -> Completion:
        model = self.session.model
        if isinstance(model, StructuredModel):
            return self.session.counted(model.complete_json(tuple(self.session.messages), self.schema))
        return self.session.ask([])

    def _proposal(self, text: str) -> dict[str, Any]:
        """Read the first JSON object of an answer as the arguments of propose_patch.

        Raises:
            UserError: no strict JSON object, or another set of sizes.
            ToolError: an object that is no config.
        """
        raw = next(iter(json_values(text, "{")), None)
        if raw is None:
            raise UserError("it holds no whole JSON object")
        decoded, _ = decode_strings(read_object(raw), self.schema, scalars=self.answer == "config")
        return self._difference(decoded) if self.answer == "config" else dict(decoded)

    def _difference(self, decoded: Mapping[str, Any]) -> dict[str, Any]:
        """Turn a whole config into the patch that leads to it."""
        config = validate(ConfigAnswer, decoded)
        if set(config.sizes) != set(self.config.sizes):
            raise UserError(f"the sizes must be {', '.join(self.config.sizes)}, got {', '.join(config.sizes)}")
        before = self.config.sizes
        edits: list[dict[str, Any]] = []
        for knob in KNOBS:
            values = {bucket: getattr(knobs, knob) for bucket, knobs in config.sizes.items()}
            changed = [bucket for bucket, value in values.items() if value != getattr(before[bucket], knob)]
            edited = list(before) if changed and knob == "data_ratio" else changed  # all shares, so that their sum is checked as given
            edits += [_edit(bucket, knob, values[bucket], config) for bucket in edited]
        return {"summary": config.summary, "edits": edits}

    def _judge(self, proposal: dict[str, Any]) -> Ending | None:
        """Put the answer to propose_patch; its verdict is told to the model only when something is to be mended."""
        judged = self.session.judge(ToolCall(id="direct", function=FunctionCall(name="propose_patch", arguments=dump_json(proposal))))
        if (ended := self.session.accepted_ending()) is not None:
            return ended
        if judged.error is not None:
            return self._mend(judged.error.message)
        problems = (judged.content or {}).get("errors", [])
        return self._mend("the answer is refused: " + "; ".join(f"{problem['path']}: {problem['message']}" for problem in problems))

    def _mend(self, problem: str) -> Ending | None:
        if self.repairs <= 0:
            return StopReason.NO_PATCH, problem
        self.repairs -= 1
        self.session.retry(problem, f"{problem[0].upper()}{problem[1:]}. Answer again with one whole JSON object.")
        return None


def _edit(bucket: str, knob: str, value: float, config: ConfigAnswer) -> dict[str, Any]:
    path = f"/sizes/{bucket}/{knob}"
    return {"op": "replace", "path": path, "value": value, "reason": config.summary, "evidence": list(config.evidence)}


def _words(error: UserError | ToolError) -> str:
    return error.message if isinstance(error, ToolError) else str(error)
