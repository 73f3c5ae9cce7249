"""The pocket policy: a decoder of 0.86M parameters over the cell notation, small enough to train on two CPU cores.

The architecture is Qwen3's (transformers), the tokenizer one token per word of `envwright.env.cells`. The base
checkpoint that ships with the package is made by `envwright policy make-base` (`envwright.training.policies.base`).
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from envwright.env.cells import BEGIN, END, PAD, VOCABULARY

__all__ = ["BASE_CHECKPOINT", "MAX_ANSWER_TOKENS", "MAX_POSITIONS", "new_pocket_model", "pocket_tokenizer"]

BASE_CHECKPOINT = Path(__file__).resolve().parents[1] / "checkpoints" / "pocket-base"
"""The base checkpoint that ships with the package."""

MAX_POSITIONS = 384
"""Longest prompt and answer together, in tokens."""
MAX_ANSWER_TOKENS = 200
"""Longest answer, in tokens."""


def pocket_tokenizer() -> PreTrainedTokenizerFast:
    """Return the word-level tokenizer of the cell notation; its end-of-sequence token is the word `end`."""
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(VOCABULARY)}, unk_token=PAD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, bos_token=BEGIN, eos_token=END, padding_side="left", clean_up_tokenization_spaces=False
    )


def new_pocket_model(seed: int, *, width: int = 128, layers: int = 4) -> Qwen3ForCausalLM:
    """Return an untrained pocket model (`width` a multiple of 32; 128 wide and 4 layers deep is 0.86M parameters)."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(VOCABULARY),
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 32,
        head_dim=32,
        max_position_embeddings=MAX_POSITIONS,
        tie_word_embeddings=True,
        pad_token_id=VOCABULARY.index(PAD),
        bos_token_id=VOCABULARY.index(BEGIN),
        eos_token_id=VOCABULARY.index(END),
        dtype=torch.float32,
    )
    return Qwen3ForCausalLM(config)
