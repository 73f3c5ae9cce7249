"""Tool calls written as text: hermes `<tool_call>` blocks, JSON in fences, or a bare JSON object.

Servers without a tool parser hand back what the model wrote. The text is scanned once from the left; JSON values are cut
out by a scanner that knows strings and are read by `envwright.env.jsonio`, so a tag or a brace inside a string never
counts. What stands inside `<think>` is not a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from envwright.agent.messages import FunctionCall
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, json_values, parse_json

__all__ = ["TextCalls", "read_text_calls"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_THINK, _END_THINK = "<think>", "</think>"
_FENCE = "```"
_ARGUMENT_KEYS = ("arguments", "parameters")
_HEAD = 200
"""Characters in which a call has shown its name and that it has arguments."""


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
            found, end = _bare_value(text, position)
            if found:
                calls, position = calls + found, end
                continue
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
        remainder = "".join(rest).strip()
        if not calls:
            _refuse_mentioned(remainder)
    except _UnreadableError as error:
        return TextCalls((), text.strip() or None, str(error))
    return TextCalls(tuple(calls), remainder or None)


def _after_prefilled_thinking(text: str) -> str:
    """Drop thinking whose opening tag stood in the prompt: a `</think>` before any other tag."""
    end = text.find(_END_THINK)
    opened = [place for place in (text.find(_THINK), text.find(_OPEN)) if place >= 0]
    return text[end + len(_END_THINK) :] if 0 <= end < min(opened, default=len(text)) else text


def _next_mark(text: str, position: int) -> tuple[str | None, int]:
    places = [(place, mark) for mark in (_OPEN, _THINK, _FENCE) if (place := text.find(mark, position)) >= 0]
    place, mark = min(places, default=(len(text), ""))
    return mark or None, place


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _after_fence_mark(text: str, position: int) -> int:
    """Return where the content of a fence begins whose mark ends at `position`: after its language, which may be missing."""
    newline = text.find("\n", position)
    line = text[position : len(text) if newline < 0 else newline].strip()
    return position if newline < 0 or line.startswith(("{", "[", "<")) else newline + 1


def _block(text: str, position: int) -> tuple[list[FunctionCall], int]:
    """Read the JSON values of one `<tool_call>` block, fenced or not; several in a block are several calls."""
    position = _skip_space(text, position)
    fenced = text.startswith(_FENCE, position)
    if fenced:
        position = _after_fence_mark(text, position + len(_FENCE))
    calls: list[FunctionCall] = []
    while True:
        position = _skip_space(text, position)
        if fenced and calls and text.startswith(_FENCE, position):
            fenced, position = False, position + len(_FENCE)
            continue
        if text.startswith(_CLOSE, position) or (position == len(text) and calls):
            if not calls:
                raise _UnreadableError("a <tool_call> block is empty")
            return calls, min(len(text), position + len(_CLOSE))
        if calls and text.startswith(_OPEN, position):  # the model left out the closing tag
            position += len(_OPEN)
            continue
        if calls and text[position] not in "{[":
            raise _UnreadableError(f"{text[position : position + 20]!r} follows the JSON in a <tool_call> block; write nothing after it")
        found, position = _calls_at(text, position)
        calls += found


def _calls_at(text: str, position: int) -> tuple[list[FunctionCall], int]:
    """Read the call, or the list of calls, that begins at `position` of a `<tool_call>` block."""
    value, end = _value_at(text, position)
    calls = [_as_call(entry, needs_arguments=False) for entry in (value if isinstance(value, list) else [value])]
    whole = [call for call in calls if call is not None]
    if not whole or len(whole) < len(calls):
        raise _UnreadableError('a <tool_call> block must hold {"name": TOOL, "arguments": {...}}')
    return whole, end


def _value_at(text: str, position: int) -> tuple[Any, int]:
    """Read the JSON object or array that begins at `position`."""
    end = _value_end(text, position)
    if end is None:
        raise _UnreadableError("the JSON in a <tool_call> block is not whole")
    return _parsed(text[position:end]), end


def _parsed(text: str) -> Any:
    try:
        return parse_json(text, "tool call")
    except UserError as error:
        raise _UnreadableError(str(error)) from None


def _fence(text: str, position: int) -> tuple[list[FunctionCall], int]:
    """Read the calls of a fenced block, tagged or not; a block that holds anything else is ordinary text."""
    begin = _skip_space(text, _after_fence_mark(text, position))
    calls: list[FunctionCall] = []
    while True:
        begin = _skip_space(text, begin)
        if text.startswith(_OPEN, begin):
            found, begin = _block(text, begin + len(_OPEN))
        else:
            end = _value_end(text, begin)
            if end is None:
                break
            found, begin = _one_value(text[begin:end]), end
            if not found:
                break
        calls += found
    if not calls and _begins_call(text[begin:]):
        raise _UnreadableError("the JSON of a call in a fence is not whole")
    close = text.find(_FENCE, begin)
    return calls, len(text) if close < 0 else close + len(_FENCE)


def _bare_value(text: str, position: int) -> tuple[list[FunctionCall], int]:
    """Read the call without any mark that begins at `position`, and where it ends."""
    position = _skip_space(text, position)
    end = _value_end(text, position)
    return ([], position) if end is None else (_one_value(text[position:end]), end)


def _refuse_mentioned(text: str) -> None:
    """Refuse a call that is not whole, or that stands in the middle of prose, where it may be meant or only mentioned."""
    if _begins_call(text):
        raise _UnreadableError(f"the JSON of a call is not whole; write {_OPEN}{{...}}{_CLOSE}")
    if any(_one_value_quietly(value) for value in _later_values(text)):
        raise _UnreadableError(f"a call stands in the middle of a sentence; write {_OPEN}{{...}}{_CLOSE}, or do not mention it")


def _later_values(text: str) -> Iterator[Any]:
    """Yield the JSON values in prose; what strict reading refuses ends them, since prose is no call."""
    try:
        yield from json_values(text)
    except UserError:
        return


def _one_value(text: str) -> list[FunctionCall]:
    """Read a JSON value that is a call, or a list of calls; any other value, or one that is no JSON, gives none.

    Raises:
        _UnreadableError: it is a call with a fault that strict reading refuses, such as a repeated key.
    """
    try:
        value = parse_json(text)
    except UserError as error:
        if _begins_call(text) and "not valid JSON" not in str(error):
            raise _UnreadableError(f"tool call: {error}") from None
        return []
    return _one_value_quietly(value)


def _one_value_quietly(value: Any) -> list[FunctionCall]:
    calls = [_as_call(entry, needs_arguments=True) for entry in (value if isinstance(value, list) else [value])]
    return [call for call in calls if call is not None] if all(calls) else []


def _begins_call(text: str) -> bool:
    """True when a text is meant as a call: an object that begins with a name and has arguments."""
    head = text[:_HEAD].replace(" ", "").replace("\n", "").lstrip("[")
    return head.startswith('{"name":"') and any(f'"{key}":' in head for key in _ARGUMENT_KEYS)


def _as_call(value: Any, *, needs_arguments: bool) -> FunctionCall | None:
    """Read `{"name": ..., "arguments": ...}`, or the same inside {"function": ...}; arguments are data or JSON text."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    given = [value[key] for key in _ARGUMENT_KEYS if key in value]
    if not given:
        return None if needs_arguments else FunctionCall(name=value["name"], arguments="{}")
    try:
        return FunctionCall(name=value["name"], arguments=given[0] if isinstance(given[0], str) else dump_json(given[0]))
    except RecursionError:
        raise _UnreadableError("the arguments are nested too deeply") from None


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
