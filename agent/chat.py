"""A conversation with an engineer: a person asks, the engineer looks at evidence and proposes, the person approves or rejects.

The core behind `envwright chat`, without a terminal. Each thing that the person says is one session of the tool loop over the
conversation so far. A patch that passed every check is only pending: nothing is applied before `approve`, and the reason
of a rejection goes back to the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envwright.agent.approval import Reviewer
from envwright.agent.context import SYSTEM_SECTIONS, USER_SECTIONS, Bookkeeping, Briefing, build_context, ending, task
from envwright.agent.events import Event, Listener, MessageAdded, ToolFinished
from envwright.agent.evidence_text import SHOWN_BREAKDOWN, visible_evidence
from envwright.agent.limits import Limits
from envwright.agent.loop import run_session
from envwright.agent.messages import AssistantMessage, FunctionCall, Message, ToolCall, Usage, UserMessage
from envwright.agent.models import BoundedModel, ChatModel
from envwright.agent.session import SessionResult
from envwright.agent.stop import StopReason
from envwright.agent.transcript import SessionEnd, SessionHeader, config_hash, read_transcript
from envwright.agent.work_settings import WorkSettings
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, write_json_lines
from envwright.env.patch import Patch, PatchCheck, check_patch
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox
from envwright.tools.results import ToolResult

__all__ = ["REJECTION", "Chat", "NumberedCall"]

APPROVAL = "I approve this patch: "
REJECTION = "I reject this patch, and nothing is applied. My reason: "
"""How the person's message begins by which an engineer learns of a rejection."""


def conversation(_briefing: Briefing) -> str:
    """Say that a person talks, and who decides."""
    return (
        "A person now talks with you about this evidence. Answer questions in words, short and with the counts behind them; call tools to "
        "find out. Call propose_patch only when you are asked for a patch. A patch that passes the checks is shown to the person, who "
        "approves it or rejects it with a reason; nothing is applied before."
    )


@dataclass(frozen=True, slots=True)
class NumberedCall:
    """A tool call of the conversation, with the number that a person knows it by."""

    number: int
    """From 1."""
    call: ToolCall
    """The call."""
    answer: ToolResult
    """What came back, whole."""
    seconds: float | None
    """Wall-clock time that the tool took; None when it was called again to load a conversation."""


class Chat:
    """A conversation over one evidence.

    Args:
        model: who answers.
        evidence: what the tools read; its config is the one that a patch changes.
        work: context modules and guard rails.
        limits: bounds on each answer.
        token_budget: tokens that one tool result may take in the conversation.
        bookkeeping: where the run stands; default: the evidence's latest stage.
        on_event: told everything that happens, the messages of earlier turns aside.
    """

    def __init__(
        self,
        model: ChatModel,
        evidence: Evidence,
        *,
        work: WorkSettings | None = None,
        limits: Limits | None = None,
        token_budget: int | None = None,
        bookkeeping: Bookkeeping | None = None,
        on_event: Listener | None = None,
    ) -> None:
        self.model, self.work, self.limits = model, work or WorkSettings(), limits or Limits()
        self.token_budget, self.on_event = token_budget, on_event
        self.evidence = visible_evidence(evidence, self.work.modules)
        self.messages: tuple[Message, ...] = self._opening(bookkeeping)
        self.usage = Usage()
        self.calls: list[NumberedCall] = []
        """Every tool call so far, the person's own included."""
        self.pending: PatchCheck | None = None
        """The proposal that waits for a decision."""
        self.proposer = model.name
        """Who made the last proposal."""
        self.approved: PatchCheck | None = None
        """The proposal that was approved last."""
        self._toolbox = self._new_toolbox()
        self._own_toolbox = self._new_toolbox()

    def say(self, text: str) -> SessionResult:
        """Say something, and let the engineer answer.

        Returns:
            How the answer ended: `no_patch` for words, `patch_accepted` for a proposal, which is then pending.

        Raises:
            ModelError: the conversation no longer fits the model's context; it stays as it was.
        """
        before = len(self.messages) + 1
        seen = 0

        def listen(event: Event) -> None:
            nonlocal seen
            seen += isinstance(event, MessageAdded)
            if isinstance(event, ToolFinished):
                self._number(event.call, event.answer, event.seconds)
            if self.on_event is not None and (seen > before or not isinstance(event, MessageAdded)):
                self.on_event(event)

        messages = (*self.messages, UserMessage(content=text))
        limits, token_budget = self._fitted(messages)
        result = run_session(
            self.model,
            self._toolbox,
            messages,
            header=self._header(),
            limits=limits,
            token_budget=token_budget,
            nudges=0,
            on_event=listen,
        )
        self.messages, self.usage = result.messages, self.usage + result.usage
        if result.accepted is not None:
            self.pending, self.proposer = result.accepted, self.model.name
        return result

    def call(self, name: str, arguments: str) -> NumberedCall:
        """Call a tool for the person; the engineer is not told. A patch that passes the checks becomes pending."""
        before = self._own_toolbox.accepted
        answer = self._own_toolbox.call(name, arguments)
        if self._own_toolbox.accepted is not before:
            self.pending, self.proposer = self._own_toolbox.accepted, "a person"
        call = ToolCall(id=f"own_{len(self.calls) + 1}", function=FunctionCall(name=name, arguments=arguments))
        return self._number(call, answer, None)

    def offer(self, patch: Patch, by: str) -> PatchCheck:
        """Make somebody else's patch pending, when it passes the checks and the guard rails."""
        call = self.call("propose_patch", dump_json({"summary": patch.summary, "edits": [edit.to_json() for edit in patch.edits]}))
        self.proposer = by
        return PatchCheck.model_validate(call.answer.content)

    def approve(self) -> PatchCheck:
        """Approve the pending patch; writing it where it takes effect is the caller's work.

        Raises:
            UserError: no patch is pending.
        """
        check = self._decided()
        self.approved = check
        self.messages = (*self.messages, UserMessage(content=f"{APPROVAL}{check.patch.summary if check.patch else ''}"))
        return check

    def reject(self, reason: str) -> SessionResult:
        """Reject the pending patch, and let the engineer answer to the reason.

        Raises:
            UserError: no patch is pending, or there is no reason.
        """
        if not reason.strip():
            raise UserError("a rejection needs a reason, which the engineer is told: /reject REASON")
        self._decided()
        return self.say(f"{REJECTION}{reason.strip()}")

    def save(self, path: Path) -> None:
        """Write the conversation as a transcript: a header, the messages, and what was approved."""
        patch = self.approved.patch if self.approved is not None else None
        reason = StopReason.NO_PATCH if patch is None else StopReason.PATCH_ACCEPTED
        end = SessionEnd(stop_reason=reason, note="a conversation" if patch is None else patch.summary, patch=patch, usage=self.usage)
        write_json_lines(path, (record.to_json() for record in (self._header(), *self.messages, end)))

    def load(self, path: Path) -> None:
        """Go on with a saved conversation; its tool calls are made again, so that results can be looked at and cited.

        Raises:
            UserError: no transcript, one that was cut off, or one about another config; the conversation stays as it is.
        """
        recording = read_transcript(path)
        if recording.header.config_hash != config_hash(self.evidence.config):
            raise UserError(f"{path}: is about another config; load it with the evidence that it was saved with")
        self.messages, self.usage = recording.messages, recording.end.usage
        self.calls, self.pending, self.approved = [], None, None
        self._toolbox, self._own_toolbox = self._new_toolbox(), self._new_toolbox()
        for message in recording.messages:
            self._take_up(message)
        if recording.end.patch is not None:
            self.approved = check_patch(self.evidence.config, recording.end.patch.to_json())

    def _fitted(self, messages: Sequence[Message]) -> tuple[Limits, int | None]:
        """Return the limits and the budget of a tool result, fitted to a model whose context is short.

        Raises:
            ModelError: the conversation no longer fits.
        """
        if not isinstance(self.model, BoundedModel):
            return self.limits, self.token_budget
        limits, budget = self.model.fitted(messages, self._toolbox.specs(), self.limits)
        return limits, min(budget, self.token_budget or budget)

    def _take_up(self, message: Message) -> None:
        """Follow a loaded message: its calls, or the decision that it tells."""
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                before = self._toolbox.accepted
                self._number(call, self._toolbox.call(call.function.name, call.function.arguments), None)
                self.pending = self.pending if self._toolbox.accepted is before else self._toolbox.accepted
        elif isinstance(message, UserMessage) and message.content.startswith((APPROVAL, REJECTION)):
            self.pending = None

    def _decided(self) -> PatchCheck:
        if self.pending is None:
            raise UserError("no patch is pending; ask the engineer to propose one")
        check, self.pending = self.pending, None
        return check

    def _number(self, call: ToolCall, answer: ToolResult, seconds: float | None) -> NumberedCall:
        self.calls.append(NumberedCall(len(self.calls) + 1, call, answer, seconds))
        return self.calls[-1]

    def _new_toolbox(self) -> Toolbox:
        shown = (SHOWN_BREAKDOWN,) if self.work.modules.failures else ()
        return Toolbox(self.evidence, review=Reviewer(self.work.guard_rails), seconds=self.limits.tool_seconds, shown=shown)

    def _opening(self, bookkeeping: Bookkeeping | None) -> tuple[Message, ...]:
        books = bookkeeping or Bookkeeping(stage=self.evidence.latest_stage)
        system = [section for section in SYSTEM_SECTIONS if section is not ending]
        user = [section for section in USER_SECTIONS if section is not task]
        return build_context(Briefing(self.evidence, books, self.limits, self.work.modules, None), [*system, conversation], user)

    def _header(self) -> SessionHeader:
        evidence = self.evidence
        return SessionHeader(
            model=self.model.name,
            seed=evidence.seed,
            stage=evidence.latest_stage,
            config_hash=config_hash(evidence.config),
            context=self.work.context,
            guard_rails=self.work.guard_rails,
        )
