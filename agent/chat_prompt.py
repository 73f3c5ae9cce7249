"""From a conversation to the text that a model in process continues: its own chat template, with the tools in hermes format.

A template that knows hermes tool calls is used as it is. Any other (SmolLM2's ignores `tools` in silence) gets the tools in
the system prompt, calls as `<tool_call>` text and results as `<tool_response>` text, between the template's own turn marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envwright.agent.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage
from envwright.agent.models import ModelError
from envwright.env.errors import UserError
from envwright.env.jsonio import parse_json

__all__ = ["ChatPrompt", "hermes_messages"]

_PROBE_TOOL = {"type": "function", "function": {"name": "probe_tool", "description": "Probe.", "parameters": {"type": "object"}}}
_TOOLS_INTRO = (
    "# Tools\n\nYou may call one of these functions, whose signatures stand within <tools></tools>:\n<tools>\n{tools}\n</tools>\n\n"
    "To call one, answer with a JSON object that holds its name and its arguments, within <tool_call></tool_call>:\n"
    '<tool_call>\n{{"name": <function name>, "arguments": <arguments as a JSON object>}}\n</tool_call>'
)


class ChatPrompt:
    """Renders conversations for one tokenizer.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        name: the model, for messages.

    Raises:
        ModelError: the tokenizer has no chat template.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        if not tokenizer.chat_template:
            raise ModelError(
                f"{name} has no chat template, so it is no chat model; take the instruct version of the model, or put a chat_template.jinja beside its tokenizer"
            )
        self._tokenizer, self._name = tokenizer, name
        self.native_tools = self._knows_hermes()
        """Whether the template itself writes tools and calls in hermes format."""

    def pieces(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[str]:
        """Return the whole prompt, cut after the leading system message where the template allows: that part is shared by sessions."""
        whole = self.text(messages, tools)
        if len(messages) > 1 and isinstance(messages[0], SystemMessage):
            head = self._common_head(messages, tools, whole)
            if head:
                return [whole[:head], whole[head:]]
        return [whole]

    def text(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], *, open_turn: bool = True) -> str:
        """Return the text of a conversation; `open_turn` ends it where the assistant begins.

        Raises:
            ModelError: the template refuses the conversation.
        """
        if self.native_tools:
            return self._applied([_template_message(message) for message in messages], tools, open_turn)
        return self._applied(hermes_messages(messages, tools), (), open_turn)

    def after_reply(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], known: int, end_mark: str) -> str | None:
        """Return what follows the `known` first messages, the last of which is a reply; None when the template rewrites history.

        The text begins after the reply's end mark, which the model has written itself.
        """
        before, whole = self.text(messages[:known], tools, open_turn=False), self.text(messages, tools)
        if not end_mark or not whole.startswith(before):
            return None
        mark = before.rfind(end_mark)
        return None if mark < 0 else before[mark + len(end_mark) :] + whole[len(before) :]

    def _common_head(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], whole: str) -> int:
        """Length of the text of the system message and the tools, or 0 when the template does not put them first."""
        try:
            head = self.text(messages[:1], tools, open_turn=False)
        except ModelError:
            return 0
        return len(head) if whole.startswith(head) else 0

    def _knows_hermes(self) -> bool:
        """True when tools change the prompt and their calls are asked for in hermes tags."""
        user = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        try:
            with_tools = self._applied(user, [_PROBE_TOOL], True)
        except ModelError:
            return False
        return "probe_tool" in with_tools and "<tool_call>" in with_tools

    def _applied(self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], open_turn: bool) -> str:
        from jinja2.exceptions import TemplateError

        def apply(conversation: Sequence[dict[str, Any]]) -> str:
            text: str = self._tokenizer.apply_chat_template(
                list(conversation), tools=list(tools) or None, tokenize=False, add_generation_prompt=open_turn, enable_thinking=False
            )
            return text

        try:
            return apply(messages)
        except TemplateError as error:
            if messages and messages[0]["role"] == "system" and len(messages) > 1 and messages[1]["role"] == "user":
                merged = {"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
                try:
                    return apply([merged, *messages[2:]])
                except TemplateError:
                    pass
            raise ModelError(f"the chat template of {self._name} refuses the conversation: {' '.join(str(error).split())[:200]}") from None


def hermes_messages(messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a conversation of system, user and assistant texts only, tools and calls written out in hermes format."""
    result: list[dict[str, Any]] = []
    offered = _TOOLS_INTRO.format(tools="\n".join(_template_json(tool) for tool in tools)) if tools else ""
    if offered and not (messages and isinstance(messages[0], SystemMessage)):
        result.append({"role": "system", "content": offered})
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            text = f"<tool_response>\n{message.content}\n</tool_response>"
            if index and isinstance(messages[index - 1], ToolMessage):
                result[-1]["content"] += f"\n{text}"
            else:
                result.append({"role": "user", "content": text})
        elif isinstance(message, AssistantMessage):
            parts = [message.content] if message.content else []
            result.append({"role": "assistant", "content": "\n".join([*parts, *map(_call_text, message.tool_calls)])})
        else:
            more = f"\n\n{offered}" if offered and index == 0 and isinstance(message, SystemMessage) else ""
            result.append({"role": message.role, "content": message.content + more})
    return result


def _call_text(call: ToolCall) -> str:
    name, arguments = _template_json(call.function.name), _template_json(_decoded(call))
    return f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>'


def _template_message(message: Message) -> dict[str, Any]:
    """Return a message as templates read it: arguments as data, at one level of encoding."""
    data = message.to_json()
    if isinstance(message, AssistantMessage):
        data["content"] = message.content or ""
        for entry, call in zip(data.get("tool_calls", ()), message.tool_calls, strict=True):
            entry["function"]["arguments"] = _decoded(call)
    return data


def _decoded(call: ToolCall) -> Any:
    """Return a call's arguments as data; text that is no JSON stays text."""
    try:
        return parse_json(call.function.arguments)
    except UserError:
        return call.function.arguments


def _template_json(value: Any) -> str:
    """Write JSON as `tojson` does in chat templates."""
    import json

    return json.dumps(value, ensure_ascii=False)
