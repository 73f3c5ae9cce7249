"""A chat model that plays fixed messages: the test double, and the base of replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envwright.agent.messages import AssistantMessage, FunctionCall, Message, ToolCall, ToolMessage
from envwright.agent.models import Completion, ModelError
from envwright.env.jsonio import dump_json

__all__ = ["ScriptedModel", "call_message"]


def call_message(*calls: tuple[str, dict[str, Any] | str], first_id: int = 1, content: str | None = None) -> AssistantMessage:
    """Return an assistant message that calls tools.

    Args:
        calls: `(tool name, arguments)`; arguments as data or as the text that a model would write.
        first_id: number of the first call; ids are "call_1", "call_2", ...
        content: text beside the calls.
    """
    made = []
    for offset, (name, arguments) in enumerate(calls):
        text = arguments if isinstance(arguments, str) else dump_json(arguments)
        made.append(ToolCall(id=f"call_{first_id + offset}", function=FunctionCall(name=name, arguments=text)))
    return AssistantMessage(content=content, tool_calls=tuple(made))


class ScriptedModel:
    """Plays its steps one after the other, whatever the conversation says.

    Args:
        steps: a message; or a text; or one `(tool name, arguments)` call.
        name: name for transcripts.
    """

    def __init__(self, steps: Sequence[AssistantMessage | str | tuple[str, dict[str, Any] | str]], name: str = "scripted") -> None:
        self._steps = tuple(steps)
        self._next = 0
        self._name = name
        self.seen: list[tuple[Message, ...]] = []
        """The conversation as it was at each request."""

    @property
    def name(self) -> str:
        """Name for transcripts."""
        return self._name

    @property
    def left(self) -> int:
        """Steps that were not played yet."""
        return len(self._steps) - self._next

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:  # noqa: ARG002  (a script needs none)
        """Play the next step.

        Raises:
            ModelError: every step was played.
        """
        if not self.left:
            raise ModelError(f"{self._name}: all {len(self._steps)} messages were played and the session has not ended")
        step = self._steps[self._next]
        self._next += 1
        self.seen.append(tuple(messages))
        if isinstance(step, tuple):
            step = call_message(step, first_id=1 + sum(isinstance(message, ToolMessage) for message in messages))
        return Completion(AssistantMessage(content=step) if isinstance(step, str) else step)

    def assert_consumed(self) -> None:
        """Check that every step was played.

        Raises:
            AssertionError: some were not; the message says how many.
        """
        if self.left:
            raise AssertionError(f"{self.left} of {len(self._steps)} scripted steps were not played")
