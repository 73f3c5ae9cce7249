"""Reads a transformers model from a folder, with all that decoding it needs; nothing is fetched from anywhere."""

from __future__ import annotations

import importlib.util
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envwright.agent.chat_prompt import ChatPrompt
from envwright.agent.constrained import GrammarBounds, ReplyGrammars
from envwright.agent.decoder import Decoder
from envwright.agent.models import ModelError
from envwright.env.errors import MissingExtraError

__all__ = ["LoadedModel", "load_model", "require_packages"]


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

    Raises:
        ModelError: the folder holds no whole model, or none that chats.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as messages

    messages.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" or _fast_bfloat16(torch) else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, local_files_only=True)
        model = model.to(device).eval()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(f"{name} cannot be loaded from {path}: {' '.join(str(error).split())[:200]}") from None
    end_ids = _end_ids(tokenizer, model, name)
    end_mark = str(tokenizer.eos_token or "")
    return LoadedModel(
        tokenizer,
        ChatPrompt(tokenizer, name),
        Decoder(model, end_ids),
        ReplyGrammars(tokenizer, model.config.vocab_size, end_ids, bounds),
        int(model.config.max_position_embeddings),
        end_mark,
    )


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
