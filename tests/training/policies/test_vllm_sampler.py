"""vLLM as a run's sampler, without vLLM: what is refused, and a whole run through TRL's own code with a stand-in for `vllm.LLM`.

The real one runs in `experiments/vllm_colocate.py`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from transformers import AutoModelForCausalLM
from trl.generation import vllm_generation

from envwright.env.errors import JobFailedError, MissingExtraError, UserError
from envwright.training.cli import main
from envwright.training.grpo import StepReport
from envwright.training.policies.causal_sampler import CausalSampler, SampledTokens
from envwright.training.policies.chat_policy import ChatPolicy
from envwright.training.policies.policy import run_policy
from envwright.training.policies.vllm_sampler import VllmEngine, check_vllm
from envwright.training.runstore import RunStore
from envwright.training.settings import GrpoSettings, RunSettings, load_settings
from envwright.training.stages import run_stages
from envwright.training.view.progress import Progress
from tests.agent.tiny_model import save_tiny_model

SMALL = [
    "num_stages=2",
    "steps_per_stage=1",
    "warm_start.max_steps=2",
    "warm_start.per_device_train_batch_size=2",
    "warm_start.learning_rate=0.2",
    "grpo.sampler=vllm",
    "grpo.per_device_train_batch_size=4",
    "grpo.num_generations=2",
    "grpo.max_completion_length=6",
    "grpo.save_steps=0",
    "grpo.no_signal_steps=0",
    "evaluation.validation_instances=2",
    "evaluation.heldout_instances=2",
    "evaluation.samples=2",
    "threads=1",
]


ENDS = [*range(60), 257]
"""End tokens of the model: so many that some of its random answers end."""


class StandIn:
    """What a run needs of `vllm.LLM`: weights of its own, loaded from a folder and pushed by name."""

    made: ClassVar[list[dict[str, Any]]] = []
    asked: ClassVar[list[Any]] = []

    def __init__(self, model: str, **options: Any) -> None:
        self.made.append(options)
        torch.manual_seed(1234)  # vLLM seeds the process that it starts in
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, options["dtype"]))
        runner = SimpleNamespace(model=self)
        executor = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner))
        self.parameters = self.model.parameters
        core = SimpleNamespace(shutdown=lambda: None)
        self.llm_engine = SimpleNamespace(model_executor=executor, model_config=SimpleNamespace(max_model_len=4096), engine_core=core)

    def load_weights(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        for name, value in weights:
            self.model.get_parameter(name).data.copy_(value)

    def reset_prefix_cache(self) -> None:
        pass

    def generate(self, prompts: list[dict[str, list[int]]], sampling_params: Any, use_tqdm: bool) -> list[Any]:
        assert not use_tqdm
        each = sampling_params if isinstance(sampling_params, list) else [sampling_params] * len(prompts)
        outputs = []
        for request, sampling in zip(prompts, each, strict=True):
            self.asked.append(sampling)
            seed = getattr(sampling, "seed", None) or len(self.asked)
            ids, ends = request["prompt_token_ids"], sampling.stop_token_ids
            greedy = sampling.temperature == 0
            if greedy and sampling.n > 1:
                raise ValueError("n must be 1 when using greedy sampling")
            (group,) = CausalSampler(self.model, ends, ends[0]).sample_with_logprobs(
                [ids], sampling.n, sampling.max_tokens, seed=None if greedy else seed, temperature=sampling.temperature or 1.0
            )
            outputs.append(SimpleNamespace(prompt_token_ids=ids, outputs=[_completion(sampled) for sampled in group]))
        return outputs


def _completion(sampled: SampledTokens) -> SimpleNamespace:
    pairs = zip(sampled.tokens, sampled.logprobs, strict=True)
    return SimpleNamespace(token_ids=sampled.tokens, logprobs=[{token: SimpleNamespace(rank=1, logprob=value)} for token, value in pairs])


class Steps(Progress):
    """Keeps the reports of all steps."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.reports: list[StepReport] = []

    def step(self, report: StepReport, steps: int) -> None:
        self.reports.append(report)
        super().step(report, steps)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[StandIn]:
    module = ModuleType("vllm")
    module.__dict__.update(LLM=StandIn, SamplingParams=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda: True)
    monkeypatch.setattr(vllm_generation, "LLM", StandIn, raising=False)
    monkeypatch.setattr(vllm_generation, "SamplingParams", SimpleNamespace, raising=False)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(StandIn, "made", [])
    monkeypatch.setattr(StandIn, "asked", [])
    return StandIn


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"), context=2048, ends=ENDS)


def _settings(model: Path, *more: str) -> RunSettings:
    return load_settings("smollm2", [*SMALL, f"policy={model}", *more], "rule")


def _run(folder: Path, settings: RunSettings, *, resume: bool = False) -> list[StepReport]:
    policy, steps = run_policy(settings), Steps()
    store = RunStore.resume(folder, settings) if resume else RunStore.create(folder, settings, policy.provenance())
    run_stages(store, settings, steps, policy=policy)
    return steps.reports


def _installed(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    """Make it look as if vLLM of a version were installed, or none."""
    find: Callable[..., Any] = importlib.util.find_spec
    real = importlib.metadata.version
    there = None if version is None else object()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: there if name == "vllm" else find(name, *rest))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version if name == "vllm" and version else real(name))


def test_a_run_without_vllm_is_one_line_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _installed(monkeypatch, None)
    assert main(["run", "smollm2", "--set", "grpo.sampler=vllm", "--out", str(tmp_path / "run")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "envwright run: grpo.sampler vllm needs 'vllm', which is not installed: pip install 'envwright[vllm]'"
    ]
    assert not (tmp_path / "run").exists()


def test_other_samplers_need_no_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, None)
    check_vllm(GrpoSettings(sampler="own"))
    with pytest.raises(MissingExtraError):
        check_vllm(GrpoSettings(sampler="vllm-server"))


@pytest.mark.parametrize("version", ["0.21.9", "0.32.0", "1.0.0", "unknown"])
def test_versions_that_trl_does_not_take_are_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _installed(monkeypatch, version)
    with pytest.raises(UserError, match=rf"vllm {version} is installed, TRL takes 0.22 to 0.31; pip install 'vllm>=0.22,<=0.31'"):
        check_vllm(GrpoSettings(sampler="vllm"))


@pytest.mark.parametrize("version", ["0.22.0", "0.31.0+cpu"])
def test_versions_that_trl_takes_are_not_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _installed(monkeypatch, version)
    check_vllm(GrpoSettings(sampler="vllm"))


def test_an_engine_split_over_gpus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, "0.31.0")
    with pytest.raises(UserError, match=r"vllm_tensor_parallel_size 2: .* leave it out, or .* vllm-server"):
        check_vllm(GrpoSettings(sampler="vllm", trl={"vllm_tensor_parallel_size": 2}))


def test_importing_the_sampler_imports_neither_vllm_nor_torch() -> None:
    code = "import sys, envwright.training.policies.vllm_sampler; print([name for name in ('vllm', 'torch', 'trl') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_one_engine_serves_all_stages_and_measurements_and_its_weights_follow(stand_in: type[StandIn], model: Path, tmp_path: Path) -> None:
    reports = _run(tmp_path / "run", _settings(model))
    assert [report.step for report in reports] == [1, 1]
    assert [options["dtype"] for options in stand_in.made] == ["float32"]
    assert max(report.logp_gap for report in reports) < 1e-4
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & set(os.environ), "a later trainer would take this for a launch of several"


def test_weights_that_stay_behind_stop_the_run(
    stand_in: type[StandIn], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand_in, "load_weights", lambda *_: None)
    with pytest.raises(JobFailedError, match=r"the sampler's weights did not follow the trainer's: .* nats apart .*grpo.max_logp_gap 0.1"):
        _run(tmp_path / "run", _settings(model))


def test_an_engine_follows_the_checkpoint_that_a_run_goes_on_from(stand_in: type[StandIn], model: Path, tmp_path: Path) -> None:
    settings = _settings(model)
    _run(tmp_path / "run", settings)
    for part in ("DONE", "TRAINED"):
        (tmp_path / "run" / "stages" / "01" / part).unlink()
    for name in ("summary.json", "heldout/final_greedy.jsonl", "heldout/final_sampled.jsonl"):
        (tmp_path / "run" / name).unlink()
    reports = _run(tmp_path / "run", settings, resume=True)
    assert reports
    assert max(report.logp_gap for report in reports) < 1e-4
    assert len(stand_in.made) == 2


def test_a_lent_engine_samples_as_the_trainer_says(stand_in: type[StandIn], model: Path, tmp_path: Path) -> None:
    _run(
        tmp_path / "run", _settings(model, "num_stages=1", "warm_start=null", "grpo.temperature=0.7", 'grpo.trl={"top_p": 0.9, "top_k": 5}')
    )
    training = [sampling for sampling in stand_in.asked if hasattr(sampling, "top_p")]
    assert {(sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens) for sampling in training} == {(0.7, 0.9, 5, 6)}
    measuring = [sampling for sampling in stand_in.asked if not hasattr(sampling, "top_p")]
    assert {sampling.temperature for sampling in measuring} == {0.0, 1.0}
    assert {tuple(sampling.stop_token_ids) for sampling in stand_in.asked} == {tuple(ENDS)}


def test_the_noise_depends_on_the_seed_and_the_place_of_a_prompt(stand_in: type[StandIn], model: Path) -> None:
    settings = _settings(model)
    policy = run_policy(settings)
    assert isinstance(policy, ChatPolicy)
    before = torch.get_rng_state()
    sampler = VllmEngine(policy, settings.grpo).sampler()
    assert torch.equal(torch.get_rng_state(), before), "when the engine starts must not change what training draws"
    prompts = [[1, 2, 3], [1, 2, 3]]
    first = sampler.sample(prompts, 3, 8, seed=5)
    assert first == sampler.sample(prompts, 3, 8, seed=5)
    assert first != sampler.sample(prompts, 3, 8, seed=6)
    assert first[0] != first[1]
    assert [len(group) for group in first] == [3, 3]
    greedy = sampler.sample(prompts, 2, 8, seed=None)
    assert greedy[0][0] == greedy[0][1] == greedy[1][0]
    assert len(stand_in.made) == 1


def test_an_engine_that_does_not_start_is_one_line(stand_in: type[StandIn], model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("No available memory\nfor the cache blocks.")

    monkeypatch.setattr(stand_in, "__init__", fail)
    settings = _settings(model)
    with pytest.raises(UserError, match=r"^grpo.sampler vllm: vLLM does not start: No available memory for the cache blocks.$"):
        VllmEngine(run_policy(settings), settings.grpo).sampler()


def test_an_engine_that_has_repacked_its_weights_is_refused(stand_in: type[StandIn], model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Repacked(stand_in):  # type: ignore[misc, valid-type]
        def __init__(self, model: str, **options: Any) -> None:
            super().__init__(model, **options)
            self.model.model.layers[0].mlp.up_proj.weight = torch.nn.Parameter(torch.empty(0))

    monkeypatch.setattr(vllm_generation, "LLM", Repacked)
    settings = _settings(model)
    with pytest.raises(UserError, match=r"on a CPU vLLM repacks its weights .*; set grpo.sampler to own, or train on a GPU$"):
        VllmEngine(run_policy(settings), settings.grpo).sampler()
