"""Reading a model's arguments: strict JSON, undoing one level of double encoding and saying so, never guessing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import ValidationError

from envwright.env.base import FrozenModel
from envwright.env.errors import UserError, describe_validation
from envwright.env.jsonio import parse_json
from envwright.tools.errors import ToolError, ToolErrorCode

__all__ = ["closest", "decode_strings", "inline_references", "read_object", "validate"]

ModelT = TypeVar("ModelT", bound=FrozenModel)

_MAX_DEPTH = 20
_INTEGER = re.compile(r"[+-]?\d{1,40}")
_DECIMAL = re.compile(r"[+-]?(\d{1,40}\.\d{0,40}|\.\d{1,40})")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


def read_object(arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as an object; a JSON string that holds an object is decoded once more.

    Raises:
        ToolError: `bad_json` for anything that is no strict JSON object: repeated keys, NaN, nesting beyond 20 levels,
            text that UTF-8 cannot hold.
    """
    value: Any = arguments
    if isinstance(arguments, str):
        value = _parse(arguments)
        if isinstance(value, str):
            value = _parse(value)
    if not isinstance(value, Mapping):
        raise ToolError(ToolErrorCode.BAD_JSON, f"the arguments must be a JSON object, got {_kind(value)}; for no arguments give {{}}")
    _refuse_unwritable(value)
    return dict(value)


def _parse(text: str) -> Any:
    try:
        return parse_json(text, "the arguments")
    except UserError as error:
        raise ToolError(ToolErrorCode.BAD_JSON, f"{error}; give one JSON object") from None


def _kind(value: Any) -> str:
    names: dict[type, str] = {list: "an array", tuple: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _refuse_unwritable(value: Any) -> None:
    """Refuse what would break later: deep nesting (recursion) and lone surrogates (no UTF-8)."""
    layer: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        below: list[Any] = []
        for item in layer:
            if isinstance(item, str) and not _is_utf8(item):
                raise ToolError(ToolErrorCode.BAD_JSON, "the arguments hold half a surrogate pair, which is no text")
            if isinstance(item, Mapping):
                below += [*item.keys(), *item.values()]
            elif isinstance(item, list | tuple):
                below += item
        layer = below
        if not layer:
            return
    raise ToolError(ToolErrorCode.BAD_JSON, f"the arguments are nested deeper than {_MAX_DEPTH} levels")


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def decode_strings(value: Any, schema: Mapping[str, Any], *, scalars: bool = True, path: str = "") -> tuple[Any, tuple[str, ...]]:
    """Decode, once, every string that stands where the schema takes no string.

    Args:
        value: plain JSON data.
        schema: its JSON Schema, references inlined.
        scalars: whether plain decimal numbers, `true`, `false` and `null` are read too, not only lists and objects.
        path: where the value stands, for the notes.

    Returns:
        The value, and a sentence for each string that was decoded. A string that is no JSON stays, for validation to refuse.
    """
    types = _types(schema)
    notes: tuple[str, ...] = ()
    if isinstance(value, str) and types and "string" not in types:
        decoded = _decoded(value, types, scalars)
        if decoded is None:
            return value, ()
        value, what = decoded
        notes = (f"{path or 'the arguments'}: the string was read as the {what} that it holds",)
    if isinstance(value, Mapping):
        properties = _part(schema, "properties")
        items = {key: decode_strings(item, properties.get(key, {}), scalars=scalars, path=_join(path, key)) for key, item in value.items()}
        return {key: item for key, (item, _) in items.items()}, notes + tuple(note for _, more in items.values() for note in more)
    if isinstance(value, list):
        entries = [
            decode_strings(item, _part(schema, "items"), scalars=scalars, path=_join(path, str(at))) for at, item in enumerate(value)
        ]
        return [item for item, _ in entries], notes + tuple(note for _, more in entries for note in more)
    return value, notes


def _join(path: str, piece: str) -> str:
    return f"{path}/{piece}" if path else piece


def _part(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return `properties` or `items`, looking through a choice with null."""
    for option in (schema, *schema.get("anyOf", ())):
        if isinstance(option.get(key), Mapping):
            found: Mapping[str, Any] = option[key]
            return found
    return {}


def _types(schema: Mapping[str, Any]) -> set[str]:
    return {option["type"] for option in (schema, *schema.get("anyOf", ())) if isinstance(option.get("type"), str)}


def _decoded(text: str, types: set[str], scalars: bool) -> tuple[Any, str] | None:
    """Return what a string holds and its name, or None when it holds nothing that the schema asks for."""
    stripped = text.strip()
    if scalars and stripped in _WORDS and ("null" if stripped == "null" else "boolean") in types:
        return _WORDS[stripped], f"value {stripped}"
    if scalars and types & {"integer", "number"}:
        if _INTEGER.fullmatch(stripped):
            return int(stripped), f"number {int(stripped)}"
        if _DECIMAL.fullmatch(stripped):
            return float(stripped), f"number {float(stripped)}"
    if not types & {"array", "object"}:
        return None
    try:
        value = parse_json(text)
    except UserError:
        return None
    if isinstance(value, list) and "array" in types:
        return value, "list"
    if isinstance(value, dict) and "object" in types:
        return value, "object"
    return None


def validate(model: type[ModelT], raw: Mapping[str, Any]) -> ModelT:
    """Return the validated arguments.

    Raises:
        ToolError: `validation_failed`, with the argument, the value and the rule; an unknown argument is told the known ones.
    """
    known = list(model.model_fields)
    for key in raw:
        if key not in known:
            message = f"unknown argument {key!r}{closest(str(key), known)}; known arguments: {', '.join(known)}"
            raise ToolError(ToolErrorCode.VALIDATION_FAILED, message)
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        words = describe_validation(error).replace("Input should be a valid tuple", "Input should be a list")
        raise ToolError(ToolErrorCode.VALIDATION_FAILED, words) from None


def closest(name: str, known: list[str]) -> str:
    """Return " (did you mean 'x'?)" when a known name is close, else nothing."""
    found = get_close_matches(name, known, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def inline_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema without `$ref`, `$defs` and generated titles, as every function-calling server can read it.

    Raises:
        ValueError: a definition refers to itself.
    """
    inlined: dict[str, Any] = _inlined(schema, schema.get("$defs", {}), ())
    return inlined


def _inlined(node: Any, definitions: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions, within) for item in node]
    if not isinstance(node, Mapping):
        return node
    if isinstance(reference := node.get("$ref"), str):
        name = reference.rpartition("/")[2]
        if name in within:
            raise ValueError(f"the schema of {name} refers to itself and cannot be inlined")
        target = {**definitions[name], **{key: value for key, value in node.items() if key != "$ref"}}
        return _inlined(target, definitions, (*within, name))
    generated = {"title"} if isinstance(node.get("title"), str) else set()
    return {key: _inlined(value, definitions, within) for key, value in node.items() if key not in {"$defs", *generated}}
