"""The stage loop for real, at a tiny scale: files, contracts between them, determinism, resume, gate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest

from envwright.agent.stop import StopReason
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.generator import num_holes, wait_count
from envwright.env.patch import Patch, apply_patch, diff_configs, read_patch
from envwright.env.schemas import json_schema
from envwright.tools.evidence import Rates, StageRecord
from envwright.training.approval_files import write_waiting
from envwright.training.checkpoints import commit, fault
from envwright.training.gate import return_to
from envwright.training.grpo import train_stage
from envwright.training.policies.policy import Policy
from envwright.training.runstore import RunStore, StageFolder
from envwright.training.settings import RunSettings
from envwright.training.stages import run_stages
from envwright.training.view.progress import Progress

WRITE_CHECKPOINT = StageFolder.write_checkpoint
TIMED = {"events.jsonl", "summary.json"}


def _run(folder: Path, settings: RunSettings, *, resume: bool = False) -> tuple[dict[str, Any], list[str]]:
    lines: list[str] = []
    store = RunStore.resume(folder, settings) if resume else RunStore.create(folder, settings)
    summary = run_stages(store, settings, Progress(lines.append))
    assert summary is not None
    return summary, lines


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
    for name in ("DONE", "TRAINED"):
        (broken / "stages" / "01" / name).unlink()
    (broken / "stages" / "01" / "instances.jsonl").write_text("half a li", encoding="utf-8")
    summary, lines = _run(broken, tiny_settings, resume=True)
    assert _bytes(broken) == _bytes(finished[0])
    assert any("resuming: 1 of 2 stages" in line for line in lines)
    timeless = [{**stage, "seconds": 0} for stage in summary["stages"]]
    assert timeless == [{**stage, "seconds": 0} for stage in finished[1]["stages"]]
    assert all(stage["seconds"] is not None for stage in summary["stages"])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, tiny_settings: RunSettings) -> tuple[Path, RunSettings]:
    """A run stopped inside its second stage, with checkpoints after the first two of its three steps."""
    grpo = tiny_settings.grpo.model_copy(update={"save_steps": 1})
    settings = tiny_settings.model_copy(update={"grpo": grpo, "steps_per_stage": 3})
    folder = tmp_path_factory.mktemp("runs") / "saved"
    store = RunStore.create(folder, settings)
    with patch.object(StageFolder, "write_checkpoint", _killed_in_stage_1), pytest.raises(KeyboardInterrupt):
        run_stages(store, settings, Progress(lambda _: None))
    return folder, settings


def _killed_in_stage_1(folder: StageFolder, policy: Policy, optimizer_state: dict[str, Any]) -> None:
    if folder.path.name == "01":
        (folder.path / ".half.jsonl").write_text("{", encoding="utf-8")
        raise KeyboardInterrupt
    WRITE_CHECKPOINT(folder, policy, optimizer_state)


def _damage(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("damaged", ["nothing", "weights", "log"])
def test_a_run_broken_inside_a_stage_goes_on_from_its_newest_whole_checkpoint(
    saved: tuple[Path, RunSettings], damaged: str, tmp_path: Path
) -> None:
    folder, settings = saved
    shutil.copytree(folder, tmp_path / "broken")
    progress = tmp_path / "broken" / "stages" / "01" / "progress"
    assert sorted(path.name for path in progress.iterdir()) == ["000001.log", "000001.state", "000002.log", "000002.state"]
    if damaged == "weights":
        _damage(progress / "000002.state" / "model.safetensors")
    elif damaged == "log":
        (progress / "000001.log" / "rollouts.jsonl").unlink()
    _, lines = _run(tmp_path / "broken", settings, resume=True)
    text = "\n".join(lines)
    assert ("going on after step 2 of 3" in text) == (damaged == "nothing")
    assert ("going on after step 1 of 3" in text) == (damaged == "weights")
    assert ("model.safetensors is not what its manifest says" in text) == (damaged == "weights")
    assert ("rollouts.jsonl is missing" in text) == (damaged == "log")
    plain = settings.model_copy(update={"grpo": settings.grpo.model_copy(update={"save_steps": 0})})
    _run(tmp_path / "whole", plain)
    broken, whole = _bytes(tmp_path / "broken"), _bytes(tmp_path / "whole")
    assert broken.pop("run.json") != whole.pop("run.json")  # save_steps differs
    assert broken == whole


def test_a_damaged_checkpoint_of_a_finished_stage_is_made_again(
    finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings, tmp_path: Path
) -> None:
    shutil.copytree(finished[0], tmp_path / "broken")
    _damage(tmp_path / "broken" / "stages" / "01" / "checkpoint" / "optimizer.pt")
    _, lines = _run(tmp_path / "broken", tiny_settings, resume=True)
    assert any("optimizer.pt is not what its manifest says; going on from the newest whole checkpoint before it" in line for line in lines)
    assert _bytes(tmp_path / "broken") == _bytes(finished[0])


def test_an_approved_patch_takes_the_place_of_the_engineers_when_the_run_goes_on(
    finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings, tmp_path: Path
) -> None:
    folder = tmp_path / "approved"
    shutil.copytree(finished[0], folder)
    (folder / "stages" / "01" / "DONE").unlink()
    store = RunStore(folder)
    edit = {"op": "replace", "path": "/sizes/4/hole_ratio", "value": 0.3, "reason": "a person's", "evidence": []}
    approved = Patch.model_validate({"summary": "more holes", "edits": [edit]})
    write_waiting(store, "approved", approved, "chat")
    summary, lines = _run(folder, tiny_settings, resume=True)
    assert read_patch(folder / "stages" / "00" / "engineer" / "patch.json") == approved
    assert store.stage(1).config() == apply_patch(store.stage(0).config(), approved)
    assert store.stage(1).config().sizes["4"].hole_ratio == 0.3
    assert summary["stages"][0]["patch"] == approved.to_json()
    assert "approved by a person, proposed by chat: more holes" in "\n".join(lines)


def test_old_checkpoints_are_removed_as_the_settings_say(tiny_settings: RunSettings, tmp_path: Path) -> None:
    settings = tiny_settings.model_copy(update={"steps_per_stage": 1, "save_total_limit": 1})
    _run(tmp_path / "run", settings)
    assert not (tmp_path / "run" / "stages" / "00" / "checkpoint").exists()
    assert (tmp_path / "run" / "stages" / "01" / "checkpoint" / "model.safetensors").is_file()


def test_a_stage_trained_before_the_engineer_failed_is_not_trained_again(
    finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(finished[0], broken)
    shutil.rmtree(broken / "stages" / "01")
    for name in ("DONE", "engineer/outcome.json", "engineer/patch.json"):
        (broken / "stages" / "00" / name).unlink(missing_ok=True)
    shutil.rmtree(broken / "heldout")
    with patch("envwright.training.stages.train_stage", wraps=train_stage) as trained:
        _run(broken, tiny_settings, resume=True)
    assert [call.kwargs["stage"] for call in trained.call_args_list] == [1]
    assert _bytes(broken) == _bytes(finished[0])


def test_runs_that_share_their_first_stage_end_as_if_each_had_trained_it(
    finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings, tmp_path: Path
) -> None:
    fixed = tiny_settings.model_copy(update={"engineer": "fixed"})
    shared = RunStore.create(tmp_path / "shared", fixed)
    assert run_stages(shared, fixed, Progress(lambda _: None), stop_before_engineer=0) is None
    assert shared.stage(0).trained
    assert not shared.stage(0).done
    branch = RunStore.branch(shared, tmp_path / "arm", tiny_settings)
    run_stages(branch, tiny_settings, Progress(lambda _: None))
    assert _bytes(tmp_path / "arm") == _bytes(finished[0])


def test_a_first_stage_is_shared_only_between_runs_that_agree_in_it(
    finished: tuple[Path, dict[str, Any], list[str]], tiny_settings: RunSettings, tmp_path: Path
) -> None:
    other = tiny_settings.model_copy(update={"seed": 5, "engineer": "fixed"})
    with pytest.raises(UserError, match="cannot be shared, for the settings differ in seed"):
        RunStore.branch(RunStore(finished[0]), tmp_path / "arm", other)
    assert not (tmp_path / "arm").exists()


def test_a_full_disk_is_one_clear_line_and_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    def write_old(folder: Path) -> None:
        (folder / "weights").write_text("old", encoding="utf-8")

    def write(folder: Path) -> None:
        (folder / "weights").write_text("new", encoding="utf-8")
        raise OSError(28, "No space left on device")

    commit(tmp_path / "checkpoint", write_old)
    with pytest.raises(UserError, match="checkpoint cannot be written: No space left on device; make room and continue with --resume"):
        commit(tmp_path / "checkpoint", write)
    assert fault(tmp_path / "checkpoint") is None
    assert (tmp_path / "checkpoint" / "weights").read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


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
    redesign = return_to(best, bad, worse, 0.05)
    assert redesign.config == good
    assert redesign.patch is not None
    assert apply_patch(bad, redesign.patch) == good
    assert redesign.diff == diff_configs(bad, good)
    assert redesign.stop_reason is StopReason.GATE
    assert "validation fell from 0.600 (stage 0) to 0.400" in redesign.note
