"""What TRL's trainer is told: the run's settings under TRL's names, and the course of the learning rate."""

from __future__ import annotations

import dataclasses
import difflib
import math
from typing import Any

from trl import GRPOConfig

from envwright.env.errors import UserError
from envwright.training.settings import GrpoSettings

__all__ = ["OWNED", "check_passed_on", "rate_factor", "trl_config"]

OWNED = (
    "output_dir",
    "seed",
    "data_seed",
    "max_steps",
    "shuffle_dataset",
    "save_strategy",
    "logging_steps",
    "report_to",
    "use_vllm",
    "vllm_mode",
    "use_cpu",
    "optim",
    "reward_weights",
    "chat_template_kwargs",
    "num_generations_eval",
    "eval_strategy",
    "trust_remote_code",
    "num_iterations",
    "weight_decay",
    "adam_beta1",
    "adam_epsilon",
    "lr_scheduler_kwargs",
    "logging_strategy",
    "push_to_hub",
    "steps_per_generation",
    "generation_batch_size",
)
"""Fields of GRPOConfig that envwright sets itself, besides those that have a setting of their own: every step has its own generation."""


_OF_OTHER_SAMPLERS = ("top_p", "top_k", "min_p", "repetition_penalty", "generation_kwargs")


def rate_factor(settings: GrpoSettings, done: int, last_step: int) -> float:
    """Return the share of the learning rate that the step after `done` steps takes, of `last_step` steps in the run."""
    if done < settings.warmup_steps:
        return (done + 1) / settings.warmup_steps
    left = (last_step - done) / max(1, last_step - settings.warmup_steps)
    match settings.lr_scheduler_type:
        case "linear":
            return left
        case "cosine":
            return (1.0 - math.cos(math.pi * left)) / 2
        case _:
            return 1.0


def check_passed_on(settings: GrpoSettings) -> None:
    """Refuse `grpo.trl` keys that TRL does not know or that are envwright's to set.

    Raises:
        UserError: names the key and what to do.
    """
    known = {field.name: field for field in dataclasses.fields(GRPOConfig)}
    for key, value in settings.trl.items():
        if key in GrpoSettings.model_fields and key != "trl":
            raise UserError(f"grpo.trl.{key}: this is a setting of its own; set grpo.{key}")
        if key in OWNED:
            raise UserError(f"grpo.trl.{key}: envwright sets this itself; leave it out")
        if key in _OF_OTHER_SAMPLERS and settings.sampler == "own":
            raise UserError(
                f"grpo.trl.{key}: envwright's own sampler draws from the whole distribution; set grpo.sampler to hf or vllm, or leave it out"
            )
        if key not in known:
            close = difflib.get_close_matches(key, list(known), n=1)
            meant = f"; did you mean {close[0]!r}?" if close else "; see TRL's documentation of GRPOConfig"
            raise UserError(f"grpo.trl.{key}: TRL's GRPOConfig has no such field{meant}")
        kind = str(known[key].type)
        is_number = ("float" in kind or "int" in kind) and not any(word in kind for word in ("str", "dict", "list"))
        if is_number and value is not None and not isinstance(value, int | float):
            raise UserError(f"grpo.trl.{key}: expected a number, got {value!r}")


def trl_config(
    settings: GrpoSettings, scratch: str, seed: int, *, use_cpu: bool, chat_template_kwargs: dict[str, Any] | None
) -> GRPOConfig:
    """Return TRL's config.

    Args:
        settings: the trainer's settings.
        scratch: folder for what TRL wants to write.
        seed: seed of the trainer.
        use_cpu: stay off the GPU.
        chat_template_kwargs: passed to the chat template; None where there is none.

    Raises:
        UserError: TRL refuses a value.
    """
    own = {
        "output_dir": scratch,
        "seed": seed,
        "num_train_epochs": 1,
        "learning_rate": settings.learning_rate,
        "adam_beta2": settings.adam_beta2,
        "num_generations": settings.num_generations,
        "per_device_train_batch_size": settings.per_device_train_batch_size,
        "gradient_accumulation_steps": settings.gradient_accumulation_steps,
        "max_completion_length": settings.max_completion_length,
        "temperature": settings.temperature,
        "beta": settings.beta,
        "loss_type": settings.loss_type,
        "scale_rewards": settings.scale_rewards,
        "max_grad_norm": settings.max_grad_norm,
        "bf16": settings.bf16,
        "gradient_checkpointing": settings.gradient_checkpointing,
        "shuffle_dataset": False,
        "use_cpu": use_cpu,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }
    if settings.sampler.startswith("vllm"):
        own |= {"use_vllm": True, "vllm_mode": "server" if settings.sampler == "vllm-server" else "colocate"}
    if chat_template_kwargs is not None:
        own["chat_template_kwargs"] = chat_template_kwargs
    try:
        return GRPOConfig(**{**own, **settings.trl})
    except (TypeError, ValueError) as error:
        raise UserError(f"grpo: TRL refuses the settings: {' '.join(str(error).split())[:300]}") from None
