"""What the loop asks of a chat model, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from envwright.agent.messages import AssistantMessage, Message, Usage
from envwright.env.errors import UserError

__all__ = ["ChatModel", "Completion", "ModelError"]


class ModelError(UserError):
    """A chat model cannot answer: unreachable, refused, unknown, or its answer is no completion. One line, with the next step."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a chat model."""

    message: AssistantMessage
    """What it said."""
    usage: Usage = field(default_factory=lambda: Usage(requests=1))
    """What it cost; `tool_calls` is the loop's to count."""
    problem: str | None = None
    """Why a text that was meant as a tool call could not be read as one, or why the answer is not whole."""
    seconds: float | None = None
    """Time that a remote model took; None for models whose sessions are reproducible to the byte."""


class ChatModel(Protocol):
    """Answers a conversation with one assistant message."""

    @property
    def name(self) -> str:
        """Name for transcripts and messages; holds no secret."""

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """Return the next assistant message.

        Args:
            messages: the conversation so far.
            tools: OpenAI function tool specs.

        Raises:
            ModelError: there is no answer to be had.
        """
