"""The frontier rule in a conversation: it plays its protocol when it is asked for a patch, and says so when it is asked anything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from envwright.agent.chat import REJECTION
from envwright.agent.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from envwright.agent.models import Completion
from envwright.agent.rule import RuleModel

__all__ = ["ChattingRule"]

ANSWER = (
    "I am the frontier rule, not a language model: I cannot discuss evidence or take up a reason. Say `propose`, and I count failures "
    "per size, try a change, and propose a patch; on the same evidence it is always the same one. To look at the evidence yourself, "
    "see /tools; to talk about it, start with --engineer openai:MODEL."
)
_REQUEST = re.compile(r"\b(propose|redesign)\b", re.IGNORECASE)


class ChattingRule:
    """A chat model that proposes when the person's last words ask for it."""

    def __init__(self) -> None:
        self._rule = RuleModel()

    @property
    def name(self) -> str:
        """Name for transcripts."""
        return self._rule.name

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """Return the rule's next step for the last request, or what it can do.

        Raises:
            ModelError: as `RuleModel.complete`.
        """
        asked = max(index for index, message in enumerate(messages) if isinstance(message, UserMessage))
        opening = [message for message in messages[:2] if isinstance(message, SystemMessage | UserMessage)]
        text = str(messages[asked].content)
        if asked < len(opening) or text.startswith(REJECTION) or not _REQUEST.search(text):
            return Completion(AssistantMessage(content=ANSWER))
        completion = self._rule.complete((*opening, *messages[asked + 1 :]), tools)
        return Completion(_renumbered(completion.message, sum(isinstance(message, ToolMessage) for message in messages)))


def _renumbered(message: AssistantMessage, before: int) -> AssistantMessage:
    """Give calls ids that are new in the whole conversation."""
    calls = tuple(call.model_copy(update={"id": f"call_{before + offset}"}) for offset, call in enumerate(message.tool_calls, start=1))
    return message.model_copy(update={"tool_calls": calls})
