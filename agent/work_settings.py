"""How an engineer works: what it is shown, with tools or by one answer, and within which guard rails."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from envwright.agent.context_modules import DEFAULT_CONTEXT, ContextModules, parse_context
from envwright.agent.guardrails import GuardRails
from envwright.env.base import FrozenModel

__all__ = ["Answer", "Engineering", "WorkSettings", "answer_of"]

Engineering = Literal["agent", "direct", "direct-config"]
"""With tools; or the context in one prompt and one constrained answer: a patch, or the whole config (the paper's way)."""

Answer = Literal["patch", "config"]
"""What one constrained answer holds."""


class WorkSettings(FrozenModel):
    """How an engineer that is a model works; baselines without a model take no notice of it."""

    context: str = Field(default=DEFAULT_CONTEXT)
    """What it is shown: a variant (V1 to V6), modules (F,G,H or H0,S,T or Tfull), or both (V4,S)."""
    engineering: Engineering = "agent"
    """agent: with tools; direct: one answer, a patch; direct-config: one answer, the whole config."""
    guard_rails: GuardRails | None = GuardRails()
    """Bounds on a patch; null for none."""

    @field_validator("context")
    @classmethod
    def _readable(cls, context: str) -> str:
        return parse_context(context).spec

    @property
    def modules(self) -> ContextModules:
        """The context modules."""
        return parse_context(self.context)


def answer_of(engineering: Engineering) -> Answer | None:
    """Return what the one answer is; None for a session with tools."""
    answers: dict[Engineering, Answer] = {"direct": "patch", "direct-config": "config"}
    return answers.get(engineering)
