"""The pocket policy: boards as cells, and its own sampler."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM
from transformers.utils import logging as transformers_logging

from envwright.env.cells import BEGIN, END, FRAME, VOCABULARY, board_words, plan_words
from envwright.env.errors import UserError
from envwright.env.instance import Board
from envwright.training.policies.pocket import BASE_CHECKPOINT, MAX_ANSWER_TOKENS, MAX_POSITIONS, pocket_tokenizer
from envwright.training.policies.pocket_sampler import PocketSampler

if TYPE_CHECKING:
    from envwright.training.policies.vllm_sampler import VllmEngine

__all__ = ["PocketPolicy", "load_pocket"]

_TOKEN = {word: index for index, word in enumerate(VOCABULARY)}


class PocketPolicy:
    """The pocket policy with its current weights."""

    max_answer_tokens = MAX_ANSWER_TOKENS
    boards_per_batch = 128
    tokens_per_step = True
    context: int | None = None
    engine: VllmEngine | None = None

    def __init__(self, model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, name: str) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name

    def encode(self, prompt: str) -> list[int]:
        """Return a prompt as token ids."""
        return [_TOKEN[word] for word in prompt.split()]

    def prompt(self, board: Board) -> str:
        """Return a board's prompt as text.

        Raises:
            UserError: the board does not fit the 10 x 10 frame.
        """
        return f"{BEGIN} {board_words(board.size, board.holes, board.starts, board.goals)}"

    @staticmethod
    def text(token_ids: Sequence[int]) -> str:
        """Return completion tokens as words."""
        return " ".join(VOCABULARY[token] for token in token_ids)

    def ended(self, token_ids: Sequence[int]) -> bool:
        """True when a completion ends by itself."""
        return _TOKEN[END] in token_ids

    def answer_ids(self, board: Board, plan: Sequence[str]) -> list[int]:
        """Return a plan of action letters as completion tokens."""
        return [_TOKEN[word] for word in plan_words(board, plan).split()]

    def sampler(self) -> PocketSampler:
        """Return a sampler with the present weights."""
        return PocketSampler(self.model)

    def rebuilt(self, state: dict[str, Any]) -> Qwen3ForCausalLM:
        """Return a model like the policy's with other weights, given whole by name."""
        model: Qwen3ForCausalLM = Qwen3ForCausalLM(self.model.config).eval()
        model.load_state_dict(state)
        return model

    def save(self, folder: Path) -> None:
        """Write weights (safetensors) and tokenizer."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def chat_template_kwargs(self) -> None:
        """There is no chat template."""

    def provenance(self) -> dict[str, Any]:
        """Return what run.json keeps of it."""
        return {"kind": "pocket", "notation": "cells", "vocabulary": hashlib.sha256(" ".join(VOCABULARY).encode()).hexdigest()[:16]}


def load_pocket(spec: str) -> PocketPolicy:
    """Load `pocket` or the folder of a pocket checkpoint.

    Raises:
        UserError: the folder is missing, holds no safetensors weights, or another kind of model.
    """
    transformers_logging.disable_progress_bar()
    folder = BASE_CHECKPOINT if spec == "pocket" else Path(spec)
    if not folder.is_dir():
        raise UserError(
            f"policy {spec!r}: no such folder; give 'pocket' or the folder of a pocket checkpoint, such as RUN/stages/00/checkpoint"
        )
    if not (folder / "config.json").is_file() or not (folder / "model.safetensors").is_file():
        raise UserError(f"policy {spec!r}: needs config.json and model.safetensors; is this a checkpoint folder?")
    try:
        model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa", use_safetensors=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(f"policy {spec!r}: cannot be loaded: {str(error).splitlines()[0]}") from None
    if model.config.vocab_size != len(VOCABULARY) or model.config.max_position_embeddings != MAX_POSITIONS:
        raise UserError(
            f"policy {spec!r}: not a pocket checkpoint (vocabulary {model.config.vocab_size}, expected {len(VOCABULARY)}); "
            f"this release trains pocket policies on boards up to {FRAME}x{FRAME}"
        )
    return PocketPolicy(model.eval(), pocket_tokenizer(), spec)
