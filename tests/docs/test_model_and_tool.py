"""docs/bring-your-own-model.md and docs/write-a-tool.md: the classes on the pages work, what is named exists."""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from envwright.agent.engineers import ENGINEERS
from envwright.agent.stop import StopReason
from envwright.env.jsonio import dump_json, parse_json, write_json, write_json_lines
from envwright.tools import registry
from envwright.tools.errors import ToolErrorCode
from envwright.tools.registry import Toolbox
from envwright.training.cli import main
from envwright.training.evidence import file_evidence
from tests.cli.commands import CONFIG, rollout_lines
from tests.docs.pages import blocks, page


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_json(tmp_path / "config.json", CONFIG)
    write_json_lines(tmp_path / "rollouts.jsonl", rollout_lines())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def imported(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's Python blocks as a module: docstrings under fields are read from a file."""
    module = name.removesuffix(".md").replace("-", "_")
    code = "\n\n".join(block.text for block in blocks(name) if block.kind == "python")
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, module, raising=False)
    return importlib.import_module(module)


def test_every_engineer_is_on_the_page() -> None:
    rows = {
        cell
        for key in re.findall(r"^\| (`.*?) \|", page("bring-your-own-model.md"), re.MULTILINE)
        for cell in re.findall(r"`([^`]+)`", key)
    }
    told = {"replay:FILE" if name == "replay:TRANSCRIPT" else name for name in ENGINEERS}
    assert told <= rows


def test_the_pages_own_model_has_a_session_that_keeps_the_config(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engineer = imported("bring-your-own-model.md", folder, monkeypatch).engineer
    redesign = engineer.design(file_evidence(folder / "config.json", folder / "rollouts.jsonl"))
    assert (redesign.stop_reason, redesign.patch, redesign.usage.tool_calls) == (StopReason.KEPT, None, 1)


def test_the_pages_mcp_entry_is_json_that_starts_the_server() -> None:
    (entry,) = [block.data for block in blocks("bring-your-own-model.md") if block.kind == "json"]
    assert entry["mcpServers"]["envwright"]["args"][0] == "mcp"


def test_the_pages_tool_is_registered_called_and_described(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = imported("write-a-tool.md", folder, monkeypatch).tool
    monkeypatch.setitem(registry.TOOLS, tool.name, tool)
    evidence = file_evidence(folder / "config.json", folder / "rollouts.jsonl")
    (spec,) = [spec["function"] for spec in Toolbox(evidence).specs() if spec["function"]["name"] == tool.name]
    assert spec["description"].startswith("Count at which timestep")
    assert spec["parameters"]["properties"]["stage"]["description"].startswith("Stage of the run")
    failed = Toolbox(evidence).call(tool.name, '{"stage": 7}')
    assert failed.error is not None
    assert failed.error.code == "not_found"
    (shell,) = [block for block in blocks("write-a-tool.md") if block.kind == "sh"]
    assert main(shlex.split(shell.text)[1:]) == 0
    answer = parse_json(capsys.readouterr().out)
    broken = [rollout for rollout in evidence.rollouts if rollout.failure_step is not None]
    assert sum(count for row in answer["rows"] for count in row["outcomes"].values()) == len(broken) > 0
    assert f'`{{"stage":0,"rows":[{dump_json(answer["rows"][0])},' in page("write-a-tool.md")


def test_the_six_codes_that_the_page_speaks_of_are_six() -> None:
    assert "one of the six codes" in page("write-a-tool.md")
    assert len(ToolErrorCode) == 6
