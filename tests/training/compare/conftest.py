"""One real comparison, tiny: an engineer that keeps the config, one that plays a recorded session, and one whose session is broken."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envwright.agent.scripted import call_message
from envwright.agent.transcript import SessionHeader
from envwright.env.jsonio import read_json, write_json_lines
from envwright.training.cli import main
from tests.training.conftest import TINY

EDIT = {"op": "replace", "path": "/sizes/4/wait_ratio", "value": 0.5, "reason": "practise waiting", "evidence": ["simulate_config#1"]}
SIMULATED_BOARDS = 4
"""Boards per size in the recorded session's simulation: four sizes, one of them once more under its current knobs."""


def write_session(path: Path, recorded: float = 0.5) -> None:
    """Write a transcript that simulates an edit and proposes it; `recorded` is the value that its last line tells of."""
    calls = [("simulate_config", {"edits": [{"path": EDIT["path"], "value": 0.5}], "n": SIMULATED_BOARDS})]
    patch = {"summary": "wait more", "edits": [EDIT]}
    messages = [call_message(*calls).to_json(), call_message(("propose_patch", patch)).to_json()]
    end = {
        "type": "result",
        "stop_reason": "patch_accepted",
        "patch": {"schema_version": 1, **patch, "edits": [{**EDIT, "value": recorded}]},
    }
    write_json_lines(path, [SessionHeader(model="recorded", config_hash="0").to_json(), *messages, end])


@dataclass(frozen=True)
class Compared:
    """A comparison's folder and what the command printed."""

    out: Path
    session: Path
    code: int
    lines: str
    errors: str

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = read_json(self.out / "comparison.json")
        return document


Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def compare(capfd: pytest.CaptureFixture[str]) -> Compare:
    """Runs `envwright compare demo ARGUMENTS...` at a tiny scale."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_compare(*arguments)
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


def run_compare(*arguments: str) -> int:
    settings = [word for setting in [*TINY, "steps_per_stage=1"] for word in ("--set", setting)]
    return main(["compare", "demo", *settings, "--jobs", "2", *arguments])


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Two arms, two seeds: `keep` is finished, `play` has failed, for its transcript leads to another patch than it says."""
    folder = tmp_path_factory.mktemp("comparisons")
    session = folder / "session.jsonl"
    write_session(session, recorded=0.6)
    return _compared(folder / "a", session)


@pytest.fixture(scope="session")
def finished(broken: Compared, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """The same comparison, continued after the transcript was mended."""
    out = tmp_path_factory.mktemp("comparisons") / "b"
    shutil.copytree(broken.out, out)
    write_session(broken.session)
    return _compared(out, broken.session, "--resume")


def _compared(out: Path, session: Path, *more: str) -> Compared:
    monkey = pytest.MonkeyPatch()
    lines: list[str] = []
    errors: list[str] = []
    with monkey.context() as patch:
        patch.setattr("sys.stdout", _Lines(lines))
        patch.setattr("sys.stderr", _Lines(errors))
        arms = ("--arm", "keep:engineer=fixed", "--arm", f"play:engineer=replay:{session}")
        code = run_compare(*arms, "--seeds", "0,1", "--out", str(out), *more)
    return Compared(out, session, code, "".join(lines), "".join(errors))


class _Lines:
    """A stream that keeps what is written, for fixtures that outlive a test's capture."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def write(self, text: str) -> int:
        self.lines.append(text)
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""
