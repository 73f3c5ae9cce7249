"""Puts a streamed chat completion together again: text, tool calls that arrive in pieces, usage, and whether it is whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from envwright.agent.models import ModelError
from envwright.agent.openai_client import clean_text
from envwright.agent.text_gate import TextGate

__all__ = ["CallPieces", "Streamed", "gathered"]


@dataclass(slots=True)
class CallPieces:
    """One tool call as it arrives."""

    id: str = ""
    """Its id, which comes once."""
    name: str = ""
    """Name of the tool."""
    arguments: str = ""
    """Text of the arguments so far."""


@dataclass(slots=True)
class Streamed:
    """What a stream brought."""

    content: str = ""
    """The text."""
    calls: list[CallPieces] = field(default_factory=list)
    """The calls, in the order in which they began."""
    finish_reason: str | None = None
    """Why the server stopped; None when it never said so."""
    usage: Any = None
    """The server's token counts, when it gives them."""
    chunks: int = 0
    """How many pieces came."""
    broken: str | None = None
    """Why the stream ended before the reply did."""


def gathered(chunks: Iterable[Any], gate: TextGate) -> Streamed:
    """Read a stream to its end and show the text while it comes.

    Raises:
        ModelError: it broke before anything came.
    """
    reply = Streamed()
    by_index: dict[Any, CallPieces] = {}
    try:
        for chunk in chunks:
            reply.chunks += 1
            reply.usage = getattr(chunk, "usage", None) or reply.usage
            for choice in getattr(chunk, "choices", None) or ():
                _take(reply, by_index, choice, gate)
    except ModelError as error:
        if not reply.content and not reply.calls:
            raise
        reply.broken = str(error)
    if reply.broken is None and reply.finish_reason is None and (reply.content or reply.calls):
        reply.broken = "the stream ended before the reply did"
    gate.finish()
    return reply


def _take(reply: Streamed, by_index: dict[Any, CallPieces], choice: Any, gate: TextGate) -> None:
    reply.finish_reason = getattr(choice, "finish_reason", None) or reply.finish_reason
    delta = getattr(choice, "delta", None)
    text = getattr(delta, "content", None)
    if isinstance(text, str) and text:
        reply.content += text
        gate.add(clean_text(text))
    for piece in getattr(delta, "tool_calls", None) or ():
        function = getattr(piece, "function", None)
        key = piece.index if getattr(piece, "index", None) is not None else (piece.id or len(by_index) - 1)
        if key not in by_index:
            by_index[key] = CallPieces()
            reply.calls.append(by_index[key])
        call = by_index[key]
        call.id = call.id or piece.id or ""
        call.name += getattr(function, "name", None) or ""
        call.arguments += getattr(function, "arguments", None) or ""
