"""The training commands: what a person gets on bad input, and what evaluate prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from envwright.env.canonical import Split
from envwright.env.generator import generate
from envwright.env.jsonio import write_json_lines
from envwright.env.rollout import read_rollouts
from envwright.training.cli import main
from envwright.training.settings import RunSettings


def _one_line(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_a_missing_extra_says_which_to_install(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    assert main(["run", "demo", "--out", str(tmp_path / "run")]) == 2
    assert "pip install 'envwright[train]'" in _one_line(capsys)
    assert not (tmp_path / "run").exists()


def test_a_used_run_folder_says_how_to_go_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    assert main(["run", "demo", "--out", str(tmp_path)]) == 2
    assert "exists already: continue it with --resume, or choose another folder with --out" in _one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume"], "holds no run to resume"),
        (["--engineer", "ruel"], "did you mean 'rule'"),
        (["--engineer", "openai:some-model"], "OPENAI_API_KEY"),
        (["--set", "policy=nowhere"], "no such folder"),
        (["--set", "config.num_agents=7"], "up to 5 agents"),
        (
            ["--set", 'config.sizes={"12":{"data_ratio":1,"hole_ratio":0,"wait_ratio":0}}'],
            "boards up to 10x10; take size 12 out of the config",
        ),
    ],
)
def test_a_run_that_cannot_work_is_refused_before_anything_is_written(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert main(["run", "demo", "--out", str(tmp_path / "run"), *arguments]) == 2
    assert message in _one_line(capsys)
    assert not (tmp_path / "run").exists()


def test_an_unreachable_endpoint_is_told_before_the_run_begins(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert main(["run", "demo", "--engineer", "openai:some-model", "--out", str(tmp_path / "run")]) == 2
    assert "http://127.0.0.1:9/v1 cannot be reached" in _one_line(capsys)
    assert not (tmp_path / "run").exists()


def test_evaluate_prints_the_contract_s_keys_and_writes_rollouts_that_grade_alike(
    capsys: pytest.CaptureFixture[str], tiny_settings: RunSettings, tmp_path: Path
) -> None:
    boards = generate(tiny_settings.evaluation.config, 12, seed=0, split=Split.VALIDATION).instances
    write_json_lines(tmp_path / "boards.jsonl", (board.to_json() for board in boards))
    out = tmp_path / "rollouts.jsonl"
    assert main(["evaluate", "--policy", "pocket", "--instances", str(tmp_path / "boards.jsonl"), "--json", "-o", str(out)]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert {"n", "valid", "optimal", "outcomes", "by_size"} <= evaluated.keys()
    assert evaluated["n"] == 12
    assert set(evaluated["by_size"]) == {"3", "4", "5", "6"}
    assert {rollout.split for rollout in read_rollouts(out)} == {Split.VALIDATION}
    assert main(["grade", "--rollouts", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == evaluated
