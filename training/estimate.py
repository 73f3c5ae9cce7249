"""What a run will take, before it begins: boards, completions, prompt lengths, and memory by the sizes of weights and activations."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envwright.env.chat import chat_prompt
from envwright.env.errors import MissingExtraError, UserError
from envwright.env.generator import generate
from envwright.env.instance import Instance
from envwright.training.policies.policy import is_pocket, load_policy
from envwright.training.settings import RunSettings

__all__ = ["estimate"]

_TRIED = 64
"""Boards whose prompts are measured."""
_BYTES = {"float32": 4, "bfloat16": 2}
_CHARACTERS_PER_TOKEN = 3.0
"""Characters of a prompt per token, where the tokenizer is not at hand: boards have short tokens."""
_PUBLISHED: dict[str, dict[str, Any]] = {
    "qwen3-4b": {
        "model_type": "qwen3",
        "vocab_size": 151_936,
        "hidden_size": 2_560,
        "intermediate_size": 9_728,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 40_960,
        "tie_word_embeddings": True,
    },
}
"""Sizes of the models of presets, from their published configs, for those who plan before they download."""
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
    try:
        if importlib.util.find_spec("torch") is None:
            raise MissingExtraError("torch", "train", "the size of a policy")
        yield from _pocket(settings) if is_pocket(settings.policy) else _language_model(settings)
    except UserError as error:
        yield f"not worked out: {error}"


def _pocket(settings: RunSettings) -> Iterator[str]:
    """The size of a pocket policy."""
    parameters = sum(parameter.numel() for parameter in load_policy(settings.policy).model.parameters())
    yield f"policy: {settings.policy}, {parameters / 1e6:.2f}M parameters"


def _language_model(settings: RunSettings) -> Iterator[str]:
    """Prompt lengths and memory of a language model."""
    from envwright.training.policies.chat_policy import bare_policy

    tried = generate(settings.config, _TRIED, seed=settings.seed, key=("estimate",)).instances
    known = None if Path(settings.policy).is_dir() else _PUBLISHED.get(Path(settings.policy).name.lower())
    if known is None:
        policy = bare_policy(settings)
        model, context = policy.model, policy.context
        lengths = sorted(len(policy.encode(policy.prompt(board))) for board in tried)
    else:
        yield f"{settings.policy} is not here: worked out from its published sizes, and tokens as characters / {_CHARACTERS_PER_TOKEN:g}"
        model, context = _published_model(known), int(known["max_position_embeddings"])
        lengths = sorted(_characters(board, settings) for board in tried)
    grpo = settings.grpo
    limits = [grpo.max_prompt_length, None if context is None else context - grpo.max_completion_length]
    longest = min((limit for limit in limits if limit is not None), default=None)
    over = 0 if longest is None else sum(length > longest for length in lengths)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    trained = parameters if settings.lora is None else _adapter_size(model, settings)
    yield f"policy: {settings.policy}, {parameters / 1e6:.0f}M parameters, {trained / 1e6:.1f}M of them trained"
    yield (
        f"prompts: {lengths[len(lengths) // 2]} tokens in the middle, {lengths[-1]} at most (of {_TRIED} boards tried, {over} too long); answers up to "
        f"{grpo.max_completion_length}"
    )
    yield _memory(settings, model.config, parameters, trained, lengths[-1])


def _memory(settings: RunSettings, config: Any, parameters: int, trained: int, prompt: int) -> str:
    """Say what weights, gradients, cache and logits take."""
    grpo, size, rows = settings.grpo, _BYTES[settings.dtype], settings.grpo.per_device_train_batch_size
    trained_size = 4 if settings.lora is not None else size  # adapters stay in float32
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    parts = {
        "weights": parameters * size,
        "gradients and Adam": trained * trained_size * 3,  # a gradient and two moments
        "key-value cache": 2 * config.num_hidden_layers * heads * head_dim * size * rows * (prompt + grpo.max_completion_length),
        "logits": rows * grpo.max_completion_length * config.vocab_size * 4 * _LOGITS_COPIES,
    }
    shown = ", ".join(f"{name} {value / 2**30:.1f}" for name, value in parts.items())
    return f"memory per process, roughly, in GiB: {shown}; activations and, with vLLM, its share come on top"


def _published_model(known: dict[str, Any]) -> Any:
    """Return a model of published sizes whose weights take no memory."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {key: value for key, value in known.items() if key != "model_type"}
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(known["model_type"], **sizes))


def _characters(board: Instance, settings: RunSettings) -> int:
    """Tokens of a board's prompt, guessed from its characters."""
    return round(sum(len(message["content"]) for message in chat_prompt(board, settings.prompt.rules)) / _CHARACTERS_PER_TOKEN)


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
