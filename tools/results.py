"""What a tool call comes back as, and how it is told to a model within a budget of tokens."""

from __future__ import annotations

import math
from typing import Any

from envwright.env.base import FrozenModel
from envwright.env.jsonio import dump_json
from envwright.tools.errors import ToolErrorCode

__all__ = ["CHARACTERS_PER_TOKEN", "ToolFailure", "ToolResult"]

CHARACTERS_PER_TOKEN = 4
"""Estimate of how many characters of JSON make a token."""
_KEPT_LONGEST = ("errors", "warnings")
"""Lists that lose rows last: they say what to do next."""


class ToolFailure(FrozenModel):
    """Why a call gave nothing, in words that let the next call succeed."""

    code: ToolErrorCode
    """Kind of error."""
    message: str
    """What was wrong, the bound, and a hint."""


class ToolResult(FrozenModel):
    """The answer to one call: content or an error."""

    id: str | None
    """What edits cite as evidence, such as "failure_breakdown#1"; None for an error."""
    name: str
    """Tool that was called, as the caller spelled it."""
    content: dict[str, Any] | None = None
    """The answer as plain JSON data; None for an error."""
    error: ToolFailure | None = None
    """The error; None for an answer."""
    coerced: tuple[str, ...] = ()
    """Arguments that were given as strings and read as what they hold."""

    def text(self, token_budget: int | None = None) -> str:
        """Return compact JSON for a model.

        Args:
            token_budget: most tokens, at 4 characters each. Whole rows are dropped from the end of the longest list until
                the text fits (errors and warnings last), and `dropped_rows` and `dropped_from` say how many and from which; text is never cut, so
                what has no rows left to drop stays, even above the budget.
        """
        document: dict[str, Any] = {"id": self.id} if self.error is None else {}
        document |= self.content or {}
        if self.error is not None:
            document["error"] = self.error.to_json()
        if self.coerced:
            document["coerced"] = list(self.coerced)
        text = dump_json(document)
        if token_budget is None or _tokens(text) <= token_budget:
            return text
        return _trimmed(document, token_budget)


def _tokens(text: str) -> int:
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def _trimmed(document: dict[str, Any], token_budget: int) -> str:
    """Drop rows until the document fits or has no rows left."""
    lists = {
        key: list(value)
        for key, value in document.items()
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
    }
    lengths = {key: [len(dump_json(row)) + 1 for row in rows] for key, rows in lists.items()}
    excess = len(dump_json(document)) - token_budget * CHARACTERS_PER_TOKEN
    dropped: dict[str, int] = {}
    while True:
        told = {"dropped_rows": sum(dropped.values()), "dropped_from": list(dropped)} if dropped else {}
        if excess + (len(dump_json(told)) if told else 0) <= 0 or not any(lengths.values()):
            return dump_json({**document, **{key: rows[: len(lengths[key])] for key, rows in lists.items()}, **told})
        longest = max((key for key in lengths if lengths[key]), key=lambda key: (key not in _KEPT_LONGEST, sum(lengths[key])))
        excess -= lengths[longest].pop()
        dropped[longest] = dropped.get(longest, 0) + 1
