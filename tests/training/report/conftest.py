"""A real run of seconds, reported once, and a comparison made of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from envwright.env.jsonio import write_json
from envwright.training.compare.comparison import build_comparison
from envwright.training.report.page import write_report
from envwright.training.runstore import RunStore
from envwright.training.settings import RunSettings, load_settings
from envwright.training.stages import run_stages
from envwright.training.view.progress import Progress
from tests.training.conftest import TINY
from tests.training.report.reading import Reading, read_page


@pytest.fixture(scope="session")
def run_settings() -> RunSettings:
    """Settings of a run of seconds whose engineer has enough evidence to patch."""
    return load_settings("demo", [*TINY, "evaluation.samples=4"])


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, run_settings: RunSettings) -> Path:
    """A finished run; do not change it."""
    folder = tmp_path_factory.mktemp("reported") / "run"
    run_stages(RunStore.create(folder, run_settings), run_settings, Progress(lambda _line: None))
    write_report(folder)
    return folder


@pytest.fixture
def run_copy(run_folder: Path, tmp_path: Path) -> Path:
    """The run, to be changed."""
    return Path(shutil.copytree(run_folder, tmp_path / "run", ignore=shutil.ignore_patterns("report*", "checkpoint")))


@pytest.fixture(scope="session")
def run_page(run_folder: Path) -> Reading:
    """The run's page."""
    return read_page(run_folder / "report.html")


@pytest.fixture(scope="session")
def comparison_folder(tmp_path_factory: pytest.TempPathFactory, run_folder: Path) -> Path:
    """Two arms of two seeds each, and one that is not begun; `fixed` ends with what its policy could before. Do not change it."""
    out = tmp_path_factory.mktemp("reported") / "comparison"
    settings: dict[str, Any] = json.loads((run_folder / "run.json").read_text(encoding="utf-8"))["settings"]
    arms = [
        {"name": name, "engineer": name.split("-")[0], "overrides": {"engineer": name.split("-")[0]}}
        for name in ("rule", "fixed", "random-2")
    ]
    plan = {"preset": "demo", "baseline": "fixed", "seeds": [0, 1], "arms": arms, "settings": settings}
    write_json(
        out / "compare.json", {"schema_version": 1, "command": ["envwright", "compare", "demo"], "versions": {"envwright": "0"}, **plan}
    )
    for arm in ("rule", "fixed"):
        for seed in (0, 1):
            folder = out / "runs" / arm / f"seed{seed}"
            shutil.copytree(run_folder, folder, ignore=shutil.ignore_patterns("report*", "checkpoint"))
            if arm == "fixed":
                for decoding in ("greedy", "sampled"):
                    shutil.copy(folder / "heldout" / f"base_{decoding}.jsonl", folder / "heldout" / f"final_{decoding}.jsonl")
    shutil.copy(run_folder / "report.html", out / "runs" / "rule" / "seed0" / "report.html")
    build_comparison(out)
    write_report(out)
    return out


@pytest.fixture(scope="session")
def comparison_page(comparison_folder: Path) -> Reading:
    """The comparison's page."""
    return read_page(comparison_folder / "report.html")
