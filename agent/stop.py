"""Why a session ended."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["StopReason"]


class StopReason(StrEnum):
    """Why a session ended. Only `patch_accepted` and `gate` change the config; every other reason keeps it."""

    PATCH_ACCEPTED = "patch_accepted"
    """A proposal passed every check."""
    KEPT = "kept"
    """The engineer decided to keep the config as it is, and said so."""
    NO_PATCH = "no_patch"
    """The model stopped without an accepted proposal, whatever its words claim."""
    REQUEST_LIMIT = "request_limit"
    """As many completions as allowed were asked of the model."""
    TOOL_CALLS_LIMIT = "tool_calls_limit"
    """As many tool calls as allowed were carried out."""
    TOTAL_TOKENS_LIMIT = "total_tokens_limit"
    """The model has read and written as many tokens as allowed."""
    TIME_LIMIT = "time_limit"
    """The session took as long as allowed."""
    TOOL_RETRIES_LIMIT = "tool_retries_limit"
    """One tool was called wrongly so often in a row that the model cannot be expected to mend it."""
    CANCELLED = "cancelled"
    """A person interrupted the session (Ctrl-C); what was said until then is in the transcript."""
    MODEL_ERROR = "model_error"
    """The model could not answer: unreachable, refused, or not a completion; the note says which."""
    GATE = "gate"
    """No session: validation fell by more than the tolerance, and the run goes back to its best config."""
    LAST_STAGE = "last_stage"
    """No session: the run has no next stage."""
