"""A policy: turns instances into prompts and samples completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM
from transformers.utils import logging as transformers_logging

from envwright.env.cells import BEGIN, FRAME, VOCABULARY, board_words
from envwright.env.errors import UserError
from envwright.env.instance import Board, Instance
from envwright.env.seeding import derive_seed
from envwright.training.pocket import BASE_CHECKPOINT, MAX_ANSWER_TOKENS, MAX_POSITIONS, pocket_tokenizer
from envwright.training.sampler import PocketSampler

__all__ = ["PocketPolicy", "Sample", "load_policy"]

_TOKEN = {word: index for index, word in enumerate(VOCABULARY)}
_BOARDS_PER_BATCH = 128


@dataclass(frozen=True, slots=True)
class Sample:
    """One completion."""

    text: str
    """The completion in words, `end` included."""
    tokens: int
    """Its length in tokens."""


class PocketPolicy:
    """The pocket policy with its current weights."""

    def __init__(self, model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, name: str) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name

    def prompt_ids(self, board: Board) -> list[int]:
        """Return a board's prompt as token ids.

        Raises:
            UserError: the board does not fit the 10 x 10 frame.
        """
        words = board_words(board.size, board.holes, board.starts, board.goals)
        return [_TOKEN[BEGIN], *(_TOKEN[word] for word in words.split())]

    def prompt(self, board: Board) -> str:
        """Return a board's prompt as text; the tokenizer turns it into `prompt_ids`."""
        return f"{BEGIN} {board_words(board.size, board.holes, board.starts, board.goals)}"

    @staticmethod
    def text(token_ids: Sequence[int]) -> str:
        """Return completion tokens as words."""
        return " ".join(VOCABULARY[token] for token in token_ids)

    def sample(
        self, instances: Sequence[Instance], num_samples: int, *, seed: int | None, max_new_tokens: int = MAX_ANSWER_TOKENS
    ) -> list[list[Sample]]:
        """Sample completions for every instance; greedy when `seed` is None.

        Boards are batched by prompt length; the noise depends on the seed and the set of instances, on nothing else.
        """
        sampler = PocketSampler(self.model)
        prompts = [self.prompt_ids(instance) for instance in instances]
        order = sorted(range(len(prompts)), key=lambda index: (instances[index].size, len(prompts[index]), index))
        results: list[list[Sample]] = [[] for _ in prompts]
        for first in range(0, len(order), _BOARDS_PER_BATCH):
            batch = order[first : first + _BOARDS_PER_BATCH]
            noise = None if seed is None else derive_seed(seed, "sample", first)
            groups = sampler.sample([prompts[index] for index in batch], num_samples, max_new_tokens, seed=noise)
            for index, group in zip(batch, groups, strict=True):
                results[index] = [Sample(self.text(tokens), len(tokens)) for tokens in group]
        return results

    def save(self, folder: Path) -> None:
        """Write weights (safetensors) and tokenizer."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def load_policy(spec: str) -> PocketPolicy:
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
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"policy {spec!r}: cannot be loaded: {str(error).splitlines()[0]}") from None
    if model.config.vocab_size != len(VOCABULARY) or model.config.max_position_embeddings != MAX_POSITIONS:
        raise UserError(
            f"policy {spec!r}: not a pocket checkpoint (vocabulary {model.config.vocab_size}, expected {len(VOCABULARY)}); "
            f"this release trains pocket policies on boards up to {FRAME}x{FRAME}"
        )
    return PocketPolicy(model.eval(), pocket_tokenizer(), spec)
