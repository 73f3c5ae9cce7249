"""A warm start: supervised fine-tuning on the solver's plans before the first stage, with TRL's SFTTrainer.

A base model that never answers in the right format, or never solves a board, gives GRPO no signal. Prompts are exactly those of
the stages that follow, token for token; the loss is taken on the answers alone. Each step has boards of its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, ProgressCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import SFTConfig, SFTTrainer

from envwright.env.errors import JobFailedError
from envwright.env.instance import Instance
from envwright.env.seeding import derive_seed
from envwright.env.solver import solve
from envwright.training.policies.policy import Policy
from envwright.training.processes import plain_model
from envwright.training.settings import WarmStartSettings
from envwright.training.sharded import is_weight_sharded, whole_state

__all__ = ["WarmStep", "warm_start"]

_IGNORED = -100
"""Label of tokens that the loss leaves out."""


@dataclass(frozen=True, slots=True)
class WarmStep:
    """What one optimizer step did."""

    step: int
    """Step, from 1."""
    loss: float
    """Mean negative log-probability of answer tokens, in nats."""
    accuracy: float
    """Share of answer tokens that were the most likely ones."""
    grad_norm: float
    """Gradient norm before clipping."""
    seconds: float
    """Wall-clock time."""


def warm_start(
    policy: Policy,
    instances: Sequence[Instance],
    settings: WarmStartSettings,
    *,
    seed: int,
    bf16: bool,
    gradient_checkpointing: bool,
    on_step: Callable[[WarmStep], None],
) -> list[WarmStep]:
    """Train the policy, in place, on the solver's plans of the instances, taken in order.

    Args:
        policy: the policy; its weights change.
        instances: boards, `settings.instances` of them.
        settings: the trainer's settings.
        seed: seed of the run.
        bf16: compute in bfloat16.
        gradient_checkpointing: compute activations twice instead of keeping them.
        on_step: called with every step's report.

    Returns:
        One report per optimizer step.

    Raises:
        JobFailedError: the loss stopped being finite.
    """
    reporter = _Reporter(on_step)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = SFTTrainer(
            model=policy.model,
            args=SFTConfig(
                output_dir=scratch,
                seed=derive_seed(seed, "warm-start"),
                max_steps=settings.max_steps,
                per_device_train_batch_size=settings.per_device_train_batch_size,
                gradient_accumulation_steps=settings.gradient_accumulation_steps,
                learning_rate=settings.learning_rate,
                lr_scheduler_type=settings.lr_scheduler_type,
                warmup_steps=settings.warmup_steps,
                max_grad_norm=settings.max_grad_norm,
                max_length=None,
                completion_only_loss=False,
                bf16=bf16,
                gradient_checkpointing=gradient_checkpointing,
                use_cpu=policy.model.device.type == "cpu",
                dataloader_num_workers=0,
                dataloader_pin_memory=False,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list([_example(policy, instance) for instance in instances]),
            processing_class=policy.tokenizer,
            callbacks=[reporter],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        trainer.train()
    policy.model = policy.rebuilt(whole_state(policy.model)) if is_weight_sharded() else plain_model(trainer.accelerator, policy.model)
    return reporter.steps


def _example(policy: Policy, instance: Instance) -> dict[str, Any]:
    """Return a board's prompt and an optimal plan as one sequence, with labels on the plan."""
    prompt = policy.encode(policy.prompt(instance))
    plan = solve(instance.size, instance.holes, instance.starts, instance.goals).plan
    if plan is None:
        raise ValueError(f"board {instance.id} has no plan within the solver's budget")
    answer = policy.answer_ids(instance, plan)
    return {"input_ids": prompt + answer, "labels": [_IGNORED] * len(prompt) + answer}


class _Reporter(TrainerCallback):
    """Turns the trainer's logs into step reports."""

    def __init__(self, on_step: Callable[[WarmStep], None]) -> None:
        self.on_step = on_step
        self.steps: list[WarmStep] = []
        self.begin = time.monotonic()

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002  # transformers passes it by name
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Called after every optimizer step, and once at the end without a loss."""
        if logs is None or "loss" not in logs:
            return
        now = time.monotonic()
        step = WarmStep(
            step=state.global_step,
            loss=float(logs["loss"]),
            accuracy=float(logs.get("mean_token_accuracy", 0.0)),
            grad_norm=float(logs.get("grad_norm", 0.0)),
            seconds=now - self.begin,
        )
        self.begin = now
        if not torch.isfinite(torch.tensor([step.loss, step.grad_norm])).all():
            raise JobFailedError(f"warm start: loss {step.loss} at step {step.step}: lower warm_start.learning_rate")
        self.steps.append(step)
        self.on_step(step)
