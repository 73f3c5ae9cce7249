"""The tools by name: their specs for function calling, and a session's calls.

A `Toolbox` belongs to one session over one evidence: it numbers results so that edits can cite them, has a well-formed
patch reviewed, and remembers the accepted one. What a model can mend comes back as an error in the result; any other
exception is a bug and propagates.
"""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from envwright.env.base import FrozenModel
from envwright.env.config import GeneratorConfig
from envwright.env.patch import PatchCheck
from envwright.tools import env_stats, failure_breakdown, propose_patch, sample_maps, simulate_config
from envwright.tools.arguments import closest, decode_strings, inline_references, read_object, validate
from envwright.tools.deadline import time_bound
from envwright.tools.errors import ToolError, ToolErrorCode
from envwright.tools.evidence import Evidence
from envwright.tools.results import ToolFailure, ToolResult

__all__ = ["TOOLS", "Review", "Tool", "ToolResult", "Toolbox", "of_these_sizes", "tool_specs", "typed_tool"]

ArgumentsT = TypeVar("ArgumentsT", bound=FrozenModel)

Call = Callable[[dict[str, Any], Evidence, tuple[str, ...] | None], FrozenModel]
"""Takes plain arguments, the evidence and the ids of the results so far (None: citations are not checked)."""

Review = Callable[[PatchCheck, Evidence], PatchCheck]
"""Judges a patch that `propose_patch` accepted: guard rails, approval. What it refuses was never accepted."""

_NAME_SHOWN = 80
"""Characters of an unknown tool's name that an error repeats."""


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
    example: str
    """Arguments of a call that fits the schema: the last hint to a model whose calls keep failing."""
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


def typed_tool(
    name: str, arguments: type[ArgumentsT], output: type[FrozenModel], run: Callable[[ArgumentsT, Evidence], FrozenModel], example: str
) -> Tool:
    """Return a tool whose arguments are validated before it runs.

    Args:
        name: name that a model calls it by.
        arguments: model of the arguments; its docstring is the tool's description.
        output: model of the answer.
        run: the tool.
        example: arguments as JSON text, shown to a model that cannot write any.
    """

    def call(raw: dict[str, Any], evidence: Evidence, _known_ids: tuple[str, ...] | None) -> FrozenModel:
        return run(validate(arguments, raw), evidence)

    return Tool(name, arguments, output, call, example)


_EDIT = '{"op":"replace","path":"/sizes/<size>/wait_ratio","value":0.3'
_PATCH = '{"summary":"<what the patch is for>","edits":[' + _EDIT + ',"reason":"<counts>","evidence":["failure_breakdown#1"]}]}'

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        typed_tool(
            "failure_breakdown",
            failure_breakdown.FailureBreakdownArguments,
            failure_breakdown.FailureBreakdown,
            failure_breakdown.run,
            '{"by":["size","wait_required"]}',
        ),
        typed_tool("env_stats", env_stats.EnvStatsArguments, env_stats.EnvStats, env_stats.run, "{}"),
        typed_tool("sample_maps", sample_maps.SampleMapsArguments, sample_maps.SampleMaps, sample_maps.run, '{"n":2}'),
        typed_tool(
            "simulate_config",
            simulate_config.SimulateConfigArguments,
            simulate_config.SimulateConfig,
            simulate_config.run,
            '{"edits":[' + _EDIT + "}]}",
        ),
        Tool("propose_patch", propose_patch.ProposePatchArguments, PatchCheck, propose_patch.judge, _PATCH, judges_values=True),
    )
}
"""Every tool, in the order in which they are told to a model."""


def tool_specs() -> list[dict[str, Any]]:
    """Return the tools in OpenAI's function-calling shape."""
    return [
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
        for tool in TOOLS.values()
    ]


def of_these_sizes(schema: Any, config: GeneratorConfig) -> Any:
    """Return a JSON Schema whose patterns of paths take the config's sizes only: what is decoded under it names knobs that exist."""
    if isinstance(schema, list):
        return [of_these_sizes(item, config) for item in schema]
    if not isinstance(schema, dict):
        return schema
    narrowed = {key: of_these_sizes(value, config) for key, value in schema.items()}
    if isinstance(schema.get("pattern"), str):
        narrowed["pattern"] = schema["pattern"].replace("/sizes/[0-9]+/", f"/sizes/({'|'.join(config.sizes)})/")
    return narrowed


class Toolbox:
    """The tools over one evidence, for one session.

    Args:
        evidence: what the tools read.
        review: judges a patch that passed the checks; None takes it.
        seconds: wall-clock time of one call, after which it is answered with `timeout`; None for no bound.
        shown: ids of results that the caller was given before the session, and may cite.
        one_shot: True for a call outside of a session, whose citations cannot be checked.
        clock: seconds, for the time bound.
    """

    def __init__(
        self,
        evidence: Evidence,
        *,
        review: Review | None = None,
        seconds: float | None = None,
        shown: Iterable[str] = (),
        one_shot: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start a session: no result yet, nothing accepted."""
        self.evidence = evidence
        self.review, self.seconds, self.one_shot, self.clock = review, seconds, one_shot, clock
        self._counts: Counter[str] = Counter()
        self._ids: list[str] = list(shown)
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
        """Return the tools in OpenAI's function-calling shape; paths name the sizes of the current config and no others."""
        specs: list[dict[str, Any]] = of_these_sizes(tool_specs(), self.evidence.config)
        return specs

    def call(self, name: str, arguments: str | dict[str, Any]) -> ToolResult:
        """Call a tool with arguments as plain data or as the JSON text that a model wrote."""
        coerced: tuple[str, ...] = ()
        try:
            tool = self._find(name)
            raw, coerced = decode_strings(read_object(arguments), tool.parameters, scalars=not tool.judges_values)
            with time_bound(self.seconds, self.clock):
                output = tool.call(raw, self.evidence, None if self.one_shot else tuple(self._ids))
        except ToolError as error:
            return ToolResult(id=None, name=name, error=ToolFailure(code=error.code, message=error.message), coerced=coerced)
        if isinstance(output, PatchCheck) and output.accepted:
            output = output if self.review is None else self.review(output, self.evidence)
            self._accepted = output if output.accepted else self._accepted
        self._counts[name] += 1
        result = ToolResult(id=f"{name}#{self._counts[name]}", name=name, content=output.to_json(), coerced=coerced)
        self._ids.append(f"{name}#{self._counts[name]}")
        return result

    def _find(self, name: str) -> Tool:
        if name in TOOLS:
            return TOOLS[name]
        shown = name if len(name) <= _NAME_SHOWN else f"{name[:_NAME_SHOWN]}..."
        message = f"there is no tool {shown!r}{closest(name, list(TOOLS))}; the tools are {', '.join(TOOLS)}"
        raise ToolError(ToolErrorCode.UNKNOWN_TOOL, message)
