"""What happens in a session, one event at a time, for whoever watches: a terminal, a chat, a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from envwright.agent.messages import Message, ToolCall
from envwright.agent.stop import StopReason
from envwright.tools.results import ToolResult

__all__ = ["Event", "Listener", "MessageAdded", "Retried", "SessionEnded", "TextDelta", "ToolFinished", "ToolStarted"]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's answer, as it arrives."""

    text: str
    """The new piece; joined, the pieces of an answer are its content."""


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A message joined the conversation (and the transcript)."""

    message: Message
    """The whole message."""


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call is about to be carried out."""

    call: ToolCall
    """The call as the model wrote it."""


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call was carried out."""

    call: ToolCall
    """The call as the model wrote it."""
    answer: ToolResult
    """What came back, whole; the message that follows may hold fewer rows."""
    seconds: float
    """Wall-clock time that the tool took."""


@dataclass(frozen=True, slots=True)
class Retried:
    """Something is tried again: the model was told what was wrong with its answer, or a request is sent once more."""

    reason: str
    """What was wrong, in words."""


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The last event of a session, exactly once."""

    stop_reason: StopReason
    """Why it ended."""
    note: str
    """The reason in words."""


Event = TextDelta | MessageAdded | ToolStarted | ToolFinished | Retried | SessionEnded
"""Anything that a session reports."""

Listener = Callable[[Event], None]
"""Takes each event as it happens; what it raises ends the session (KeyboardInterrupt cancels it)."""
