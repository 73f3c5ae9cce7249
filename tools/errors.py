"""The error channel to the model: what a tool says when a call can be mended by another call."""

from __future__ import annotations

from enum import StrEnum

from envwright.env.errors import EnvwrightError

__all__ = ["ToolError", "ToolErrorCode"]


class ToolErrorCode(StrEnum):
    """Kinds of tool errors."""

    UNKNOWN_TOOL = "unknown_tool"
    """There is no tool of that name; the message lists the tools."""
    BAD_JSON = "bad_json"
    """The arguments are no JSON object."""
    VALIDATION_FAILED = "validation_failed"
    """The arguments break the tool's schema."""
    NOT_FOUND = "not_found"
    """What was asked for is not in the evidence (a stage, a split, a size)."""
    INFEASIBLE = "infeasible"
    """The generator cannot fill what was asked for."""
    TIMEOUT = "timeout"
    """The tool took too long."""


class ToolError(EnvwrightError):
    """Returned to the model in words; anything else that a tool raises is a bug and ends the session.

    Args:
        code: the kind of error.
        message: what was wrong, the bound, and the shortest hint that lets the next call succeed.
    """

    def __init__(self, code: ToolErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
