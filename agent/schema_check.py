"""Checks that a model's answer is one JSON object that follows a schema, and says in one line what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envwright.env.chat import strip_thinking
from envwright.env.errors import UserError
from envwright.env.jsonio import json_values

__all__ = ["NO_JSON", "json_problem"]

NO_JSON = "the answer is no JSON object"
"""How the problem begins when there is no object at all, rather than one that breaks the schema."""


def json_problem(text: str, schema: Mapping[str, Any]) -> str | None:
    """Return why the first whole JSON object of a text does not follow the schema; None when it does."""
    from jsonschema import Draft202012Validator

    try:
        value = next((found for found in json_values(strip_thinking(text) or "") if isinstance(found, dict)), None)
    except UserError as error:
        return f"the answer's JSON is refused: {error}"
    if value is None:
        return NO_JSON
    errors = sorted(Draft202012Validator(dict(schema)).iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    if not errors:
        return None
    place = "/".join(map(str, errors[0].absolute_path)) or "the answer"
    more = f"; and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{place}: {' '.join(errors[0].message.split())[:200]}{more}"
