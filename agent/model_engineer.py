"""What an engineer is, and the two that hold sessions: a chat model at work with the tools, and one that is played again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from envwright.agent.approval import Approval, RecordedApproval, Reviewer
from envwright.agent.context import Bookkeeping, Briefing, build_context
from envwright.agent.direct import run_direct
from envwright.agent.direct_rule import DirectRule
from envwright.agent.events import Listener
from envwright.agent.evidence_text import SHOWN_BREAKDOWN, visible_evidence
from envwright.agent.limits import Limits
from envwright.agent.loop import run_session
from envwright.agent.messages import Message, Usage
from envwright.agent.models import BoundedModel, ChatModel, CheckedModel, ModelError, SessionModel
from envwright.agent.probe_count import count_probe
from envwright.agent.redesign import Redesign
from envwright.agent.replay import ReplayModel, find_transcript
from envwright.agent.rule import RuleModel
from envwright.agent.stop import StopReason
from envwright.agent.transcript import SessionHeader, Transcript, config_hash
from envwright.agent.work_settings import WorkSettings, answer_of
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox

__all__ = ["Engineer", "ModelEngineer", "ReplayEngineer"]

EVERYTHING = "V3"
"""Context of a replayed session that does not say what it was shown: the variant that hides nothing from the tools."""


class Engineer(Protocol):
    """Decides on the next config."""

    @property
    def name(self) -> str:
        """Name for records; holds no secret."""

    def check(self) -> None:
        """Find out, before a run begins, whether the engineer can work.

        Raises:
            UserError: it cannot; one line with the next step.
        """

    def design(self, evidence: Evidence, transcript: Path | None = None, *, bookkeeping: Bookkeeping | None = None) -> Redesign:
        """Decide on the next config.

        Args:
            evidence: what may be looked at; its config is the one that changes.
            transcript: file to write the session to, line by line.
            bookkeeping: where the run stands; default: the evidence's latest stage.
        """


class ModelEngineer:
    """A chat model at work with the tools.

    Args:
        model: who is asked.
        limits: bounds on a session.
        token_budget: tokens that one tool result may take; None for no bound.
        context: makes the first messages.
        work: what it is shown, whether it works with tools, and within which guard rails.
        approval: who has the last word on its patches; None approves.
        on_event: told everything that happens in a session.
    """

    def __init__(
        self,
        model: ChatModel,
        limits: Limits | None = None,
        *,
        token_budget: int | None = None,
        context: Callable[[Briefing], Sequence[Message]] = build_context,
        work: WorkSettings | None = None,
        approval: Approval | None = None,
        on_event: Listener | None = None,
    ) -> None:
        self.model = model
        self.limits = limits or Limits()
        self.token_budget = token_budget
        self.context = context
        self.work = work or WorkSettings()
        self.approval = approval
        self.on_event = on_event

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.model.name

    def check(self) -> None:
        """Ask a model whether it is there; see `Engineer.check`."""
        if isinstance(self.model, CheckedModel):
            self.model.check()

    def design(self, evidence: Evidence, transcript: Path | None = None, *, bookkeeping: Bookkeeping | None = None) -> Redesign:
        """Run one session; see `Engineer.design`.

        Raises:
            KeyboardInterrupt: the session was interrupted; its transcript is whole.
        """
        with self.model.session() if isinstance(self.model, SessionModel) else nullcontext():
            return self._design(evidence, transcript, bookkeeping)

    def _design(self, evidence: Evidence, transcript: Path | None, bookkeeping: Bookkeeping | None) -> Redesign:
        work, modules, answer = self.work, self.work.modules, answer_of(self.work.engineering)
        seen, asked_of_policy = count_probe(visible_evidence(evidence, modules))
        books = bookkeeping or Bookkeeping(stage=seen.latest_stage)
        header = SessionHeader(
            model=self.name,
            seed=evidence.seed,
            stage=seen.latest_stage,
            config_hash=config_hash(evidence.config),
            engineering=work.engineering,
            context=work.context,
            guard_rails=work.guard_rails,
        )
        toolbox = Toolbox(
            seen,
            review=Reviewer(work.guard_rails, self.approval),
            seconds=self.limits.tool_seconds,
            shown=(SHOWN_BREAKDOWN,) if modules.failures else (),
        )
        briefing = Briefing(seen, books, self.limits, modules, answer)
        first, limits, token_budget = self._fitted(briefing, toolbox)
        record = Transcript(transcript)
        if answer is None:
            result = run_session(
                self.model,
                toolbox,
                first,
                header=header,
                limits=limits,
                transcript=record,
                token_budget=token_budget,
                summary=modules.summary,
                on_event=self.on_event,
            )
        else:
            rule = DirectRule(seen, config_wanted=answer == "config", cites=modules.failures)
            result = run_direct(
                rule if isinstance(self.model, RuleModel) else self.model,
                toolbox,
                first,
                evidence.config,
                header=header,
                limits=self.limits,
                transcript=record,
                summary=modules.summary,
                on_event=self.on_event,
            )
        if result.stop_reason is StopReason.CANCELLED:
            raise KeyboardInterrupt
        usage = result.usage + Usage(policy_completions=asked_of_policy())
        return Redesign.of(evidence.config, result.accepted, result.stop_reason, result.note, usage)

    def _fitted(self, briefing: Briefing, toolbox: Toolbox) -> tuple[Sequence[Message], Limits, int | None]:
        """Return the first messages, the limits and the budget of a tool result, fitted to a model whose context is short."""
        first, limits, budget = self.context(briefing), self.limits, self.token_budget
        if briefing.answer is not None or not isinstance(self.model, BoundedModel):
            return first, limits, budget
        try:
            limits, budget = self.model.fitted(first, toolbox.specs(), limits)
        except ModelError:
            return first, limits, budget  # the session asks the model, is told the same, and records it
        return self.context(replace(briefing, limits=limits)), limits, min(budget, self.token_budget or budget)


class ReplayEngineer:
    """Plays a transcript again and insists on the same patch.

    Args:
        path: a transcript, or a run folder, of which each stage's transcript is played.
        limits: bounds on a session.
    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self.path = path
        self.limits = limits or Limits()

    @property
    def name(self) -> str:
        """`replay:FILE`."""
        return f"replay:{self.path}"

    def check(self) -> None:
        """Read a transcript given as a file; a run folder is read stage by stage."""
        if not self.path.is_dir():
            find_transcript(self.path, 0)

    def design(self, evidence: Evidence, transcript: Path | None = None, *, bookkeeping: Bookkeeping | None = None) -> Redesign:
        """Replay.

        Raises:
            UserError: no transcript, one that was cut off, or one that leads to another patch here.
        """
        recording = find_transcript(self.path, evidence.latest_stage)
        model, header = ReplayModel(recording), recording.header
        work = WorkSettings(context=header.context or EVERYTHING, engineering=header.engineering, guard_rails=header.guard_rails)
        engineer = ModelEngineer(model, self.limits, work=work, approval=RecordedApproval(recording.end.rejections))
        redesign = engineer.design(evidence, transcript, bookkeeping=bookkeeping)
        model.check(redesign.patch)
        return redesign
