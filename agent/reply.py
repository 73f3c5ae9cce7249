"""From the text that a model wrote to an assistant message: its calls with ids, or why they cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

from envwright.agent.messages import AssistantMessage, Message, ToolCall
from envwright.agent.tool_text import read_text_calls

__all__ = ["CUT", "assistant_reply", "next_call_number"]

CUT = "the reply was cut at the token limit before a tool call was whole; answer more briefly"
"""Told to a model whose reply did not end."""


def assistant_reply(text: str, messages: Sequence[Message], *, cut: bool) -> tuple[AssistantMessage, str | None]:
    """Return the message that a text stands for, and why a call in it could not be read.

    Args:
        text: what the model wrote.
        messages: the conversation before it; ids of calls go on from there.
        cut: whether a token limit ended the text.
    """
    read = read_text_calls(text)
    if read.calls:
        first = next_call_number(messages)
        calls = tuple(ToolCall(id=f"call_{first + index}", function=function) for index, function in enumerate(read.calls))
        return AssistantMessage(content=read.rest, tool_calls=calls), None
    return AssistantMessage(content=text), CUT if cut else read.problem


def next_call_number(messages: Sequence[Message]) -> int:
    """Return the number of the next call of a conversation, from 1."""
    return 1 + sum(len(message.tool_calls) for message in messages if isinstance(message, AssistantMessage))
