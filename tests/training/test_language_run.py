"""A language model through the whole loop, tiny but real: warm start, GRPO, itself as engineer, resume, adapters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from envwright.env.errors import JobFailedError, UserError
from envwright.env.generator import generate
from envwright.env.rollout import Rollout
from envwright.training.boards import check_boards_follow
from envwright.training.evaluation import rollout_of
from envwright.training.policies.chat_policy import bare_policy
from envwright.training.policies.policy import load_policy, run_policy, sample_boards
from envwright.training.runstore import RunStore, StageFolder
from envwright.training.settings import RunSettings, load_settings
from envwright.training.stages import run_stages
from envwright.training.view.progress import Progress
from tests.agent.tiny_model import save_tiny_model

SMALL = [
    "num_stages=2",
    "steps_per_stage=2",
    "warm_start.max_steps=2",
    "warm_start.per_device_train_batch_size=2",
    "grpo.per_device_train_batch_size=8",
    "grpo.num_generations=4",
    "grpo.max_completion_length=8",
    "grpo.save_steps=1",
    "grpo.no_signal_steps=0",
    "evaluation.validation_instances=4",
    "evaluation.heldout_instances=4",
    "evaluation.samples=2",
    "threads=1",
]


def _paid_by_its_bytes(*arguments: Any) -> Rollout:
    rollout = rollout_of(*arguments)
    return rollout.model_copy(update={"reward": float(sum(rollout.completion.encode()) % 3)})


@pytest.fixture(scope="module", autouse=True)
def _rewards_that_differ() -> Iterator[None]:
    """An untrained model solves nothing, and equal rewards would train nothing."""
    with patch("envwright.training.grpo.rollout_of", _paid_by_its_bytes):
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def _settings(model: Path, *more: str) -> RunSettings:
    return load_settings("smollm2", [*SMALL, f"policy={model}", *more], "policy")


def _run(folder: Path, settings: RunSettings, *, resume: bool = False) -> tuple[dict[str, Any], str]:
    lines: list[str] = []
    policy = run_policy(settings)
    store = RunStore.resume(folder, settings) if resume else RunStore.create(folder, settings, policy.provenance())
    summary = run_stages(store, settings, Progress(lines.append), policy=policy)
    assert summary is not None
    return summary, "\n".join(lines)


def _bytes(folder: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: content for name, content in files.items() if name not in ("events.jsonl", "summary.json")}


@pytest.fixture(scope="module")
def finished(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunSettings, dict[str, Any], str]:
    folder, settings = tmp_path_factory.mktemp("runs") / "run", _settings(model)
    return folder, settings, *_run(folder, settings)


def test_the_model_in_training_is_its_own_engineer(finished: tuple[Path, RunSettings, dict[str, Any], str]) -> None:
    folder, _, summary, _ = finished
    transcript = (folder / "stages" / "00" / "engineer" / "transcript.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(transcript[0])["model"] == "policy"
    assert summary["stages"][0]["usage"]["requests"] >= 1
    assert summary["stages"][0]["usage"]["completion_tokens"] > 0
    assert summary["stages"][0]["stop_reason"] != "model_error"


def test_a_warm_start_is_told_and_kept_with_its_metrics(finished: tuple[Path, RunSettings, dict[str, Any], str]) -> None:
    folder, _, summary, text = finished
    assert "== warm start: 2 steps of supervised fine-tuning on the solver's plans of 4 boards (3x3, 4x4) ==" in text
    assert "after the warm start" in text
    metrics = [json.loads(line) for line in (folder / "warm_start" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in metrics] == [1, 2]
    assert all(line["loss"] > 0 for line in metrics)
    assert {"greedy", "sampled"} == summary["warm_start"].keys()


def test_run_json_names_the_prompt_and_hashes_its_templates(finished: tuple[Path, RunSettings, dict[str, Any], str]) -> None:
    about = json.loads((finished[0] / "run.json").read_text(encoding="utf-8"))["policy"]
    assert about["kind"] == "chat"
    assert about["prompt_version"] == 1
    assert len(about["prompt_sha256"]) == len(about["chat_template_sha256"]) == 64


def test_the_stages_train(finished: tuple[Path, RunSettings, dict[str, Any], str]) -> None:
    metrics = (finished[0] / "stages" / "01" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert all(json.loads(line)["grad_norm"] > 0 for line in metrics)


@pytest.mark.parametrize("killed", ["in the warm start", "inside stage 1", "before the engineer"])
def test_a_killed_run_of_a_language_model_ends_with_the_same_bytes(
    finished: tuple[Path, RunSettings, dict[str, Any], str], killed: str, tmp_path: Path
) -> None:
    folder, settings, _, _ = finished
    broken = tmp_path / "broken"
    name, stage = {
        "in the warm start": ("write_metrics", "warm_start"),
        "inside stage 1": ("write_checkpoint", "01"),
        "before the engineer": ("write_decision", "00"),
    }[killed]
    original = getattr(StageFolder, name)

    def kill(self: StageFolder, *arguments: Any) -> None:
        if self.path.name == stage:
            raise KeyboardInterrupt
        original(self, *arguments)

    with patch.object(StageFolder, name, kill), pytest.raises(KeyboardInterrupt):
        _run(broken, settings)
    _, text = _run(broken, settings, resume=True)
    assert _bytes(broken) == _bytes(folder)
    assert ("going on after step 1 of 2" in text) == (killed == "inside stage 1")


def test_transformers_own_generate_can_be_the_sampler_and_resumes_to_the_same_bytes(model: Path, tmp_path: Path) -> None:
    settings = _settings(model, "grpo.sampler=hf", "warm_start=null", "num_stages=1")
    _run(tmp_path / "whole", settings)
    original = StageFolder.write_checkpoint

    def kill(self: StageFolder, *arguments: Any) -> None:
        raise KeyboardInterrupt

    with patch.object(StageFolder, "write_checkpoint", kill), pytest.raises(KeyboardInterrupt):
        _run(tmp_path / "broken", settings)
    assert StageFolder.write_checkpoint is original
    _run(tmp_path / "broken", settings, resume=True)
    assert _bytes(tmp_path / "broken") == _bytes(tmp_path / "whole")


def test_adapters_are_trained_and_saved_alone(model: Path, tmp_path: Path) -> None:
    settings = _settings(model, "lora.r=2", "num_stages=1")
    _run(tmp_path / "run", settings)
    checkpoint = tmp_path / "run" / "stages" / "00" / "checkpoint"
    assert (checkpoint / "adapter_model.safetensors").is_file()
    assert not (checkpoint / "model.safetensors").exists()
    before, after = run_policy(settings).model.state_dict(), load_policy(str(checkpoint)).model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all("lora" in name for name in changed)


def test_without_any_signal_the_run_stops_and_says_where(model: Path, tmp_path: Path) -> None:
    settings = _settings(model, "grpo.no_signal_steps=2", "warm_start=null")
    with (
        patch("envwright.training.grpo.rollout_of", rollout_of),
        pytest.raises(JobFailedError, match=r"step 2: no learning signal for 2 steps.*3x3 mostly parse_error.*4x4 mostly"),
    ):
        _run(tmp_path / "run", settings)


def test_prompts_that_do_not_fit_are_left_out_and_counted(model: Path, tmp_path: Path) -> None:
    policy = load_policy(str(model))
    config = _settings(model).config
    assert config.sizes.keys() == {"3", "4"}
    settings = _settings(
        model, "warm_start=null", "num_stages=1", "config.sizes.4.hole_ratio=0.3", "evaluation.config.sizes.4.hole_ratio=0.3"
    )
    boards = generate(settings.config, settings.instances_per_stage, seed=0, key=("stage", 0)).instances
    lengths = sorted(len(policy.encode(run_policy(settings).prompt(board))) for board in boards)
    shorter = [length for length in lengths if length < lengths[-1]]
    limit = shorter[-1]
    settings = settings.model_copy(update={"grpo": settings.grpo.model_copy(update={"max_prompt_length": limit})})
    _, text = _run(tmp_path / "run", settings)
    kept = (tmp_path / "run" / "stages" / "00" / "instances.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(kept) == len(shorter)
    assert f"{len(lengths) - len(shorter)} boards of stage 0 left out" in text


@pytest.mark.parametrize("more", [[], ["lora.r=2"]], ids=["all weights", "adapters"])
def test_a_reference_model_lasts_over_saved_parts_and_stages(model: Path, tmp_path: Path, more: list[str]) -> None:
    settings = _settings(model, "grpo.beta=0.1", "warm_start=null", "num_stages=1", *more).model_copy(update={"engineer": "fixed"})
    _run(tmp_path / "run", settings)
    saved = tmp_path / "run" / "stages" / "00" / "checkpoint"
    assert not list(saved.rglob("*ref*"))


def test_a_size_whose_prompts_are_all_too_long_is_no_reason_to_doubt_the_generator(model: Path) -> None:
    before, after = _settings(model).config, _settings(model, "config.sizes.4.hole_ratio=0.3").config
    boards = [board for board in generate(before, 8, seed=0).instances if board.size == 3]
    check_boards_follow(before, boards, after, boards)


def test_a_prompt_beyond_the_context_is_one_line(model: Path, tmp_path: Path) -> None:
    policy = load_policy(str(save_tiny_model(tmp_path / "short", context=64)))
    with pytest.raises(UserError, match=r"a prompt of .* tokens leaves no room for an answer of 128 in the context of .* \(64\)"):
        sample_boards(policy, generate(_settings(model).config, 1, seed=0).instances, 1, seed=None)


def test_a_broken_tokenizer_is_one_line_before_any_work(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "broken")
    (tmp_path / "broken" / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be loaded"):
        bare_policy(_settings(tmp_path / "broken"))


def test_step_credit_is_refused_for_a_model_without_steps(model: Path) -> None:
    with pytest.raises(UserError, match="step_credit needs a policy that writes one token per agent and timestep"):
        run_policy(_settings(model, "grpo.step_credit=true"))


def test_a_finished_language_run_serves_its_probe_and_its_policy_later(
    finished: tuple[Path, RunSettings, dict[str, Any], str], tmp_path: Path
) -> None:
    from envwright.training.evidence import run_evidence

    shutil.copytree(finished[0], tmp_path / "run")
    evidence = run_evidence(RunStore.open(tmp_path / "run"))
    assert evidence.probe is not None
    groups = evidence.probe([evidence.rollouts[0].instance])
    assert [len(group) for group in groups] == [4]
