"""A key-value cache with room for all that will be decoded, and attention by groups of heads: what makes decoding cheap.

transformers' own cache is copied at every token, and its SDPA repeats keys and values for every query head when there is a
mask, another copy. Called by `envwright.training.policies.causal_sampler`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

__all__ = ["drop_rows", "grouped_attention", "roomy_cache"]

_GROUPED = "envwright_grouped"


def roomy_cache(cache: DynamicCache, copies: int, room: int) -> DynamicCache:
    """Return a cache with `copies` rows for each row; layers with a window keep transformers' own class."""
    made = DynamicCache()
    made.layer_class_to_replicate = None
    for layer in cache.layers:
        if type(layer) is DynamicLayer:
            assert layer.keys is not None
            assert layer.values is not None
            made.layers.append(_RoomyLayer(layer.keys, layer.values, copies, room))
        else:
            copied: Any = copy.copy(layer)
            copied.batch_repeat_interleave(copies)
            made.layers.append(copied)
    return made


def drop_rows(cache: DynamicCache, ended: torch.Tensor, going: int) -> torch.Tensor:
    """Fill the places of ended rows with rows from the end of the batch; return the old place of each row that stays."""
    kept = torch.arange(going, device=ended.device)
    targets = ended[:going].nonzero()[:, 0]
    sources = going + (~ended[going:]).nonzero()[:, 0]
    kept[targets] = sources
    layer: Any
    for layer in cache.layers:
        if isinstance(layer, _RoomyLayer):
            layer.move(sources, targets, going)
        else:
            layer.batch_select_indices(kept)
    return kept


@contextmanager
def grouped_attention(config: PreTrainedConfig) -> Iterator[None]:
    """Let a model that attends through SDPA do so by groups of heads."""
    before = config._attn_implementation
    if before == "sdpa":
        config._attn_implementation_internal = _GROUPED
    try:
        yield
    finally:
        config._attn_implementation_internal = before


class _RoomyLayer(DynamicLayer):
    """Keys and values of one layer with room for all that will come, so that a token is written and nothing is copied."""

    def __init__(self, keys_PHSD: torch.Tensor, values_PHSD: torch.Tensor, copies: int, room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtype, self.device = keys_PHSD.dtype, keys_PHSD.device
        self.is_initialized = True
        self.filled = keys_PHSD.shape[2]
        self.key_room, self.value_room = (_with_room(part, copies, room) for part in (keys_PHSD, values_PHSD))
        self._show()

    def _show(self) -> None:
        self.keys, self.values = self.key_room[:, :, : self.filled], self.value_room[:, :, : self.filled]

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,  # noqa: ARG002  # transformers' signature
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the keys and values of new tokens and return all."""
        end = self.filled + key_states.shape[2]
        self.key_room[:, :, self.filled : end] = key_states
        self.value_room[:, :, self.filled : end] = value_states
        self.filled = end
        self._show()
        assert self.keys is not None
        assert self.values is not None
        return self.keys, self.values

    def move(self, sources: torch.Tensor, targets: torch.Tensor, rows: int) -> None:
        """Put some rows in the places of others and keep the first `rows`: only what moves is copied."""
        for part in (self.key_room, self.value_room):
            part[targets, :, : self.filled] = part[sources, :, : self.filled]
        self.key_room, self.value_room = self.key_room[:rows], self.value_room[:rows]
        self._show()


def _with_room(part_PHSD: torch.Tensor, copies: int, room: int) -> torch.Tensor:
    prompts, heads, filled, width = part_PHSD.shape
    roomy = part_PHSD.new_empty(prompts, copies, heads, room, width)
    roomy[:, :, :, :filled] = part_PHSD[:, None]
    return roomy.flatten(0, 1)


def _attend_in_groups(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attend from one token: query heads (B, H, 1, D) that share keys are the rows of one product; others go to transformers' SDPA.

    transformers repeats keys and values for every query head when there is a mask, a copy of the cache per token.
    """
    batch, heads, tokens, width = query.shape
    if tokens != 1 or kwargs.get("position_bias") is not None or (attention_mask is not None and attention_mask.shape[1] != 1):
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
    grouped = query.reshape(batch, key.shape[1], heads // key.shape[1], width)
    mixed = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
    return mixed.reshape(batch, 1, heads, value.shape[-1]), None


ALL_ATTENTION_FUNCTIONS.register(_GROUPED, _attend_in_groups)
ALL_MASK_ATTENTION_FUNCTIONS.register(_GROUPED, sdpa_mask)
