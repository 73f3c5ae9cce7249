"""The five tools as an MCP server: any MCP client can look at the evidence and propose a patch.

Names, descriptions and JSON Schemas are the registry's. A `ToolError` comes back as a result with `isError`, in words that
let the next call succeed. What becomes of an accepted proposal is decided on this side, by `on_accepted`, never by the client.
The `mcp` SDK is imported when a server is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from envwright.env.errors import MissingExtraError, UserError
from envwright.env.patch import PatchCheck
from envwright.tools.registry import TOOLS, Tool, Toolbox
from envwright.tools.results import ToolResult

if TYPE_CHECKING:
    import mcp_types
    from mcp.server.lowlevel import Server

__all__ = ["OnAccepted", "make_server", "serve"]

OnAccepted = Callable[[PatchCheck], str]
"""Takes an accepted proposal; returns what the client is told about it. A `UserError` becomes an error result."""

INSTRUCTIONS = (
    "Evidence of a reinforcement-learning run on generated multi-agent path-finding boards. Look at it with failure_breakdown, "
    "env_stats and sample_maps, try knobs with simulate_config, then propose one patch of the generator's config with propose_patch, "
    "citing result ids such as failure_breakdown#1 as evidence. An accepted proposal is approved, or not, on the server's side."
)


def make_server(toolbox: Toolbox, on_accepted: OnAccepted | None = None) -> Server[dict[str, Any]]:
    """Return a server over a toolbox; calls are carried out one at a time, in a worker thread, so that pings are answered.

    Args:
        toolbox: the tools, over one evidence.
        on_accepted: what is done with a proposal that `propose_patch` accepted; None does nothing.

    Raises:
        MissingExtraError: the `mcp` SDK is not installed.
    """
    try:
        import anyio
        import anyio.to_thread
        import mcp_types
        from mcp.server.lowlevel import Server
    except ImportError:
        raise MissingExtraError("mcp", "mcp", "an MCP server") from None
    from envwright import __version__

    one_at_a_time = anyio.CapacityLimiter(1)
    tools = [_described(tool) for tool in TOOLS.values()]

    async def on_list_tools(_context: Any, _params: mcp_types.PaginatedRequestParams | None) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=tools)

    async def on_call_tool(_context: Any, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        return await anyio.to_thread.run_sync(_call, toolbox, params.name, params.arguments or {}, on_accepted, limiter=one_at_a_time)

    return Server("envwright", version=__version__, instructions=INSTRUCTIONS, on_list_tools=on_list_tools, on_call_tool=on_call_tool)


def serve(server: Server[dict[str, Any]]) -> None:
    """Serve on stdin and stdout until the client closes them; whatever else prints meanwhile goes to stderr."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def run() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(run)


def _described(tool: Tool) -> mcp_types.Tool:
    import mcp_types

    reads_only = tool.output is not PatchCheck
    return mcp_types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        output_schema=_answer_schema(tool),
        annotations=mcp_types.ToolAnnotations(read_only_hint=reads_only, destructive_hint=False, open_world_hint=False),
    )


def _answer_schema(tool: Tool) -> dict[str, Any]:
    """The schema of the tool's answer, with the id that edits cite and what was read out of strings beside it."""
    schema = tool.output_schema
    added = {
        "id": {"type": "string", "description": "What edits cite as evidence."},
        "coerced": {"type": "array", "items": {"type": "string"}, "description": "Arguments that were strings, read as what they hold."},
    }
    return {**schema, "properties": {**added, **schema["properties"]}, "required": ["id", *schema.get("required", [])]}


def _call(toolbox: Toolbox, name: str, arguments: dict[str, Any], on_accepted: OnAccepted | None) -> mcp_types.CallToolResult:
    before = toolbox.accepted
    try:
        result = toolbox.call(name, arguments)
        if result.error is not None:
            return _failed(f"{result.error.code}: {result.error.message}")
        accepted = toolbox.accepted
        told = on_accepted(accepted) if on_accepted is not None and accepted is not None and accepted is not before else None
    except UserError as error:
        return _failed(str(error))
    return _answered(result, told)


def _answered(result: ToolResult, told: str | None) -> mcp_types.CallToolResult:
    import mcp_types

    texts = [result.text(), *([told] if told else [])]
    structured = {"id": result.id, **(result.content or {}), **({"coerced": list(result.coerced)} if result.coerced else {})}
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=text) for text in texts], structured_content=structured)


def _failed(message: str) -> mcp_types.CallToolResult:
    import mcp_types

    return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=message)], is_error=True)
