"""The JSON Schemas of the file formats, generated from the models, and validation against them.

Standard JSON Schema validators let NaN pass a range, so non-finite numbers are refused before.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from envwright.env.base import FrozenModel

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

__all__ = ["SCHEMA_NAMES", "json_schema", "schema_problems"]

SCHEMA_NAMES = ("config", "patch", "instance", "rollout")


def _model(name: str) -> type[FrozenModel]:
    from envwright.env.config import GeneratorConfig
    from envwright.env.instance import Instance
    from envwright.env.patch import Patch
    from envwright.env.rollout import Rollout

    models: dict[str, type[FrozenModel]] = {"config": GeneratorConfig, "patch": Patch, "instance": Instance, "rollout": Rollout}
    return models[name]


@cache
def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file format, one of `SCHEMA_NAMES`."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_model(name).model_json_schema()}


@cache
def _validator(name: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator  # slow to import, and only patches need it

    return Draft202012Validator(json_schema(name))


def schema_problems(name: str, raw: Any) -> list[tuple[str, str]]:
    """Return `(JSON pointer, message)` for everything in `raw` that breaks the schema, in document order."""
    problems = [(pointer, "must be a finite number") for pointer in _non_finite(raw, "")]
    if problems:
        return problems
    errors = sorted(_validator(name).iter_errors(raw), key=lambda error: [str(piece) for piece in error.absolute_path])
    return [_pointer_and_message(error) for error in errors]


def _pointer_and_message(error: ValidationError) -> tuple[str, str]:
    pointer = "".join("/" + str(piece).replace("~", "~0").replace("/", "~1") for piece in error.absolute_path)
    message = error.message if len(error.message) <= 200 else error.message[:197] + "..."
    return pointer, message


def _non_finite(value: Any, pointer: str) -> list[str]:
    if isinstance(value, float) and not math.isfinite(value):
        return [pointer]
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in _non_finite(item, f"{pointer}/{key}")]
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in _non_finite(item, f"{pointer}/{index}")]
    return []
