"""What a session may use before it is stopped."""

from __future__ import annotations

from pydantic import Field

from envwright.env.base import FrozenModel

__all__ = ["Limits"]


class Limits(FrozenModel):
    """Bounds on one session; reaching one ends it without a patch."""

    request_limit: int = Field(default=12, ge=1)
    """Completions asked of the model, 1 or more."""
    tool_calls_limit: int = Field(default=30, ge=0)
    """Tool calls carried out, 0 or more."""
    total_tokens_limit: int = Field(default=200_000, ge=1)
    """Tokens read and written by the model, over all requests; checked before each request."""
    seconds: float = Field(default=600.0, gt=0)
    """Wall-clock seconds; checked before each request and each call."""
    tool_retries: int = Field(default=3, ge=1)
    """Errors in a row of one tool after which the model gets a last hint; one more ends the session, 1 or more."""
    tool_seconds: float = Field(default=300.0, gt=0)
    """Wall-clock seconds of one tool call, after which it is answered with `timeout`."""
