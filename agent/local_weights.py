"""A transformers model with all that decoding it needs: read from a folder, or the one in training; nothing is fetched from anywhere."""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envwright.agent.adapter import find_adapter
from envwright.agent.chat_prompt import ChatPrompt
from envwright.agent.constrained import GrammarBounds, ReplyGrammars
from envwright.agent.decoder import Decoder
from envwright.agent.models import ModelError
from envwright.env.errors import MissingExtraError

__all__ = ["LivePolicy", "LoadedModel", "load_model", "require_packages", "wrap_model"]


@dataclass(frozen=True, slots=True)
class LivePolicy:
    """A language model that this process trains, as it stands in memory."""

    model: Any
    """The model: one of transformers, or one that peft has wrapped; on whatever device and in whatever dtype it is."""
    tokenizer: Any
    """Its tokenizer, with a chat template."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that can be asked."""

    tokenizer: Any
    """Its tokenizer."""
    prompt: ChatPrompt
    """Renders conversations."""
    decoder: Decoder
    """Decodes replies."""
    grammars: ReplyGrammars
    """Constraints of replies."""
    context: int
    """Most tokens of a conversation with its reply."""
    end_mark: str
    """Text of the token that ends a turn."""


def load_model(path: Path, name: str, bounds: GrammarBounds) -> LoadedModel:
    """Read tokenizer and weights: bfloat16 where the hardware computes in it, else float32.

    Args:
        path: a folder with a model and its tokenizer, or with a LoRA adapter that names the folder of its base model.
        name: the model's, for messages.
        bounds: for what the tools' schemas leave open.

    Raises:
        ModelError: the folder holds no whole model, or none that chats.
        UserError: it holds an adapter whose base model, or the package peft, is missing.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as messages

    messages.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    adapter = find_adapter(path)
    weights, words = (path, path) if adapter is None else (adapter.base, adapter.tokenizer)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" or _fast_bfloat16(torch) else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(words, local_files_only=True)
        model: Any = AutoModelForCausalLM.from_pretrained(weights, dtype=dtype, local_files_only=True, use_safetensors=True)
        model = model if adapter is None else adapter.applied(model)
        model = model.to(device).eval()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{name} cannot be loaded from {path}: {' '.join(str(error).split())[:200]}") from None
    return wrap_model(LivePolicy(model, tokenizer), name, bounds)


def wrap_model(live: LivePolicy, name: str, bounds: GrammarBounds) -> LoadedModel:
    """Return a model in memory with all that decoding it needs; the weights are neither copied nor changed.

    Raises:
        ModelError: the tokenizer has no chat template, or the model names no context length or no end token.
    """
    model, tokenizer = live.model, live.tokenizer
    prompt = ChatPrompt(tokenizer, name)
    config = model.config.get_text_config()
    context = getattr(config, "max_position_embeddings", None)
    if not isinstance(context, int):
        raise ModelError(f"{name} does not say how long its context is; set max_position_embeddings in its config.json")
    end_ids = _end_ids(tokenizer, model, name)
    grammars = ReplyGrammars(tokenizer, int(config.vocab_size), end_ids, bounds)
    return LoadedModel(tokenizer, prompt, Decoder(model, end_ids), grammars, context, str(tokenizer.eos_token or ""))


def _fast_bfloat16(torch: Any) -> bool:
    """True where the processor computes in bfloat16: prompts are read three times as fast, in half the memory."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(supported is not None and supported())


def _end_ids(tokenizer: Any, model: Any, name: str) -> list[int]:
    """Return every token that ends a reply: those of the generation config, and the tokenizer's.

    Raises:
        ModelError: there is none.
    """
    given = model.generation_config.eos_token_id
    ids = {*(given if isinstance(given, list) else [given]), tokenizer.eos_token_id} - {None}
    if not ids:
        raise ModelError(f"{name} names no end-of-sequence token; set eos_token_id in its generation_config.json")
    return sorted(ids)


def require_packages() -> None:
    """Find out whether the packages that decode in process are installed, without importing them.

    Raises:
        MissingExtraError: one is not.
    """
    for package in ("torch", "transformers", "xgrammar"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "local", "the engineer local:PATH")
