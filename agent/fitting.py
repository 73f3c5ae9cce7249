"""Fits a session into a short context: fewer requests, shorter tool results, before anything would have to be cut."""

from __future__ import annotations

from envwright.agent.limits import Limits
from envwright.agent.models import ModelError
from envwright.tools.results import CHARACTERS_PER_TOKEN

__all__ = ["fit"]

_SMALLEST_RESULT = 200
"""Tokens that a tool result should get at least."""
_JSON_CHARACTERS = 2
"""Characters of JSON in a token of a small vocabulary, where digits stand alone; measured on SmolLM2 with `failure_breakdown`: 2.1."""


def fit(name: str, context: int, first: int, max_tokens: int, limits: Limits) -> tuple[Limits, int]:
    """Return limits and a budget for one tool result with which a session stays within a context.

    Args:
        name: the model's, for the message.
        context: tokens that the model can hold.
        first: tokens of the tools and of the messages that the session begins with.
        max_tokens: most tokens of one reply.
        limits: what is wanted; `request_limit` may come back smaller.

    Returns:
        The limits, and the result budget in the tokens of `ToolResult.text` (4 characters each).

    Raises:
        ModelError: the context cannot hold the first messages, one result and two replies.
    """
    room = context - first - max_tokens
    turn = max_tokens + _SMALLEST_RESULT
    if room < turn:
        raise ModelError(
            f"{name} has a context of {context} tokens; the tools and the first messages take {first} and a session needs "
            f"{max_tokens + turn} more: take a model with a longer context, or show less (a smaller context variant)"
        )
    requests = min(limits.request_limit, 1 + room // turn)
    result = room // max(1, requests - 1) - max_tokens
    budget = max(_SMALLEST_RESULT, result) * _JSON_CHARACTERS // CHARACTERS_PER_TOKEN
    return limits.model_copy(update={"request_limit": requests}), budget
