"""A folder with the files that commands take, and a way to run commands in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from envwright.env.jsonio import write_json, write_json_lines
from envwright.training.cli import main
from tests.cli.commands import CONFIG, Finished, rollout_lines


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: `config.json`, `rollouts.jsonl` (300 lines, not graded, boards without labels) and `boards.jsonl`."""
    write_json(tmp_path / "config.json", CONFIG)
    lines = rollout_lines()
    write_json_lines(tmp_path / "rollouts.jsonl", lines)
    write_json_lines(tmp_path / "boards.jsonl", (line["instance"] for line in lines[:4]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Runs `envwright ARGUMENTS...` in the folder."""

    def run(*arguments: str) -> Finished:
        try:
            code = main(list(arguments))
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        captured = capsys.readouterr()
        return Finished(code, captured.out, captured.err)

    return run
