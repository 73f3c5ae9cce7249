"""The tool loop: model, tool calls, results, again, until a patch is accepted or a limit ends it.

Tool errors go back to the model as tool messages. A reply without a call gets one nudge; a tool that is called wrongly
several times in a row gets a last hint. Only a proposal that the toolbox accepted counts: words never change a config.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from envwright.agent.events import Listener
from envwright.agent.limits import Limits
from envwright.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage
from envwright.agent.models import ChatModel, ModelError
from envwright.agent.session import Ending, Session, SessionResult, Tools
from envwright.agent.stop import StopReason
from envwright.agent.transcript import SessionHeader, Transcript
from envwright.env.chat import strip_thinking
from envwright.tools.registry import TOOLS

__all__ = ["KEEP", "SessionResult", "Tools", "keeps", "run_session"]

KEEP = "KEEP"
"""First word of a reply by which an engineer keeps the config on purpose."""

NUDGE = (
    "That reply called no tool, so nothing has changed: a config changes only through an accepted propose_patch call. "
    f"Call a tool now. To leave the config as it is, reply with {KEEP} and your reason."
)
"""Sent once to a model that stops calling tools."""


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
    summary: bool = False,
    on_event: Listener | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SessionResult:
    """Let a model work with the tools until it is done.

    Ctrl-C ends the session with `cancelled`: open calls are answered, the transcript gets its last line, and the result is
    returned, for the caller to go on or to raise again.

    Args:
        model: who is asked; one that streams does so when somebody listens.
        toolbox: the tools; their results and the accepted proposal come from it.
        messages: the context to begin with.
        header: first line of the transcript.
        limits: bounds on the session.
        transcript: where the session is written.
        token_budget: tokens that one tool result may take; None for no bound.
        nudges: replies in a row without a call that are answered with a hint before the session ends; 0 for a
            conversation with a person, where such a reply is the answer.
        summary: ask the model for its own summary of the context first (context module S).
        on_event: told everything that happens, as it happens.
        clock: seconds, for the time limit.
    """
    session = Session(model, toolbox, limits=limits, transcript=transcript, token_budget=token_budget, on_event=on_event, clock=clock)
    return session.run(header, messages, _Loop(session, nudges).turn, summary=summary)


class _Loop:
    """Takes the turns of a session with tools."""

    def __init__(self, session: Session, nudges: int) -> None:
        self.session, self.nudges = session, nudges
        self.specs: list[dict[str, Any]] = session.toolbox.specs()
        self.silent = 0
        self.failures: Counter[str] = Counter()
        """Errors in a row per tool."""

    def turn(self) -> Ending | None:
        """Ask once and carry out what is answered."""
        try:
            completion = self.session.ask(self.specs)
        except ModelError as error:
            return StopReason.MODEL_ERROR, str(error)
        self.session.say(completion.message)
        if completion.message.tool_calls:
            self.silent = 0
            return self._carry_out(completion.message.tool_calls)
        return self._no_call(completion.message, completion.problem)

    def _no_call(self, message: AssistantMessage, problem: str | None) -> Ending | None:
        """Deal with a reply that calls no tool."""
        text = (strip_thinking(message.content or "") or "").strip()
        if problem is None and keeps(text):
            return StopReason.KEPT, text
        if self.silent >= self.nudges:
            return StopReason.NO_PATCH, text or problem or "the model said nothing"
        self.silent += 1
        words = NUDGE if problem is None else f"Your tool call could not be read: {problem}. Write it again, whole."
        self.session.retry(problem or "the reply called no tool", words)
        return None

    def _carry_out(self, calls: Sequence[ToolCall]) -> Ending | None:
        """Carry out the calls of one message in order; every call gets its answer, also those that come too late."""
        ended: Ending | None = None
        hints: dict[str, str] = {}
        for call in calls:
            ended = ended or self.session.over_call_limit()
            if ended is not None:
                self.session.say(ToolMessage(tool_call_id=call.id, content=f"not carried out: {ended[0]}"))
                continue
            answer = self.session.carry_out(call)
            ended = self.session.accepted_ending() or self._failed_too_often(call, answer.error is not None, hints)
        if ended is None and hints:
            self.session.retry(f"{', '.join(hints)} failed again", " ".join(hints.values()))
        return ended

    def _failed_too_often(self, call: ToolCall, failed: bool, hints: dict[str, str]) -> Ending | None:
        """Count a tool's errors in a row: leave a last hint at the bound, end the session beyond it."""
        name = call.function.name if call.function.name in TOOLS else "a tool that does not exist"
        if not failed:
            del self.failures[name]
            return None
        self.failures[name] += 1
        bound = self.session.limits.tool_retries
        if self.failures[name] > bound:
            return StopReason.TOOL_RETRIES_LIMIT, f"{name} was called wrongly {self.failures[name]} times in a row"
        if self.failures[name] == bound:
            hints[name] = _hint(name, bound)
        return None


def _hint(name: str, times: int) -> str:
    """Return the last hint: a call that fits the schema."""
    way = f"The tools are {', '.join(TOOLS)}"
    if name in TOOLS:
        way = f"A call that works has the arguments {TOOLS[name].example}"
    return f"{name} was called wrongly {times} times in a row; one more error ends the session. {way}."


def keeps(text: str) -> bool:
    """True when a reply's first word is the word that keeps the config."""
    word = text.split(maxsplit=1)[0] if text else ""
    return word.strip("*_`\"'.,:;!-") == KEEP
