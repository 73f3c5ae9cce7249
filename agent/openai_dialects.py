"""The dialects of OpenAI-compatible servers: how each is asked for JSON that follows a schema, and for strict tool calls.

OpenAI and vLLM take `json_schema`; llama.cpp's server takes `json_object` with a schema; some ignore `response_format` in
silence; and some refuse `strict` tools. A client tries them in this order and keeps to what worked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envwright.env.jsonio import dump_json

__all__ = ["JSON_DIALECTS", "json_options", "json_request", "strict_tools"]

JSON_DIALECTS = ("json_schema", "json_object", "plain")
"""Ways to ask for a JSON document, the most reliable first."""
_NOT_STRICT = frozenset({"default", "minLength", "title"})
"""Keywords that strict mode does not know; the tools check them all the same."""


def json_options(dialect: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request's options that ask for a JSON document in a dialect."""
    if dialect == "json_schema":
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": True}}}
    if dialect == "json_object":
        return {"response_format": {"type": "json_object", "schema": dict(schema)}}
    return {}


def json_request(schema: Mapping[str, Any]) -> str:
    """Return the words that ask for the document where the server cannot be told."""
    return f"Answer with one JSON object and nothing else. It must follow this JSON Schema:\n{dump_json(dict(schema))}"


def strict_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return tool specs in strict mode: every argument is required, so that a server can hold the model to the schema."""
    return [
        {**tool, "function": {**tool["function"], "strict": True, "parameters": _strict(tool["function"]["parameters"])}} for tool in tools
    ]


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    result = {key: value if key in ("enum", "const") else _strict(value) for key, value in schema.items() if key not in _NOT_STRICT}
    if isinstance(schema.get("properties"), Mapping):
        result["properties"] = {name: _strict(value) for name, value in schema["properties"].items()}
        result |= {"required": list(schema["properties"]), "additionalProperties": False}
    return result
