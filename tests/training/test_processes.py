"""Two processes of one launch train one policy, share out the measuring, and write one folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envwright.env.canonical import Split
from envwright.env.generator import generate
from envwright.env.instance import read_instances
from envwright.training.processes import SharedWork, gather_lists, is_main, num_processes, share
from envwright.training.settings import load_settings

RUN = [
    "-m", "envwright", "run", "demo", "--engineer", "fixed",
    *(part for setting in (
        "num_stages=1", "steps_per_stage=2", "grpo.per_device_train_batch_size=16", "grpo.max_completion_length=16", "grpo.save_steps=1",
        "evaluation.validation_instances=8", "evaluation.heldout_instances=8", "evaluation.samples=2", "threads=1",
    ) for part in ("--set", setting)),
]  # fmt: skip
LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


def _call(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, timeout=240, check=False)


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("launched") / "run"
    result = _call(*LAUNCH, *RUN, "--out", str(folder))
    assert result.returncode == 0, result.stderr[-2000:]
    return folder, result.stdout


def _summary(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return summary


def test_one_process_needs_nothing() -> None:
    assert (num_processes(), is_main(), gather_lists([1, 2]), share("x")) == (1, True, [[1, 2]], "x")


def test_only_the_main_process_talks(launched: tuple[Path, str]) -> None:
    assert launched[1].count("envwright run: policy pocket") == 1
    assert "2 GRPO steps x 4 boards x 8 completions" in launched[1]


def test_both_processes_rollouts_are_kept(launched: tuple[Path, str]) -> None:
    folder, _ = launched
    rollouts = (folder / "stages" / "00" / "train_rollouts.jsonl").read_text(encoding="utf-8").splitlines()
    boards = (folder / "stages" / "00" / "instances.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(boards) == 8
    assert len(rollouts) == 64
    trained = {json.loads(line)["instance"]["id"] for line in rollouts}
    assert trained == {json.loads(line)["id"] for line in boards}


def test_two_processes_meet_in_every_step_the_boards_that_one_would(launched: tuple[Path, str]) -> None:
    folder, _ = launched
    boards = [board.id for board in read_instances(folder / "stages" / "00" / "instances.jsonl")]
    lines = (folder / "stages" / "00" / "train_rollouts.jsonl").read_text(encoding="utf-8").splitlines()
    met = [json.loads(line)["instance"]["id"] for line in lines]
    for step in range(2):
        assert met[32 * step : 32 * (step + 1) : 8] == boards[4 * step : 4 * (step + 1)]


def test_boards_made_together_are_those_that_one_process_makes(launched: tuple[Path, str]) -> None:
    config = load_settings("demo", []).config
    alone = generate(config, 8, seed=0, split=Split.TRAIN, key=("stage", 0)).instances
    assert read_instances(launched[0] / "stages" / "00" / "instances.jsonl") == alone


def test_shared_work_comes_in_order() -> None:
    assert list(SharedWork().map(str, range(600))) == [str(number) for number in range(600)]


def test_measuring_does_not_depend_on_the_number_of_processes(launched: tuple[Path, str], tmp_path: Path) -> None:
    alone = _call(*RUN, "--out", str(tmp_path / "alone"))
    assert alone.returncode == 0, alone.stderr[-2000:]
    assert _summary(tmp_path / "alone")["base"] == _summary(launched[0])["base"]


def test_another_number_of_processes_cannot_resume(launched: tuple[Path, str]) -> None:
    result = _call(*RUN, "--out", str(launched[0]), "--resume")
    assert result.returncode == 2
    assert "was started with 2 processes and is resumed with 1; launch as many as before" in result.stderr
