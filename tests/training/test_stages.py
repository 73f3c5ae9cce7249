"""The stage loop for real, at a tiny scale: files, contracts between them, determinism, resume, gate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envwright.agent.stop import StopReason
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.generator import num_holes, wait_count
from envwright.env.patch import apply_patch, diff_configs, read_patch
from envwright.env.schemas import json_schema
from envwright.tools.evidence import Rates, StageRecord
from envwright.training.progress import Progress
from envwright.training.runstore import RunStore
from envwright.training.settings import RunSettings
from envwright.training.stages import _return_to, run_stages

TIMED = {"events.jsonl", "summary.json"}


def _run(folder: Path, settings: RunSettings, *, resume: bool = False) -> tuple[dict[str, Any], list[str]]:
    lines: list[str] = []
    store = RunStore.resume(folder, settings) if resume else RunStore.create(folder, settings)
    return run_stages(store, settings, Progress(lines.append)), lines


def _bytes(folder: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: content for name, content in files.items() if name not in TIMED}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_settings: RunSettings) -> tuple[Path, dict[str, Any], list[str]]:
    folder = tmp_path_factory.mktemp("runs") / "a"
    summary, lines = _run(folder, tiny_settings)
    return folder, summary, lines


def test_a_stage_folder_holds_what_the_contract_names(finished: tuple[Path, dict[str, Any], list[str]]) -> None:
    folder, _, _ = finished
    for name in ("config.json", "instances.jsonl", "metrics.jsonl", "validation.jsonl", "train_rollouts.jsonl", "DONE"):
        assert (folder / "stages" / "00" / name).is_file()
    assert (folder / "stages" / "00" / "checkpoint" / "model.safetensors").is_file()
    assert (folder / "stages" / "00" / "engineer" / "transcript.jsonl").is_file()
    assert (folder / "run.json").is_file()


def test_the_summary_has_the_contract_s_keys(finished: tuple[Path, dict[str, Any], list[str]]) -> None:
    folder, summary, _ = finished
    assert json.loads((folder / "summary.json").read_text(encoding="utf-8")) == summary
    assert {"status", "seed", "engineer", "base", "final", "stages"} <= summary.keys()
    for part in (summary["base"], summary["final"]):
        for decoding in ("greedy", "sampled"):
            assert {"valid", "optimal"} <= part[decoding].keys()
    for number, stage in enumerate(summary["stages"]):
        assert stage["stage"] == number
        assert {"config", "train_reward", "validation", "signal", "patch", "stop_reason", "seconds"} <= stage.keys()
    assert summary["stages"][-1]["stop_reason"] == "last_stage"


def test_every_patch_is_valid_and_leads_exactly_to_the_next_config(finished: tuple[Path, dict[str, Any], list[str]]) -> None:
    folder, summary, _ = finished
    stages = RunStore(folder)
    for number in range(len(summary["stages"]) - 1):
        before, after = stages.stage(number).config(), stages.stage(number + 1).config()
        path = folder / "stages" / f"{number:02d}" / "engineer" / "patch.json"
        if not path.is_file():
            assert before == after
            continue
        jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), json_schema("patch"))
        assert apply_patch(before, read_patch(path)) == after


def test_the_boards_of_a_stage_follow_its_config(finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings) -> None:
    folder, summary, _ = finished
    for number in range(len(summary["stages"])):
        stage = RunStore(folder).stage(number)
        config, boards = stage.config(), stage.read_instances()
        counts = config.counts(tiny_settings.instances_per_stage)
        for bucket, knobs in config.buckets():
            of_size = [board for board in boards if board.bucket == bucket]
            assert len(of_size) == counts[bucket]
            assert sum(board.wait_required for board in of_size) == wait_count(counts[bucket], knobs.wait_ratio)
            assert {len(board.holes) for board in of_size} <= {num_holes(int(bucket), knobs.hole_ratio)}


def test_the_same_settings_give_the_same_bytes(
    finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings, tmp_path: Path
) -> None:
    _run(tmp_path / "b", tiny_settings)
    assert _bytes(tmp_path / "b") == _bytes(finished[0])


def test_a_run_broken_between_or_inside_stages_ends_with_the_same_bytes(
    finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(finished[0], broken)
    (broken / "summary.json").unlink()
    (broken / "stages" / "01" / "DONE").unlink()
    (broken / "stages" / "01" / "instances.jsonl").write_text("half a li", encoding="utf-8")
    summary, lines = _run(broken, tiny_settings, resume=True)
    assert _bytes(broken) == _bytes(finished[0])
    assert any("resuming: 1 of 2 stages" in line for line in lines)
    timeless = [{**stage, "seconds": 0} for stage in summary["stages"]]
    assert timeless == [{**stage, "seconds": 0} for stage in finished[1]["stages"]]
    assert all(stage["seconds"] is not None for stage in summary["stages"])


def test_resuming_with_other_settings_names_the_keys(finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings) -> None:
    changed = tiny_settings.model_copy(update={"seed": 4, "grpo": tiny_settings.grpo.model_copy(update={"learning_rate": 1e-3})})
    with pytest.raises(UserError, match=r"seed was 0 and is 4, grpo\.learning_rate was 0\.0008 and is 0\.001"):
        RunStore.resume(finished[0], changed)


def test_a_folder_that_holds_something_is_not_written_to(
    finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings
) -> None:
    with pytest.raises(UserError, match="exists already: continue it with --resume, or choose another folder with --out"):
        RunStore.create(finished[0], tiny_settings)


def test_a_person_can_follow_knobs_rates_patches_and_the_final_table(finished: tuple[Path, dict[str, Any], list[str]]) -> None:
    text = "\n".join(finished[2])
    for piece in (
        "== stage 0 (1 of 2)",
        "wait-required",
        "reward",
        "validation",
        "engineer rule",
        "held-out boards",
        "greedy, all",
        "points",
    ):
        assert piece in text


def _config(data: tuple[float, float], holes: float, waits: float) -> GeneratorConfig:
    sizes = {size: {"data_ratio": ratio, "hole_ratio": holes, "wait_ratio": waits} for size, ratio in zip(("3", "4"), data, strict=True)}
    return GeneratorConfig.model_validate({"num_agents": 2, "sizes": sizes})


def test_the_gate_s_patch_leads_exactly_back_to_the_best_config() -> None:
    good, bad = _config((0.3, 0.7), 0.1, 0.2), _config((0.65, 0.35), 0.2, 0.7)
    best = StageRecord(stage=0, config=good, validation=Rates(n=100, valid=0.6, optimal=0.5), by_bucket={})
    worse = StageRecord(stage=1, config=bad, validation=Rates(n=100, valid=0.4, optimal=0.3), by_bucket={})
    redesign = _return_to(best, bad, worse, 0.05)
    assert redesign.config == good
    assert redesign.patch is not None
    assert apply_patch(bad, redesign.patch) == good
    assert redesign.diff == diff_configs(bad, good)
    assert redesign.stop_reason is StopReason.GATE
    assert "validation fell from 0.600 (stage 0) to 0.400" in redesign.note
