"""One session's state, shared by the tool loop and direct mode: the conversation, its record, what it cost, and its end.

A session asks a model, keeps what was said in order in the transcript, tells a listener, and ends for exactly one reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from envwright.agent.approval import REJECTED
from envwright.agent.events import Event, Listener, MessageAdded, Retried, SessionEnded, TextDelta, ToolFinished, ToolStarted
from envwright.agent.limits import Limits
from envwright.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from envwright.agent.models import ChatModel, Completion, ModelError, StreamingModel
from envwright.agent.stop import StopReason
from envwright.agent.transcript import RequestCost, SessionEnd, SessionHeader, Transcript
from envwright.env.jsonio import dump_json, parse_json
from envwright.env.patch import PatchCheck
from envwright.tools.results import ToolResult

__all__ = ["SUMMARY_REQUEST", "Ending", "Session", "SessionResult", "Tools"]

SUMMARY_REQUEST = (
    "Before you decide, write your own summary of the evidence above in at most 150 words: where the policy fails, where it succeeds, "
    "and what has changed. Call no tool and propose nothing yet."
)
"""Asks for the model's own summary (context module S)."""

Ending = tuple[StopReason, str]
"""Why a session ends, and the reason in words."""


class Tools(Protocol):
    """What a session needs of a toolbox (`envwright.tools.registry.Toolbox`)."""

    def specs(self) -> list[dict[str, Any]]:
        """Return OpenAI function tool specs."""

    def call(self, name: str, arguments: str) -> ToolResult:
        """Carry out a call; errors that the model can act on are answers too."""

    @property
    def accepted(self) -> PatchCheck | None:
        """The last accepted proposal."""


@dataclass(frozen=True, slots=True)
class SessionResult:
    """How a session ended."""

    stop_reason: StopReason
    """Why it ended."""
    note: str
    """The reason in words: the model's last text, the limit, or the error."""
    accepted: PatchCheck | None
    """The accepted proposal; None unless the reason is `patch_accepted`."""
    usage: Usage
    """What it used."""
    messages: tuple[Message, ...]
    """The whole conversation; begin the next session with it to go on talking."""
    seconds: float | None = None
    """Time that the model took; None for reproducible models."""


class Session:
    """The state of one session.

    Args:
        model: who is asked.
        toolbox: the tools.
        limits: bounds on the session.
        transcript: where the session is written; default: memory.
        token_budget: tokens that one tool result may take; None for no bound.
        on_event: told everything that happens.
        clock: seconds, for the time limit.
    """

    def __init__(
        self,
        model: ChatModel,
        toolbox: Tools,
        *,
        limits: Limits | None = None,
        transcript: Transcript | None = None,
        token_budget: int | None = None,
        on_event: Listener | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model, self.toolbox, self.limits = model, toolbox, limits or Limits()
        self.transcript, self.token_budget = transcript or Transcript(), token_budget
        self.on_event, self.clock, self.begun = on_event, clock, clock()
        self.messages: list[Message] = []
        self.usage = Usage()
        self.costs: list[RequestCost] = []
        self.accepted: PatchCheck | None = None
        self.rejections: list[str] = []

    def run(self, header: SessionHeader, messages: Sequence[Message], turn: Callable[[], Ending | None], *, summary: bool) -> SessionResult:
        """Say the first messages, take turns until one ends the session, and close the transcript.

        Args:
            header: first line of the transcript.
            messages: the context to begin with.
            turn: one request and what follows from it; returns why the session ends, or None to go on.
            summary: ask the model for its own summary first.
        """
        try:
            self.transcript.add(header)
            try:
                ended = self._until_ended(messages, turn, summary)
            except KeyboardInterrupt:
                ended = StopReason.CANCELLED, "interrupted; the config stays as it is"
                self._answer_open_calls()
            return self._end(*ended)
        finally:
            self.transcript.close()

    def _until_ended(self, messages: Sequence[Message], turn: Callable[[], Ending | None], summary: bool) -> Ending:
        for message in messages:
            self.say(message)
        ended = self._summarise() if summary else None
        while ended is None:
            ended = self._over_limit() or turn()
        return ended

    def _end(self, reason: StopReason, note: str) -> SessionResult:
        accepted = self.accepted if reason is StopReason.PATCH_ACCEPTED else None
        told = tuple(self.costs) if any(cost != RequestCost() for cost in self.costs) else ()
        seconds = [cost.seconds for cost in self.costs if cost.seconds is not None]
        total = round(sum(seconds), 3) if seconds else None
        patch = None if accepted is None else accepted.patch
        end = SessionEnd(
            stop_reason=reason,
            note=note,
            patch=patch,
            usage=self.usage,
            rejections=tuple(self.rejections),
            requests=told,
            seconds=total,
        )
        self.transcript.add(end)
        self.emit(SessionEnded(reason, note))
        return SessionResult(reason, note, accepted, self.usage, tuple(self.messages), total)

    def emit(self, event: Event) -> None:
        """Tell the listener, when there is one."""
        if self.on_event is not None:
            self.on_event(event)

    def say(self, message: Message) -> None:
        """Add a message to the conversation and the transcript."""
        self.messages.append(message)
        self.transcript.add(message)
        self.emit(MessageAdded(message))

    def retry(self, reason: str, words: str) -> None:
        """Tell the model what was wrong with its answer, so that it can try again."""
        self.emit(Retried(reason))
        self.say(UserMessage(content=words))

    def ask(self, specs: Sequence[dict[str, Any]]) -> Completion:
        """Ask the model once and count what it cost; the answer is not yet part of the conversation.

        Raises:
            ModelError: there is no answer to be had.
        """
        return self.counted(self._completion(specs))

    def counted(self, completion: Completion) -> Completion:
        """Add a request's cost to the session's."""
        tokens = completion.usage
        self.usage += tokens
        self.costs.append(
            RequestCost(
                prompt_tokens=tokens.prompt_tokens,
                completion_tokens=tokens.completion_tokens,
                seconds=None if completion.seconds is None else round(completion.seconds, 3),
            )
        )
        return replace(completion, message=_writable(completion.message))

    def _completion(self, specs: Sequence[dict[str, Any]]) -> Completion:
        if self.on_event is not None and isinstance(self.model, StreamingModel):
            return self.model.stream(tuple(self.messages), specs, lambda text: self.emit(TextDelta(text)))
        return self.model.complete(tuple(self.messages), specs)

    def _summarise(self) -> Ending | None:
        """Ask for the model's own summary; what it calls instead is left out, since no tool was offered."""
        self.say(UserMessage(content=SUMMARY_REQUEST))
        try:
            completion = self.ask([])
        except ModelError as error:
            return StopReason.MODEL_ERROR, str(error)
        self.say(AssistantMessage(content=completion.message.content or ""))
        self.say(UserMessage(content="Your summary is noted. Now redesign the config for the next stage."))
        return None

    def carry_out(self, call: ToolCall) -> ToolResult:
        """Carry out one call of the model and answer it."""
        answer = self.judge(call)
        self.usage += Usage(tool_calls=1)
        self.say(ToolMessage(tool_call_id=call.id, content=answer.text(self.token_budget)))
        return answer

    def judge(self, call: ToolCall) -> ToolResult:
        """Carry out a call without a word to the model; remember a patch that it got accepted, and a rejection."""
        before, begun = self.toolbox.accepted, self.clock()
        self.emit(ToolStarted(call))
        answer = self.toolbox.call(call.function.name, call.function.arguments)
        self.emit(ToolFinished(call, answer, self.clock() - begun))
        accepted = self.toolbox.accepted
        if accepted is not None and accepted is not before:
            self.accepted = accepted
        problems = (answer.content or {}).get("errors", []) if call.function.name == "propose_patch" else []
        self.rejections += [problem["message"] for problem in problems if problem["code"] == REJECTED]
        return answer

    def accepted_ending(self) -> Ending | None:
        """Why the session ends now that a patch was accepted; None when none was."""
        if self.accepted is None:
            return None
        return StopReason.PATCH_ACCEPTED, self.accepted.patch.summary if self.accepted.patch is not None else "accepted"

    def _answer_open_calls(self) -> None:
        """Answer the calls that an interruption left open: a conversation with an open call cannot be gone on with."""
        answered = {message.tool_call_id for message in self.messages if isinstance(message, ToolMessage)}
        last = next((message for message in reversed(self.messages) if isinstance(message, AssistantMessage)), None)
        for call in last.tool_calls if last is not None else ():
            if call.id not in answered:
                self.say(ToolMessage(tool_call_id=call.id, content=f"not carried out: {StopReason.CANCELLED}"))

    def _over_limit(self) -> Ending | None:
        """Why no further request may be made."""
        if self.usage.requests >= self.limits.request_limit:
            return StopReason.REQUEST_LIMIT, f"no accepted patch within {self.limits.request_limit} requests"
        if self.usage.total_tokens >= self.limits.total_tokens_limit:
            return StopReason.TOTAL_TOKENS_LIMIT, f"{self.usage.total_tokens} tokens used of {self.limits.total_tokens_limit}"
        return self.over_time()

    def over_call_limit(self) -> Ending | None:
        """Why no further tool call may be carried out."""
        if self.usage.tool_calls >= self.limits.tool_calls_limit:
            return StopReason.TOOL_CALLS_LIMIT, f"no accepted patch within {self.limits.tool_calls_limit} tool calls"
        return self.over_time()

    def over_time(self) -> Ending | None:
        """Why the session ends when its time is over."""
        if self.clock() - self.begun >= self.limits.seconds:
            return StopReason.TIME_LIMIT, f"no accepted patch within {self.limits.seconds:g} seconds"
        return None


def _writable(message: AssistantMessage) -> AssistantMessage:
    """Return the message with half surrogate pairs replaced: they are no text, and no file or request can hold them."""
    raw = dump_json(message.to_json())
    text = raw.encode("utf-8", errors="replace").decode("utf-8")
    return message if text == raw else AssistantMessage.model_validate(parse_json(text))
