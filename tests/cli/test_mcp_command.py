"""envwright mcp: who has the last word, where a proposal goes, what it says when it cannot start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envwright.env.jsonio import write_json
from envwright.env.patch import Patch
from envwright.training.approval_files import approved_patch, read_waiting
from tests.cli.commands import EVIDENCE, Command
from tests.cli.test_chat_command import PROPOSAL, make_run

SERVE = "import sys; from envwright.training.cli import main; sys.exit(main(sys.argv[1:]))"


def answers(arguments: list[str], calls: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Results of tool calls, asked in JSON-RPC over a real process's stdin."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
    lines: list[dict[str, Any]] = [{"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"}]
    lines += [{"id": at, "method": "tools/call", "params": {"name": name, "arguments": given}} for at, (name, given) in enumerate(calls, 1)]
    text = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, "mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(text)
        process.stdin.flush()
        found = [json.loads(process.stdout.readline()) for _ in range(len(calls) + 1)]
        process.stdin.close()
    assert process.returncode == 0
    return [answer["result"] for answer in sorted(found, key=lambda answer: int(answer["id"]))[1:]]


def test_a_proposal_waits_in_the_run_folder_and_changes_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'envwright[mcp]'")
    store = make_run(tmp_path / "run")
    far = {**PROPOSAL, "edits": [{**PROPOSAL["edits"][0], "value": 1.0}]}  # type: ignore[dict-item]
    write_json(tmp_path / "rails.json", {"bounds": "refuse"})
    arguments = ["--run", str(store.path), "--guard-rails", str(tmp_path / "rails.json")]
    refused, proposed = answers(arguments, [("propose_patch", far), ("propose_patch", PROPOSAL)])
    assert [error["code"] for error in refused["structuredContent"]["errors"]] == ["step_too_large"]
    assert proposed["structuredContent"]["accepted"] is True
    assert f"approve it with `envwright chat --run {store.path}`" in proposed["content"][1]["text"]
    record = read_waiting(store.stage(0), "proposed")
    assert record is not None
    assert (record.engineer, record.patch) == ("mcp", Patch.model_validate(PROPOSAL))
    assert approved_patch(store.stage(0)) is None


def test_with_approval_auto_a_proposal_is_approved_on_the_servers_side(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'envwright[mcp]'")
    store = make_run(tmp_path / "run")
    (proposed,) = answers(["--run", str(store.path), "--approval", "auto"], [("propose_patch", PROPOSAL)])
    assert "approved by --approval auto" in proposed["content"][1]["text"]
    assert approved_patch(store.stage(0)) == Patch.model_validate(PROPOSAL)


def test_without_the_sdk_one_line_names_the_extra(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    done = command("mcp", *EVIDENCE)
    assert (done.code, done.out) == (2, "")
    assert done.err == "envwright mcp: an MCP server needs 'mcp', which is not installed: pip install 'envwright[mcp]'\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--rollouts", "rollouts.jsonl"), "give --run DIR, or both --config FILE and --rollouts FILE"),
        (("--run", "x", *EVIDENCE), "give either --run DIR or --config FILE --rollouts FILE, not both"),
        (("--config", "config.json", "--rollouts", "nowhere.jsonl"), "nowhere.jsonl: no such file"),
    ],
)
def test_bad_arguments_end_with_one_line_on_stderr(command: Command, arguments: tuple[str, ...], told: str) -> None:
    done = command("mcp", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert told in done.err
