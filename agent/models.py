"""What the loop asks of a chat model, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from envwright.agent.limits import Limits
from envwright.agent.messages import AssistantMessage, Message, Usage
from envwright.env.errors import UserError

__all__ = ["BoundedModel", "ChatModel", "CheckedModel", "Completion", "ModelError", "SessionModel", "StreamingModel", "StructuredModel"]


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


@runtime_checkable
class StreamingModel(ChatModel, Protocol):
    """A chat model that can show its text while it writes."""

    def stream(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], on_text: Callable[[str], None]) -> Completion:
        """Return the next assistant message, as `complete` does.

        Args:
            messages: the conversation so far.
            tools: OpenAI function tool specs.
            on_text: given each piece of the content as it arrives; joined, the pieces are the content.

        Raises:
            ModelError: there is no answer to be had.
        """


@runtime_checkable
class StructuredModel(ChatModel, Protocol):
    """A chat model that can be held to a JSON Schema while it writes."""

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Completion:
        """Return an assistant message whose content is one JSON document.

        Args:
            messages: the conversation so far.
            schema: JSON Schema of the document, references inlined.

        Raises:
            ModelError: there is no answer to be had.
        """


@runtime_checkable
class CheckedModel(ChatModel, Protocol):
    """A chat model that can find out, before a run begins, whether it will be able to answer."""

    def check(self) -> None:
        """Return when the model is there.

        Raises:
            UserError: it is not; one line with the next step.
        """


@runtime_checkable
class SessionModel(ChatModel, Protocol):
    """A chat model that must know where a session begins and where it ends."""

    def session(self) -> AbstractContextManager[None]:
        """Return the context in which one session runs."""


@runtime_checkable
class BoundedModel(ChatModel, Protocol):
    """A chat model whose context is so short that sessions must be fitted to it."""

    def fitted(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], limits: Limits) -> tuple[Limits, int]:
        """Return limits, and a token budget for one tool result, with which a session stays within the context.

        Args:
            messages: what the session begins with.
            tools: OpenAI function tool specs.
            limits: what is wanted; `request_limit` may come back smaller.

        Raises:
            ModelError: not even the first messages fit.
        """
