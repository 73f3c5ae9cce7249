"""The tools by name: their specs for function calling, and a session's calls.

A `Toolbox` belongs to one session over one evidence: it numbers results so that edits can cite them, and remembers the
accepted patch. What a model can mend comes back as an error in the result; any other exception is a bug and propagates.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from envwright.env.base import FrozenModel
from envwright.env.patch import PatchCheck
from envwright.tools import env_stats, failure_breakdown, propose_patch, sample_maps, simulate_config
from envwright.tools.arguments import closest, decode_strings, inline_references, read_object, validate
from envwright.tools.errors import ToolError, ToolErrorCode
from envwright.tools.evidence import Evidence
from envwright.tools.results import ToolFailure, ToolResult

__all__ = ["TOOLS", "Tool", "ToolResult", "Toolbox", "tool_specs"]

ArgumentsT = TypeVar("ArgumentsT", bound=FrozenModel)

Call = Callable[[dict[str, Any], Evidence, tuple[str, ...]], FrozenModel]
"""Takes plain arguments, the evidence and the ids of the results so far."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its models and the function behind it."""

    name: str
    """Name that a model calls it by."""
    arguments: type[FrozenModel]
    """Model of the arguments."""
    output: type[FrozenModel]
    """Model of the answer."""
    call: Call
    """Validates plain arguments and runs the tool."""
    judges_values: bool = False
    """True when the tool itself reads numbers given as strings, and says so in its answer."""

    @property
    def description(self) -> str:
        """What the tool does, in a sentence."""
        return inspect.getdoc(self.arguments) or ""

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments, references inlined."""
        return {key: value for key, value in _schema(self.arguments).items() if key != "description"}

    @property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the answer, references inlined."""
        return dict(_schema(self.output))


@cache
def _schema(model: type[FrozenModel]) -> dict[str, Any]:
    return inline_references(model.model_json_schema())


def _tool(name: str, arguments: type[ArgumentsT], output: type[FrozenModel], run: Callable[[ArgumentsT, Evidence], FrozenModel]) -> Tool:
    def call(raw: dict[str, Any], evidence: Evidence, _known_ids: tuple[str, ...]) -> FrozenModel:
        return run(validate(arguments, raw), evidence)

    return Tool(name, arguments, output, call)


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        _tool("failure_breakdown", failure_breakdown.FailureBreakdownArguments, failure_breakdown.FailureBreakdown, failure_breakdown.run),
        _tool("env_stats", env_stats.EnvStatsArguments, env_stats.EnvStats, env_stats.run),
        _tool("sample_maps", sample_maps.SampleMapsArguments, sample_maps.SampleMaps, sample_maps.run),
        _tool("simulate_config", simulate_config.SimulateConfigArguments, simulate_config.SimulateConfig, simulate_config.run),
        Tool("propose_patch", propose_patch.ProposePatchArguments, PatchCheck, propose_patch.judge, judges_values=True),
    )
}
"""Every tool, in the order in which they are told to a model."""


def tool_specs() -> list[dict[str, Any]]:
    """Return the tools in OpenAI's function-calling shape."""
    return [
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
        for tool in TOOLS.values()
    ]


class Toolbox:
    """The tools over one evidence, for one session.

    Args:
        evidence: what the tools read.
    """

    def __init__(self, evidence: Evidence) -> None:
        """Start a session: no result yet, nothing accepted."""
        self.evidence = evidence
        self._counts: Counter[str] = Counter()
        self._ids: list[str] = []
        self._accepted: PatchCheck | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools."""
        return tuple(TOOLS)

    @property
    def accepted(self) -> PatchCheck | None:
        """The last proposal that was accepted."""
        return self._accepted

    def specs(self) -> list[dict[str, Any]]:
        """Return the tools in OpenAI's function-calling shape."""
        return tool_specs()

    def call(self, name: str, arguments: str | dict[str, Any]) -> ToolResult:
        """Call a tool with arguments as plain data or as the JSON text that a model wrote."""
        coerced: tuple[str, ...] = ()
        try:
            tool = self._find(name)
            raw, coerced = decode_strings(read_object(arguments), tool.parameters, scalars=not tool.judges_values)
            output = tool.call(raw, self.evidence, tuple(self._ids))
        except ToolError as error:
            return ToolResult(id=None, name=name, error=ToolFailure(code=error.code, message=error.message), coerced=coerced)
        if isinstance(output, PatchCheck) and output.accepted:
            self._accepted = output
        self._counts[name] += 1
        result = ToolResult(id=f"{name}#{self._counts[name]}", name=name, content=output.to_json(), coerced=coerced)
        self._ids.append(f"{name}#{self._counts[name]}")
        return result

    def _find(self, name: str) -> Tool:
        if name in TOOLS:
            return TOOLS[name]
        message = f"there is no tool {name!r}{closest(name, list(TOOLS))}; the tools are {', '.join(TOOLS)}"
        raise ToolError(ToolErrorCode.UNKNOWN_TOOL, message)
