"""The error channels of envwright.

Three kinds of failure reach three kinds of reader. A `UserError` is for a person: its text is one line that names the
value, the bound and the next step, and the command line prints it and exits with code 2. A `ToolError`
(`envwright.tools.errors`) is for the model that called a tool. Anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["EnvwrightError", "InfeasibleError", "MissingExtraError", "UserError", "describe_validation"]


class EnvwrightError(Exception):
    """Base of the errors that envwright raises on purpose."""


class UserError(EnvwrightError, ValueError):
    """Bad input, told in one line: what was wrong, the bound, what to do next."""


class JobFailedError(EnvwrightError):
    """A job cannot go on, through nothing that was wrong with its input; one line says why, where, and what to change."""


class InfeasibleError(UserError):
    """The generator cannot fill a cell of the configuration within its bound on tries."""


class MissingExtraError(UserError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(package, extra, purpose)
        self.package, self.extra, self.purpose = package, extra, purpose

    def __str__(self) -> str:
        return f"{self.purpose} needs {self.package!r}, which is not installed: pip install 'envwright[{self.extra}]'"


def describe_validation(error: ValidationError, limit: int = 3) -> str:
    """Turn a pydantic error into one line: `path: message (got value)`, at most `limit` problems, then how many more."""
    parts = []
    for problem in error.errors()[:limit]:
        path = "/".join(str(piece) for piece in problem["loc"]) or "value"
        message = problem["msg"].removeprefix("Value error, ")
        got = repr(problem["input"])
        shown = "" if problem["type"] in ("missing", "value_error") else f" (got {got if len(got) <= 60 else got[:57] + '...'})"
        parts.append(f"{path}: {message}{shown}")
    more = error.error_count() - limit
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")
