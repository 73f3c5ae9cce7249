"""Writes docs/configuration.md from the settings' own models: every field with its type, default, bounds and docstring.

.venv/bin/python docs/configuration.py            # with --check it only says whether the page is up to date
"""

from __future__ import annotations

import inspect
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

from envwright.training.settings import RunSettings, list_presets

PAGE = Path(__file__).resolve().parent / "configuration.md"
INTRODUCTION = """# Configuration

A run is described by one JSON document: a preset's, or a file of your own. Unknown keys are refused, and a value out of bounds is
named with its bound before any work is done. `envwright run PRESET --dry-run` prints the document that a command comes to.

```sh
envwright run demo --set grpo.learning_rate=1e-4 --set seed=3    # keys are dotted, values are JSON or plain text
envwright run my-run.json
```

This page is made from the models by `python docs/configuration.py`. Fields of the trainer carry the names that TRL gives them.
"""
NAMES: dict[Any, str] = {int: "integer", float: "number", str: "text", bool: "true or false", type(None): "null", dict: "object"}


def page() -> str:
    """Return the page."""
    sections = _sections(RunSettings)
    parts = [INTRODUCTION, "## Presets\n\n| preset | what it is for |\n|---|---|"]
    parts[-1] += "".join(f"\n| `{name}` | {_cell(text)} |" for name, text in list_presets().items())
    parts += [_section(model, places, sections) for model, places in sections.items()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


Places = dict[type[BaseModel], list[str]]
"""Models of the settings, in order, each with the dotted places where it is found, the nearest first."""


def _sections(root: type[BaseModel]) -> Places:
    """Return every model that the settings hold."""
    found: Places = {root: [""]}

    def visit(model: type[BaseModel], prefix: str) -> None:
        for name, field in model.model_fields.items():
            for inner, suffix in _models(field.annotation):
                place = f"{prefix}{name}{suffix}"
                found.setdefault(inner, []).append(place)
                visit(inner, f"{place}.")

    visit(root, "")
    return {model: sorted(places, key=lambda place: (place.count("."), places.index(place))) for model, places in found.items()}


def _models(annotation: Any) -> list[tuple[type[BaseModel], str]]:
    """Return the models inside an annotation, each with what stands between the field's name and it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, "")]
    between = {dict: ".NAME", list: "[]", tuple: "[]"}.get(get_origin(annotation), "")
    return [(model, between + suffix) for part in get_args(annotation) for model, suffix in _models(part)]


def _section(model: type[BaseModel], places: list[str], sections: Places) -> str:
    """Return a model's heading, what it is, and its table."""
    first, *others = places
    text = " ".join((inspect.getdoc(model) or "").split())
    also = f" Also {' and '.join(f'`{place}`' for place in others)}." if others else ""
    lines = [f"## `{first}`" if first else "## The run", "", text + also, "", "| key | type | default | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        bounds = _bounds(field.metadata)
        kind = _named(field.annotation, sections) + (f", {bounds}" if bounds else "")
        lines.append(f"| `{name}` | {_cell(kind)} | {_cell(_default(field))} | {_cell(field.description or '')} |")
    return "\n".join(lines)


def _named(annotation: Any, sections: Places) -> str:
    """Return an annotation in words."""
    if annotation is JsonValue:
        return "any JSON"
    annotation = getattr(annotation, "__value__", annotation)  # a `type X = ...` alias
    if annotation in NAMES:
        return NAMES[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        bounds = _bounds(arguments[1:])
        return _named(arguments[0], sections) + (f", {bounds}" if bounds else "")
    if origin is Literal:
        return ", ".join(f"`{value}`" if isinstance(value, str) else json.dumps(value) for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_named(part, sections) for part in arguments)
    if origin in (list, tuple):
        return f"list of {_named(arguments[0], sections)}"
    if origin is dict:
        value = _named(arguments[1], sections)
        return "object" if value == "any JSON" else f"object of {value}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"[object](#{sections[annotation][0].lower().replace('.', '').replace('[]', '')})"
    return "any JSON"


def _bounds(metadata: Any) -> str:
    """Return the bounds that a field's constraints state."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "multiple_of": "a multiple of", "pattern": "as"}
    found = []
    for constraint in metadata:
        inner = getattr(constraint, "metadata", [constraint])  # a Field inside Annotated
        for piece in inner:
            found += [f"{word} {_plain(value)}" for key, word in words.items() if (value := getattr(piece, key, None)) is not None]
            if getattr(piece, "min_length", None):
                found.append("not empty")
    return ", ".join(found)


def _plain(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        return "its own defaults"
    return f"`{json.dumps(default)}`"


def _cell(text: str) -> str:
    """Return text that cannot break a table."""
    return " ".join(text.replace("|", "\\|").split())


def main() -> int:
    """Write the page, or check it."""
    wanted = page()
    if "--check" in sys.argv[1:]:
        current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == wanted
        if not current:
            print("docs/configuration.md is out of date; run `python docs/configuration.py`", file=sys.stderr)
        return int(not current)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
