"""What a GRPO step and a sampled token cost, as ratios of contenders that take turns on this machine in one run.

    python bench/samplers.py [--quick] [--threads 1] [--only steps,tokens,shares] [--clock cpu] [--device cpu]

steps: the pocket policy, seconds per step of `train_stage`, of a bare TRL trainer with the same sampler and reward, and of a bare TRL
trainer as it is best set up for a CPU with its own `generate`. Every round, each trains on the same boards from the base weights.
tokens: SmolLM2, tokens per second of transformers' `generate`, of envwright's sampler, and of vLLM where it is installed.
shares: where the time of a step goes, in percent; the pocket policy, and SmolLM2 without --quick.

Times are processor times of this process, which a busy neighbour changes little; with --clock wall, or where vLLM or a GPU takes part,
they are what a clock on the wall shows. --device says where SmolLM2 samples.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from datasets import Dataset
from transformers import PrinterCallback, ProgressCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from envwright.env.generator import generate
from envwright.env.grading import grade_completion
from envwright.env.instance import Instance
from envwright.training.grpo import train_stage
from envwright.training.policies.causal_sampler import CausalSampler
from envwright.training.policies.pocket_sampler import PocketSampler
from envwright.training.policies.policy import Policy, load_policy
from envwright.training.rewards import reward
from envwright.training.settings import GrpoSettings, load_settings

SECTIONS = ("steps", "tokens", "shares")
BARE_BAR, GENERATE_BAR, TOKENS_BAR = 1.1, 1.15, 2.0
COMPLETIONS, NEW_TOKENS = 8, 48
Clock = Callable[[], float]
Steps = Callable[[Sequence[Instance], GrpoSettings], list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer prompts; about three minutes instead of fifteen")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=["cpu", "wall"], default="cpu")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"sections: {','.join(SECTIONS)}")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if not set(chosen) <= set(SECTIONS):
        parser.error(f"--only knows {', '.join(SECTIONS)}")
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.clock == "cpu" else time.perf_counter
    print(f"torch {torch.__version__}, {arguments.threads} threads, {arguments.clock} time", flush=True)
    if "steps" in chosen:
        report_steps(clock, rounds=2 if arguments.quick else 5, steps=2 if arguments.quick else 3)
    if "tokens" in chosen:
        for dtype in [torch.bfloat16] if arguments.quick else [torch.float32, torch.bfloat16]:
            report_tokens(clock, arguments.device, dtype, prompts=4 if arguments.quick else 8, rounds=1 if arguments.quick else 3)
    if "shares" in chosen:
        report_shares(clock, "pocket", boards=64, steps=2 if arguments.quick else 4, length=48)
        if not arguments.quick:
            report_shares(clock, "smollm2", boards=8, steps=1, length=NEW_TOKENS)
    return 0


def report_steps(clock: Clock, rounds: int, steps: int) -> None:
    """Print the median seconds per step of each contender, and ratios."""
    contenders: dict[str, Steps] = {
        "envwright": lambda boards, settings: envwright_steps(clock, boards, settings),
        "bare TRL, same sampler": lambda boards, settings: bare_steps(clock, boards, settings, own_sampler=True),
        "bare TRL, its generate": lambda boards, settings: bare_steps(clock, boards, settings, own_sampler=False),
    }
    run = load_settings("demo", [])
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        boards = generate(run.config, (steps + 1) * run.grpo.boards_per_step, seed=number, key=("bench", "samplers")).instances
        for name in list(contenders)[number % 3 :] + list(contenders)[: number % 3]:
            seconds[name] += contenders[name](boards, run.grpo)
    print(f"\npocket, {run.grpo.boards_per_step} boards x {run.grpo.num_generations} completions, {rounds} rounds of {steps} steps each")
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        print(f"  {name:<24}{medians[name]:6.2f} s/step  (from {min(values):.2f} to {max(values):.2f})")
    ours, bare, default = medians.values()
    print(f"  envwright / bare TRL with the same sampler: {ours / bare:.2f} (bar: at most {BARE_BAR})")
    print(f"  TRL with its generate / envwright: {default / ours:.2f} (bar: at least {GENERATE_BAR})")
    print(f"  TRL with its generate / bare TRL with the same sampler: {default / bare:.2f}", flush=True)


def envwright_steps(clock: Clock, boards: Sequence[Instance], settings: GrpoSettings) -> list[float]:
    """Return the seconds of each step but the first."""
    ticks: list[float] = []
    _train(load_policy("pocket"), boards, settings, lambda: ticks.append(clock()))
    return _differences(ticks)


def bare_steps(clock: Clock, boards: Sequence[Instance], settings: GrpoSettings, *, own_sampler: bool) -> list[float]:
    """Return the seconds of each step but the first of a plain GRPOTrainer that only samples, grades and learns."""
    policy = load_policy("pocket")

    def rollout_func(prompts: list[str], trainer: Any) -> dict[str, Any]:
        group = settings.num_generations
        unique = [policy.encode(prompt) for prompt in prompts[::group]]
        samples = PocketSampler(policy.model).sample(unique, group, settings.max_completion_length, seed=trainer.state.global_step)
        return {
            "prompt_ids": [ids for ids in unique for _ in range(group)],
            "completion_ids": [tokens for completions in samples for tokens in completions],
            "logprobs": None,
        }

    def rewards(completion_ids: list[list[int]], index: list[int], **_: Any) -> list[float]:
        graded = [(boards[place], policy.text(tokens)) for place, tokens in zip(index, completion_ids, strict=True)]
        return [reward(board, grade_completion(board, text), settings.efficiency_weight) for board, text in graded]

    ticker = _Ticker(clock)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = GRPOTrainer(
            model=policy.model,
            reward_funcs=rewards,
            args=GRPOConfig(
                output_dir=scratch,
                learning_rate=settings.learning_rate,
                num_generations=settings.num_generations,
                per_device_train_batch_size=settings.per_device_train_batch_size,
                gradient_accumulation_steps=settings.gradient_accumulation_steps,
                max_completion_length=settings.max_completion_length,
                max_grad_norm=settings.max_grad_norm,
                scale_rewards=settings.scale_rewards,
                num_train_epochs=1,
                shuffle_dataset=False,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                dataloader_pin_memory=False,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict({"prompt": [policy.prompt(board) for board in boards], "index": list(range(len(boards)))}),
            processing_class=policy.tokenizer,
            callbacks=[ticker],
            rollout_func=rollout_func if own_sampler else None,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        trainer.train()
    return _differences(ticker.ticks)


class _Ticker(TrainerCallback):
    """Notes when each step was logged, which is when `train_stage` reports one."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.ticks: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:  # noqa: ARG002
        if logs is not None and "loss" in logs:
            self.ticks.append(self.clock())


def report_tokens(clock: Clock, device: str, dtype: torch.dtype, prompts: int, rounds: int) -> None:
    """Print tokens per second of each sampler of SmolLM2 on the same chat prompts, the median of rounds in turn."""
    policy = load_policy("smollm2")
    policy.model.to(device, dtype)
    boards = generate(load_settings("demo", []).config, prompts, seed=0, key=("bench", "samplers")).instances
    encoded = [policy.encode(policy.prompt(board)) for board in boards]
    ends = policy.model.generation_config.eos_token_id
    eos_ids = ends if isinstance(ends, list) else [ends]
    contenders: dict[str, Callable[[int], list[list[int]]]] = {
        "transformers generate": lambda seed: _generated(policy, encoded, eos_ids, seed),
        "envwright": lambda seed: _own(policy, encoded, eos_ids, seed),
    }
    if importlib.util.find_spec("vllm") is not None:
        contenders["vLLM"] = _vllm(policy, encoded, eos_ids, dtype)
    if "vLLM" in contenders or device == "cuda":
        clock = time.perf_counter
    if device == "cuda":  # the first call loads kernels
        for sample in contenders.values():
            sample(rounds)
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, sample in contenders.items():
            begin = clock()
            tokens = sum(len(completion) for completion in sample(number))
            speeds[name].append(tokens / (clock() - begin))
    lengths = [len(ids) for ids in encoded]
    print(
        f"\nsmollm2 on {device}, {str(dtype).removeprefix('torch.')}: {prompts} prompts of {min(lengths)} to {max(lengths)} tokens x {COMPLETIONS} "
        f"completions x {NEW_TOKENS} tokens, {rounds} rounds"
    )
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    for name, values in speeds.items():
        print(f"  {name:<24}{medians[name]:7.1f} tokens/s  (from {min(values):.1f} to {max(values):.1f})")
    print(f"  envwright / transformers generate: {medians['envwright'] / medians['transformers generate']:.2f} (bar: {TOKENS_BAR})")
    if "vLLM" not in contenders:
        print("  vLLM is not installed here")
    sys.stdout.flush()


def _own(policy: Policy, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int], seed: int) -> list[list[int]]:
    sampler = CausalSampler(policy.model, eos_ids, policy.tokenizer.pad_token_id)
    return [completion for group in sampler.sample(prompts, COMPLETIONS, NEW_TOKENS, seed=seed) for completion in group]


def _generated(policy: Policy, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int], seed: int) -> list[list[int]]:
    """Sample as TRL does it: every prompt repeated, padded on the left."""
    torch.manual_seed(seed)
    longest, pad = max(len(prompt) for prompt in prompts), policy.tokenizer.pad_token_id
    repeated = [prompt for prompt in prompts for _ in range(COMPLETIONS)]
    output = policy.model.generate(
        input_ids=torch.tensor([[pad] * (longest - len(prompt)) + list(prompt) for prompt in repeated], device=policy.model.device),
        attention_mask=torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in repeated], device=policy.model.device),
        max_new_tokens=NEW_TOKENS,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=list(eos_ids),
        pad_token_id=pad,
    )
    rows = output[:, longest:].tolist()
    return [row[: next((place + 1 for place, token in enumerate(row) if token in eos_ids), len(row))] for row in rows]


def _vllm(policy: Policy, prompts: Sequence[Sequence[int]], eos_ids: Sequence[int], dtype: torch.dtype) -> Callable[[int], list[list[int]]]:
    from vllm import LLM, SamplingParams

    from envwright.agent.smollm2 import smollm2_folder

    engine = LLM(str(smollm2_folder()), dtype=str(dtype).removeprefix("torch."), max_model_len=policy.context, seed=0)

    def sample(seed: int) -> list[list[int]]:
        sampling = SamplingParams(n=COMPLETIONS, max_tokens=NEW_TOKENS, temperature=1.0, seed=seed, stop_token_ids=list(eos_ids))
        outputs = engine.generate([{"prompt_token_ids": list(prompt)} for prompt in prompts], sampling, use_tqdm=False)
        return [list(completion.token_ids) for output in outputs for completion in output.outputs]

    return sample


def report_shares(clock: Clock, spec: str, boards: int, steps: int, length: int) -> None:
    """Print where the time of `train_stage` goes, the first step left out where there are others."""
    policy = load_policy(spec)
    run = load_settings("demo", [])
    batch = {"per_device_train_batch_size": boards * run.grpo.num_generations, "max_completion_length": length}
    settings = run.grpo.model_copy(update={**batch, "step_credit": policy.tokens_per_step})
    stopwatch = _Stopwatch(clock)
    taken: list[dict[str, float]] = []
    ticks: list[float] = [clock()]

    def on_step() -> None:
        ticks.append(clock())
        taken.append(dict(stopwatch.seconds))
        stopwatch.seconds.clear()

    count = boards * (steps + (spec == "pocket"))
    with stopwatch.watching(type(policy.sampler())):
        _train(policy, generate(run.config, count, seed=0, key=("bench", "samplers")).instances, settings, on_step)
    seconds = [end - begin for begin, end in pairwise(ticks)]
    if len(taken) > 1:
        taken, seconds = taken[1:], seconds[1:]
    whole = sum(seconds)
    print(f"\nwhere a step goes: {spec}, {boards} boards x {run.grpo.num_generations} completions, {whole / len(seconds):.2f} s/step")
    named = 0.0
    for name in ("generation", "forward", "backward", "optimizer", "grading"):
        part = sum(entry.get(name, 0.0) for entry in taken)
        named += part
        print(f"  {name:<12}{100 * part / whole:5.1f} %")
    print(f"  {'other':<12}{100 * (whole - named) / whole:5.1f} %", flush=True)


def _train(policy: Policy, boards: Sequence[Instance], settings: GrpoSettings, on_step: Callable[[], None]) -> None:
    train_stage(
        policy,
        boards,
        settings,
        stage=0,
        efficiency=settings.efficiency_weight,
        first_step=0,
        last_step=1000,
        seed=0,
        optimizer_state=None,
        on_step=lambda _: on_step(),
    )


def _differences(ticks: Sequence[float]) -> list[float]:
    return [end - begin for begin, end in pairwise(ticks)]


class _Stopwatch:
    """Adds up the time inside functions; what runs inside another one counts there alone."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[tuple[str, float]] = []

    @contextmanager
    def watching(self, sampler: type[Any]) -> Iterator[None]:
        """Time a trainer's parts while this is entered."""
        from accelerate import Accelerator

        with ExitStack() as stack:
            for name, owner, method in (
                ("generation", sampler, "sample"),
                ("forward", GRPOTrainer, "_compute_loss"),
                ("backward", Accelerator, "backward"),
                ("optimizer", torch.optim.AdamW, "step"),
                ("grading", GRPOTrainer, "_calculate_rewards"),
            ):
                stack.enter_context(patch.object(owner, method, self._timed(name, getattr(owner, method))))
            yield

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = self.clock()
            if self._open:
                outer, since = self._open[-1]
                self.seconds[outer] += begin - since
            self._open.append((name, begin))
            try:
                return function(*args, **kwargs)
            finally:
                end = self.clock()
                _, since = self._open.pop()
                self.seconds[name] += end - since
                if self._open:
                    self._open[-1] = (self._open[-1][0], end)

        return timed


if __name__ == "__main__":
    sys.exit(main())
