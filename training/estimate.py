"""What a run will take, before it begins: boards, completions, prompt lengths, and memory by the sizes of weights and activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envwright.env.errors import UserError
from envwright.env.generator import generate
from envwright.training.policies.policy import is_pocket, load_policy
from envwright.training.settings import RunSettings

__all__ = ["estimate"]

_TRIED = 64
"""Boards whose prompts are measured."""
_BYTES = {"float32": 4, "bfloat16": 2}
_LOGITS_COPIES = 4
"""Tensors of the size of the logits that a step of GRPO holds at its peak: logits, their softmax, and gradients."""


def estimate(settings: RunSettings) -> Iterator[str]:
    """Yield lines that a person reads before starting a run. Weights of a language model are not loaded; one that is not there is named."""
    boards, grpo = settings.instances_per_stage, settings.grpo
    counts = settings.config.counts(boards)
    yield (
        f"each stage: {settings.steps_per_stage} steps, {boards} boards, {settings.steps_per_stage * grpo.boards_per_step * grpo.num_generations} "
        "completions; stage 0 by size:"
    )
    yield "  " + ", ".join(f"{bucket}x{bucket} {count}" for bucket, count in counts.items())
    evaluation = settings.evaluation
    measured = settings.num_stages * evaluation.validation_instances + 2 * evaluation.heldout_instances
    yield f"measuring: {measured * (evaluation.samples + 1)} completions in all"
    if settings.warm_start is not None:
        yield f"warm start: {settings.warm_start.max_steps} steps, {settings.warm_start.instances} boards"
    if is_pocket(settings.policy):
        policy: Any = load_policy(settings.policy)
        parameters = sum(parameter.numel() for parameter in policy.model.parameters())
        yield f"policy: {settings.policy}, {parameters / 1e6:.2f}M parameters"
        return
    try:
        yield from _language_model(settings)
    except UserError as error:
        yield f"not worked out: {error}"


def _language_model(settings: RunSettings) -> Iterator[str]:
    """Prompt lengths and memory of a language model."""
    from envwright.training.policies.chat_policy import bare_policy

    policy = bare_policy(settings)
    config, grpo = policy.model.config, settings.grpo
    tried = generate(settings.config, _TRIED, seed=settings.seed, key=("estimate",)).instances
    lengths = sorted(len(policy.encode(policy.prompt(board))) for board in tried)
    limits = [grpo.max_prompt_length, None if policy.context is None else policy.context - grpo.max_completion_length]
    longest = min((limit for limit in limits if limit is not None), default=None)
    over = 0 if longest is None else sum(length > longest for length in lengths)
    parameters = sum(parameter.numel() for parameter in policy.model.parameters())
    trained = parameters if settings.lora is None else _adapter_size(policy.model, settings)
    yield f"policy: {settings.policy}, {parameters / 1e6:.0f}M parameters, {trained / 1e6:.1f}M of them trained"
    yield (
        f"prompts: {lengths[len(lengths) // 2]} tokens in the middle, {lengths[-1]} at most (of {_TRIED} boards tried, {over} too long); answers up to "
        f"{grpo.max_completion_length}"
    )
    size, rows = _BYTES[settings.dtype], grpo.per_device_train_batch_size
    trained_size = 4 if settings.lora is not None else size  # adapters stay in float32
    weights, training = parameters * size, trained * trained_size * 3  # a gradient and Adam's two moments
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = 2 * config.num_hidden_layers * heads * head_dim * size * rows * (lengths[-1] + grpo.max_completion_length)
    logits = rows * grpo.max_completion_length * config.vocab_size * 4 * _LOGITS_COPIES
    parts = {"weights": weights, "gradients and Adam": training, "key-value cache": cache, "logits": logits}
    shown = ", ".join(f"{name} {value / 2**30:.1f}" for name, value in parts.items())
    yield f"memory per process, roughly, in GiB: {shown}; activations and, with vLLM, its share come on top"


def _adapter_size(model: Any, settings: RunSettings) -> int:
    """Parameters of low-rank adapters on every linear layer but the head; an estimate where only some are named."""
    import torch

    assert settings.lora is not None
    total = 0
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and "lm_head" not in name:
            wanted = settings.lora.target_modules
            if wanted == "all-linear" or name.rpartition(".")[2] in wanted:
                total += settings.lora.r * (module.in_features + module.out_features)
    return total
