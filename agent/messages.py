"""Conversations in OpenAI's chat shape, so that a transcript replays anywhere.

Arguments of tool calls stay the text that the model wrote: reading them strictly is the toolbox's work.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, TypeAdapter, ValidationError, model_serializer

from envwright.env.base import FrozenModel
from envwright.env.errors import UserError, describe_validation

__all__ = [
    "AssistantMessage",
    "FunctionCall",
    "Message",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "Usage",
    "UserMessage",
    "parse_message",
]


class FunctionCall(FrozenModel):
    """A tool's name and the text of its arguments."""

    name: str
    """Name of the tool, as the model wrote it."""
    arguments: str
    """JSON text of the arguments, as the model wrote it."""


class ToolCall(FrozenModel):
    """One call in an assistant message."""

    id: str
    """Joins the call with its answer."""
    type: Literal["function"] = "function"
    """The only kind of tool."""
    function: FunctionCall
    """What is called."""


class SystemMessage(FrozenModel):
    """Instructions of whoever runs the conversation."""

    role: Literal["system"] = "system"
    """Who speaks."""
    content: str
    """The text."""


class UserMessage(FrozenModel):
    """Words of a person, or of the loop."""

    role: Literal["user"] = "user"
    """Who speaks."""
    content: str
    """The text."""


class AssistantMessage(FrozenModel):
    """What the model said: text, tool calls, or both."""

    role: Literal["assistant"] = "assistant"
    """Who speaks."""
    content: str | None = None
    """The text; None when there are only calls."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls in the order in which they are carried out."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data; `tool_calls` is left out when there are none, as servers expect."""
        data = self.model_dump(mode="json")
        if not self.tool_calls:
            del data["tool_calls"]
        return data


class ToolMessage(FrozenModel):
    """The answer to one tool call."""

    role: Literal["tool"] = "tool"
    """Who speaks."""
    tool_call_id: str
    """Id of the call that is answered."""
    content: str
    """The tool's result or error, as text."""


Message = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


@cache
def _message() -> TypeAdapter[Message]:
    """Build the reader of messages when the first one is read: it takes a tenth of the import of the engineers."""
    return TypeAdapter(Message)


def parse_message(raw: Any, where: str) -> Message:
    """Read one message.

    Raises:
        UserError: one line that names the place, the value and the rule.
    """
    try:
        return _message().validate_python(raw)
    except ValidationError as error:
        raise UserError(f"{where}: {describe_validation(error)}") from None


class Usage(FrozenModel):
    """What a session, or one request of it, used."""

    requests: int = Field(default=0, ge=0)
    """Completions asked of the model."""
    tool_calls: int = Field(default=0, ge=0)
    """Tool calls carried out."""
    prompt_tokens: int = Field(default=0, ge=0)
    """Tokens read by the model, over all requests."""
    completion_tokens: int = Field(default=0, ge=0)
    """Tokens written by the model."""
    policy_completions: int = Field(default=0, ge=0)
    """Completions asked of the policy in training, to try configs on it; left out of files when there are none, and of transcripts."""

    @model_serializer(mode="wrap")
    def _without_zero(self, write: SerializerFunctionWrapHandler) -> dict[str, int]:
        data: dict[str, int] = write(self)
        if not self.policy_completions:
            del data["policy_completions"]
        return data

    @property
    def total_tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        """Add up, field by field."""
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})
