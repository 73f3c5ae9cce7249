"""The MCP server, asked by the SDK's own client over a real process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from envwright.env.jsonio import write_json, write_json_lines
from envwright.env.patch import read_patch
from envwright.tools.evidence import Evidence
from envwright.tools.registry import TOOLS, Toolbox

if TYPE_CHECKING:
    import anyio
    import mcp
    import mcp_types
    from mcp import Client
else:
    mcp = pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'envwright[mcp]'")
    anyio, mcp_types = pytest.importorskip("anyio"), pytest.importorskip("mcp_types")

ValueT = TypeVar("ValueT")

EDIT = {"op": "replace", "path": "/sizes/4/wait_ratio", "value": 0.5, "reason": "4x4 fails", "evidence": ["failure_breakdown#1"]}
PATCH = {"summary": "more waiting on 4x4", "edits": [EDIT]}
SERVE = "import sys; from envwright.training.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def files(evidence: Evidence, tmp_path: Path) -> list[str]:
    write_json(tmp_path / "config.json", evidence.config.to_json())
    write_json_lines(tmp_path / "rollouts.jsonl", (rollout.to_json() for rollout in evidence.rollouts))
    return [
        "mcp",
        "--config",
        str(tmp_path / "config.json"),
        "--rollouts",
        str(tmp_path / "rollouts.jsonl"),
        "--seed",
        str(evidence.seed),
        "--guard-rails",
        "off",
    ]


def ask(arguments: list[str], questions: Callable[[Client], Awaitable[ValueT]]) -> ValueT:
    """Start `envwright mcp`, connect, and ask."""
    server = mcp.StdioServerParameters(command=sys.executable, args=["-c", SERVE, *arguments], cwd=Path(__file__).parents[2])

    async def run() -> ValueT:
        with anyio.fail_after(60):
            async with mcp.Client(mcp.stdio_client(server)) as client:
                return await questions(client)

    answer: ValueT = anyio.run(run)
    return answer


def text(result: mcp_types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, mcp_types.TextContent))


def assert_are_the_registrys(told: list[mcp_types.Tool]) -> None:
    assert [(tool.name, tool.description, tool.input_schema) for tool in told] == [
        (tool.name, tool.description, tool.parameters) for tool in TOOLS.values()
    ]
    assert [tool.name for tool in told if not (tool.annotations and tool.annotations.read_only_hint)] == ["propose_patch"]


def test_a_session_over_mcp_gives_the_toolboxs_answers_and_writes_the_proposal(
    files: list[str], evidence: Evidence, tmp_path: Path
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("failure_breakdown", {"by": ["size"]}),
        ("env_stats", {"stage": 1}),
        ("sample_maps", {"n": 1}),
        ("simulate_config", {"edits": '[{"path": "/sizes/4/wait_ratio", "value": 0.5}]', "n": 2}),
        ("propose_patch", PATCH),
    ]

    async def questions(client: Client) -> tuple[mcp_types.ListToolsResult, list[mcp_types.CallToolResult]]:
        return await client.list_tools(), [await client.call_tool(name, arguments) for name, arguments in calls]

    out = tmp_path / "patch.json"
    told, answers = ask([*files, "--out", str(out)], questions)
    assert_are_the_registrys(told.tools)
    toolbox = Toolbox(replace(evidence, history=()))
    for (name, arguments), answer in zip(calls, answers, strict=True):
        expected = toolbox.call(name, arguments)
        assert not answer.is_error
        assert json.loads(answer.content[0].text) == json.loads(expected.text()) == answer.structured_content  # type: ignore[union-attr]
    assert "nothing is applied until a person approves it" in text(answers[-1])
    assert str(out) in text(answers[-1])
    assert read_patch(out).summary == PATCH["summary"]


def test_errors_come_back_as_error_results_and_the_session_goes_on(files: list[str], tmp_path: Path) -> None:
    calls: list[tuple[str, dict[str, Any] | None, str]] = [
        ("failure_breakdwon", {}, "unknown_tool: there is no tool 'failure_breakdwon' (did you mean 'failure_breakdown'?)"),
        ("failure_breakdown", {"by": ["colour"]}, "validation_failed: "),
        ("failure_breakdown", None, "validation_failed: by: Field required"),
        ("failure_breakdown", {"by": [], "stage": 9}, "not_found: there are no rollouts of the validation split at stage 9"),
    ]

    async def questions(client: Client) -> tuple[list[mcp_types.CallToolResult], mcp_types.CallToolResult]:
        failed = [await client.call_tool(name, arguments) for name, arguments, _ in calls]
        refused = await client.call_tool("propose_patch", {**PATCH, "edits": [{**EDIT, "value": 1.5}]})
        return failed, refused

    out = tmp_path / "patch.json"
    failed, refused = ask([*files, "--out", str(out)], questions)
    for answer, (_, _, begins) in zip(failed, calls, strict=True):
        assert answer.is_error
        assert text(answer).startswith(begins)
    assert not refused.is_error
    assert json.loads(text(refused))["accepted"] is False
    assert not out.exists()


def test_stdout_holds_nothing_but_protocol(files: list[str]) -> None:
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "propose_patch", "arguments": PATCH}},
    ]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, *files],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        rest, noise = process.stdout.read(), process.stderr.read()
    assert process.returncode == 0
    assert [answer["id"] for answer in answers] == [1, 2]
    assert rest == ""
    assert "proposed; nothing is applied until a person approves it" in noise
    assert "written nowhere: start the server with --out FILE" in answers[1]["result"]["content"][1]["text"]
