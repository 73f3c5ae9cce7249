"""Tool calls written as text: hermes `<tool_call>` blocks, JSON in fences, or a bare JSON object.

Servers without a tool parser hand back what the model wrote. The text is scanned once from the left; JSON values are cut
out by a scanner that knows strings and are read by `envwright.env.jsonio`, so a tag or a brace inside a string never
counts. What stands inside `<think>` is not a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envwright.agent.messages import FunctionCall
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, parse_json

__all__ = ["TextCalls", "read_text_calls"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_THINK, _END_THINK = "<think>", "</think>"
_FENCE = "```"
_ARGUMENT_KEYS = ("arguments", "parameters")


@dataclass(frozen=True, slots=True)
class TextCalls:
    """What was read from a text."""

    calls: tuple[FunctionCall, ...]
    """The calls, in order; empty when any of them could not be read."""
    rest: str | None
    """The text around the calls, thinking left out; None when nothing is left."""
    problem: str | None = None
    """Why something that looks like a call could not be read."""


class _UnreadableError(Exception):
    """A block that was opened as a call and holds none."""


def read_text_calls(text: str) -> TextCalls:
    """Read every tool call in a model's text; all or none, so a half-read message never acts."""
    text = _after_prefilled_thinking(text)
    calls: list[FunctionCall] = []
    rest: list[str] = []
    position = 0
    try:
        while position < len(text):
            mark, start = _next_mark(text, position)
            rest.append(text[position:start])
            if mark is None:
                break
            if mark == _THINK:
                end = text.find(_END_THINK, start)
                position = len(text) if end < 0 else end + len(_END_THINK)
                continue
            found, end = _block(text, start + len(_OPEN)) if mark == _OPEN else _fence(text, start + len(_FENCE))
            calls += found
            if not found:
                rest.append(text[start:end])
            position = end
    except _UnreadableError as error:
        return TextCalls((), text.strip() or None, str(error))
    remainder = "".join(rest).strip()
    bare = _bare_call(remainder) if not calls else []
    return TextCalls(tuple(calls or bare), None if bare else remainder or None)


def _after_prefilled_thinking(text: str) -> str:
    """Drop thinking whose opening tag stood in the prompt: a `</think>` before any other tag."""
    end = text.find(_END_THINK)
    opened = [place for place in (text.find(_THINK), text.find(_OPEN)) if place >= 0]
    return text[end + len(_END_THINK) :] if 0 <= end < min(opened, default=len(text)) else text


def _next_mark(text: str, position: int) -> tuple[str | None, int]:
    places = [(place, mark) for mark in (_OPEN, _THINK, _FENCE) if (place := text.find(mark, position)) >= 0]
    place, mark = min(places, default=(len(text), ""))
    return mark or None, place


def _block(text: str, position: int) -> tuple[list[FunctionCall], int]:
    """Read the JSON values of one `<tool_call>` block; several in a block are several calls."""
    calls: list[FunctionCall] = []
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if text.startswith(_CLOSE, position) or (position == len(text) and calls):
            if not calls:
                raise _UnreadableError("a <tool_call> block is empty")
            return calls, min(len(text), position + len(_CLOSE))
        value, position = _value_at(text, position)
        for entry in value if isinstance(value, list) else [value]:
            call = _as_call(entry, needs_arguments=False)
            if call is None:
                raise _UnreadableError('a <tool_call> block must hold {"name": TOOL, "arguments": {...}}')
            calls.append(call)


def _value_at(text: str, position: int) -> tuple[Any, int]:
    """Read the JSON object or array that begins at `position`."""
    end = _value_end(text, position)
    if end is None:
        raise _UnreadableError("the JSON in a <tool_call> block is not whole")
    try:
        return parse_json(text[position:end], "tool call"), end
    except UserError as error:
        raise _UnreadableError(str(error)) from None


def _fence(text: str, position: int) -> tuple[list[FunctionCall], int]:
    """Read the calls of a fenced block; a block that holds anything else is ordinary text."""
    newline = text.find("\n", position)
    begin = position if newline < 0 or text[position:newline].strip().startswith(("{", "[")) else newline + 1
    end_fence = text.find(_FENCE, begin)
    after = len(text) if end_fence < 0 else end_fence + len(_FENCE)
    calls: list[FunctionCall] = []
    while True:
        while begin < len(text) and text[begin].isspace():
            begin += 1
        end = _value_end(text, begin)
        if end is None:
            return calls, max(begin, after) if calls else after
        found = _bare_call(text[begin:end])
        if not found:
            return calls, after
        calls += found
        begin = end
        close = text.find(_FENCE, begin)
        after = len(text) if close < 0 else close + len(_FENCE)


def _bare_call(text: str) -> list[FunctionCall]:
    """Read a text that is wholly one call, or a list of calls; anything else gives none."""
    if not text or text[0] not in "{[":
        return []
    try:
        value = parse_json(text)
    except UserError:
        return []
    calls = [_as_call(entry, needs_arguments=True) for entry in (value if isinstance(value, list) else [value])]
    return [call for call in calls if call is not None] if all(calls) else []


def _as_call(value: Any, *, needs_arguments: bool) -> FunctionCall | None:
    """Read `{"name": ..., "arguments": ...}`, or the same inside {"function": ...}; arguments are data or JSON text."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    given = [value[key] for key in _ARGUMENT_KEYS if key in value]
    if not given:
        return None if needs_arguments else FunctionCall(name=value["name"], arguments="{}")
    return FunctionCall(name=value["name"], arguments=given[0] if isinstance(given[0], str) else dump_json(given[0]))


def _value_end(text: str, start: int) -> int | None:
    """Return where the JSON object or array at `start` ends; None when there is none or it never closes."""
    if start >= len(text) or text[start] not in "{[":
        return None
    depth, quoted, escaped = 0, False, False
    for index in range(start, len(text)):
        char = text[index]
        if quoted:
            escaped, quoted = (not escaped and char == "\\"), not (char == '"' and not escaped)
        elif char == '"':
            quoted = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
            if depth == 0:
                return index + 1
    return None
