"""Approval: who has the last word on a patch that passed every check.

A rejection goes back to the model with its reason, as an error of `propose_patch`; the config stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from envwright.agent.guardrails import GuardRails, judge, read_guard_rails, refused
from envwright.agent.visible import visible
from envwright.env.errors import UserError
from envwright.env.patch import PatchCheck, PatchProblem
from envwright.tools.evidence import Evidence

__all__ = [
    "REJECTED",
    "Approval",
    "Approved",
    "AutoApproval",
    "Decision",
    "HumanApproval",
    "PolicyApproval",
    "RecordedApproval",
    "Rejected",
    "Reviewer",
    "make_approval",
]

REJECTED = "rejected"
"""Code of the error by which a model learns of a rejection."""


@dataclass(frozen=True, slots=True)
class Approved:
    """The patch is taken."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The patch is not taken."""

    reason: str
    """Why, for the model to read."""


Decision = Approved | Rejected


class Approval(Protocol):
    """Decides on a patch that passed every check."""

    def decide(self, check: PatchCheck, evidence: Evidence) -> Decision:
        """Return the decision.

        Raises:
            KeyboardInterrupt: whoever was asked wants the session to end.
        """


class AutoApproval:
    """Approves whatever passed the checks."""

    def decide(self, check: PatchCheck, evidence: Evidence) -> Decision:  # noqa: ARG002  (nothing is looked at)
        """Approve."""
        return Approved()


class HumanApproval:
    """Asks a person.

    Args:
        ask: shows the patch and returns what the person says.
    """

    def __init__(self, ask: Callable[[PatchCheck], Decision]) -> None:
        self._ask = ask

    def decide(self, check: PatchCheck, evidence: Evidence) -> Decision:  # noqa: ARG002  (the patch says what it changes)
        """Ask."""
        return self._ask(check)


class PolicyApproval:
    """Approves what stays within guard rails of its own, usually narrower than the session's.

    Args:
        rails: the bounds; beyond one of them a patch is rejected, whatever `bounds` says. Their warnings do not count.
        name: what the bounds are called, for the reason of a rejection.
    """

    def __init__(self, rails: GuardRails, name: str = "the approval policy") -> None:
        self.rails, self.name = rails.model_copy(update={"bounds": "refuse"}), name

    def decide(self, check: PatchCheck, evidence: Evidence) -> Decision:
        """Hold the patch against the rails."""
        errors = judge(check, evidence, self.rails).errors
        return Rejected(f"{self.name}: " + "; ".join(f"{error.path}: {error.message}" for error in errors)) if errors else Approved()


class RecordedApproval:
    """Decides as a recorded session did, so that it replays: the recorded rejections in order, then approval.

    Args:
        rejections: their reasons.
    """

    def __init__(self, rejections: Iterable[str]) -> None:
        self._rejections = iter(tuple(rejections))

    def decide(self, check: PatchCheck, evidence: Evidence) -> Decision:  # noqa: ARG002  (the decision was made)
        """Return the next decision."""
        reason = next(self._rejections, None)
        return Approved() if reason is None else Rejected(reason)


@dataclass(frozen=True, slots=True)
class Reviewer:
    """What a toolbox asks before a patch counts: the guard rails first, then whoever approves."""

    rails: GuardRails | None = None
    """Bounds; None for none."""
    approval: Approval | None = None
    """The last word; None approves."""

    def __call__(self, check: PatchCheck, evidence: Evidence) -> PatchCheck:
        """Return the check with what the guard rails and the approval say."""
        if self.rails is not None:
            check = judge(check, evidence, self.rails)
        if not check.accepted or self.approval is None:
            return check
        decision = self.approval.decide(check, evidence)
        if isinstance(decision, Approved):
            return check
        problem = PatchProblem(path="/edits", code=REJECTED, message=decision.reason)
        return refused(check, evidence.config, (problem,), check.warnings)


def make_approval(spec: str, *, stdin: TextIO | None = None, stderr: TextIO | None = None) -> Approval:
    """Return the approval that a spec names.

    Args:
        spec: `auto`, `human` (asks on the terminal), or the path of a JSON file of guard rails.
        stdin: where a person answers; default: the process's.
        stderr: where a person is asked, so that stdout stays the command's answer; default: the process's.

    Raises:
        UserError: `human` without a terminal, or a file that holds no guard rails.
    """
    if spec == "auto":
        return AutoApproval()
    if spec == "human":
        answers, questions = stdin or sys.stdin, stderr or sys.stderr
        if not answers.isatty():
            raise UserError("--approval human asks on the terminal, and stdin is none; use --approval auto or a policy file")
        return HumanApproval(lambda check: ask_on_terminal(check, answers, questions))
    if not Path(spec).is_file():
        raise UserError(f"--approval {spec!r} is neither auto nor human, nor a JSON file of guard rails")
    return PolicyApproval(read_guard_rails(Path(spec)), f"the policy of {Path(spec).name}")


def ask_on_terminal(check: PatchCheck, answers: TextIO, questions: TextIO) -> Decision:
    """Show a patch as text, one line per change, and ask for y, or for n and a reason.

    Raises:
        KeyboardInterrupt: the input ended.
    """
    print("\n".join(_told(check)), file=questions)
    while True:
        print("apply this patch? y, or n REASON: ", end="", file=questions, flush=True)
        line = answers.readline()
        if not line:
            raise KeyboardInterrupt
        word, _, reason = line.strip().partition(" ")
        if word.lower() in ("y", "yes"):
            return Approved()
        if word.lower() in ("n", "no"):
            return Rejected(reason.strip() or "rejected without a reason")


def _told(check: PatchCheck) -> Iterable[str]:
    """Say what a patch does; what the model wrote is shown, control characters never carried out."""
    if check.patch is None:
        return
    yield f"proposed: {visible(check.patch.summary)}"
    reasons = {edit.path: edit.reason for edit in check.patch.edits}
    for change in check.diff:
        reason = reasons.get(change.path, "scaled so that the shares sum to 1")
        yield f"  {change.path:<22} {change.before:.3f} -> {change.after:.3f}   {visible(reason)}"
    for warning in check.warnings:
        yield f"  warning: {visible(warning.path)}: {visible(warning.message)}"
