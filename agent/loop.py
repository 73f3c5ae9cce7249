"""The tool loop: model, tool calls, results, again, until a patch is accepted or a limit ends it.

Tool errors go back to the model as tool messages. A reply without a call gets one nudge. Only a proposal that the toolbox
accepted counts: words never change a config.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from envwright.agent.limits import Limits
from envwright.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from envwright.agent.models import ChatModel, ModelError
from envwright.agent.stop import StopReason
from envwright.agent.transcript import SessionEnd, SessionHeader, Transcript
from envwright.env.chat import strip_thinking
from envwright.env.patch import PatchCheck

__all__ = ["KEEP", "SessionResult", "ToolAnswer", "Tools", "run_session"]

KEEP = "KEEP"
"""First word of a reply by which an engineer keeps the config on purpose."""

NUDGE = (
    "That reply called no tool, so nothing has changed: a config changes only through an accepted propose_patch call. "
    f"Call a tool now. To leave the config as it is, reply with {KEEP} and your reason."
)
"""Sent once to a model that stops calling tools."""


class ToolAnswer(Protocol):
    """What the loop needs of a tool's result."""

    def text(self, token_budget: int | None = None) -> str:
        """Return what the model reads."""


class Tools(Protocol):
    """What the loop needs of a toolbox (`envwright.tools.registry.Toolbox`)."""

    def specs(self) -> list[dict[str, Any]]:
        """Return OpenAI function tool specs."""

    def call(self, name: str, arguments: str) -> ToolAnswer:
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
    """Time that a remote model took."""


def run_session(
    model: ChatModel,
    toolbox: Tools,
    messages: Sequence[Message],
    *,
    header: SessionHeader,
    limits: Limits | None = None,
    transcript: Transcript | None = None,
    token_budget: int | None = None,
    nudges: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> SessionResult:
    """Let a model work with the tools until it is done.

    Args:
        model: who is asked.
        toolbox: the tools; their results and the accepted proposal come from it.
        messages: the context to begin with.
        header: first line of the transcript.
        limits: bounds on the session.
        transcript: where the session is written.
        token_budget: tokens that one tool result may take; None for no bound.
        nudges: replies in a row without a call that are answered with a hint before the session ends; 0 for a
            conversation with a person, where such a reply is the answer.
        clock: seconds, for the time limit.
    """
    session = _Session(model, toolbox, limits or Limits(), transcript or Transcript(), token_budget, nudges, clock)
    return session.run(header, messages)


class _Session:
    """The state of one session."""

    def __init__(
        self,
        model: ChatModel,
        toolbox: Tools,
        limits: Limits,
        transcript: Transcript,
        token_budget: int | None,
        nudges: int,
        clock: Callable[[], float],
    ) -> None:
        self.model, self.toolbox, self.limits, self.transcript = model, toolbox, limits, transcript
        self.token_budget, self.nudges, self.clock = token_budget, nudges, clock
        self.begun = clock()
        self.messages: list[Message] = []
        self.usage = Usage()
        self.seconds: float | None = None
        self.accepted: PatchCheck | None = None
        self.silent = 0

    def run(self, header: SessionHeader, messages: Sequence[Message]) -> SessionResult:
        """Go round until something ends the session, and close the transcript."""
        try:
            self.transcript.add(header)
            for message in messages:
                self._say(message)
            specs = self.toolbox.specs()
            ended = None
            while ended is None:
                ended = self._over_limit() or self._turn(specs)
            reason, note = ended
            patch = self.accepted.patch if self.accepted is not None else None
            self.transcript.add(SessionEnd(stop_reason=reason, note=note, patch=patch, usage=self.usage, seconds=self.seconds))
        finally:
            self.transcript.close()
        return SessionResult(reason, note, self.accepted, self.usage, tuple(self.messages), self.seconds)

    def _say(self, message: Message) -> None:
        self.messages.append(message)
        self.transcript.add(message)

    def _turn(self, specs: list[dict[str, Any]]) -> tuple[StopReason, str] | None:
        """Ask once and carry out what is answered; returns why the session ends, or None to go on."""
        try:
            completion = self.model.complete(tuple(self.messages), specs)
        except ModelError as error:
            return StopReason.MODEL_ERROR, str(error)
        self.usage += completion.usage
        if completion.seconds is not None:
            self.seconds = round((self.seconds or 0.0) + completion.seconds, 3)
        self._say(completion.message)
        if completion.message.tool_calls:
            self.silent = 0
            return self._carry_out(completion.message.tool_calls)
        return self._no_call(completion.message, completion.problem)

    def _no_call(self, message: AssistantMessage, problem: str | None) -> tuple[StopReason, str] | None:
        """Deal with a reply that calls no tool."""
        text = (strip_thinking(message.content or "") or "").strip()
        if problem is None and _keeps(text):
            return StopReason.KEPT, text
        if self.silent >= self.nudges:
            return StopReason.NO_PATCH, text or problem or "the model said nothing"
        self.silent += 1
        self._say(UserMessage(content=NUDGE if problem is None else f"Your tool call could not be read: {problem}. Write it again, whole."))
        return None

    def _carry_out(self, calls: Sequence[ToolCall]) -> tuple[StopReason, str] | None:
        """Carry out the calls of one message in order; every call gets its answer, also those that come too late."""
        ended: tuple[StopReason, str] | None = None
        for call in calls:
            if ended is None:
                ended = self._over_call_limit()
            if ended is not None:
                self._say(ToolMessage(tool_call_id=call.id, content=f"not carried out: {ended[0]}"))
                continue
            before = self.toolbox.accepted
            answer = self.toolbox.call(call.function.name, call.function.arguments)
            self.usage += Usage(tool_calls=1)
            self._say(ToolMessage(tool_call_id=call.id, content=answer.text(self.token_budget)))
            accepted = self.toolbox.accepted
            if accepted is not None and accepted is not before:
                self.accepted = accepted
                ended = StopReason.PATCH_ACCEPTED, accepted.patch.summary if accepted.patch is not None else "accepted"
        return ended

    def _over_limit(self) -> tuple[StopReason, str] | None:
        """Why no further request may be made."""
        if self.usage.requests >= self.limits.request_limit:
            return StopReason.REQUEST_LIMIT, f"no accepted patch within {self.limits.request_limit} requests"
        if self.usage.total_tokens >= self.limits.total_tokens_limit:
            return StopReason.TOTAL_TOKENS_LIMIT, f"{self.usage.total_tokens} tokens used of {self.limits.total_tokens_limit}"
        return self._over_time()

    def _over_call_limit(self) -> tuple[StopReason, str] | None:
        """Why no further tool call may be carried out."""
        if self.usage.tool_calls >= self.limits.tool_calls_limit:
            return StopReason.TOOL_CALLS_LIMIT, f"no accepted patch within {self.limits.tool_calls_limit} tool calls"
        return self._over_time()

    def _over_time(self) -> tuple[StopReason, str] | None:
        if self.clock() - self.begun >= self.limits.seconds:
            return StopReason.TIME_LIMIT, f"no accepted patch within {self.limits.seconds:g} seconds"
        return None


def _keeps(text: str) -> bool:
    """True when the reply's first word is the word that keeps the config."""
    word = text.split(maxsplit=1)[0] if text else ""
    return word.strip("*_`\"'.,:;!-") == KEEP
