"""Samples completions of the pocket policy with a key-value cache: the prompt is prefilled once per group.

A lean re-statement of the Qwen3 forward pass for inference only (grouped-query attention is not needed at this size).
Caches are preallocated, and rows that have ended are dropped from the batch as they finish, which `generate` of
transformers does not do. A test pins its log-probabilities to the transformers model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import linear, rms_norm, silu
from transformers import Qwen3ForCausalLM

from envwright.env.cells import END, VOCABULARY

__all__ = ["PocketSampler"]

_MASKED = -1e9
_ABSENT = -1
_COMPACT_BELOW = 0.8
"""Ended rows are dropped once fewer than this share of the batch goes on."""


@dataclass(frozen=True, slots=True)
class _Layer:
    input_norm: torch.Tensor
    qkv: torch.Tensor
    q_norm: torch.Tensor
    k_norm: torch.Tensor
    out: torch.Tensor
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


def _take(cache_BHTD: torch.Tensor, rows: torch.Tensor, filled: int) -> torch.Tensor:
    """Return a cache with some of the rows, copying only its filled positions."""
    kept = cache_BHTD[rows, :, :filled]
    cache = torch.empty((len(kept), *cache_BHTD.shape[1:]))
    cache[:, :, :filled] = kept
    return cache


class PocketSampler:
    """A snapshot of a pocket model's weights, ready to sample.

    Args:
        model: the model; later changes of its weights are not seen, so build a sampler per batch of samples.
    """

    @torch.no_grad()
    def __init__(self, model: Qwen3ForCausalLM) -> None:
        config = model.config
        if config.num_attention_heads != config.num_key_value_heads:
            raise ValueError("the pocket sampler expects as many key-value heads as attention heads")
        self.heads, self.head_dim, self.eps = config.num_attention_heads, config.head_dim, config.rms_norm_eps
        self.end = VOCABULARY.index(END)
        self.max_positions = int(config.max_position_embeddings)
        decoder = model.model
        self.embedding = decoder.embed_tokens.weight.detach().clone()
        self.final_norm = decoder.norm.weight.detach().clone()
        self.layers = [
            _Layer(
                layer.input_layernorm.weight.detach().clone(),
                torch.cat([layer.self_attn.q_proj.weight, layer.self_attn.k_proj.weight, layer.self_attn.v_proj.weight]),
                layer.self_attn.q_norm.weight.detach().clone(),
                layer.self_attn.k_norm.weight.detach().clone(),
                layer.self_attn.o_proj.weight.detach().clone(),
                layer.post_attention_layernorm.weight.detach().clone(),
                torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight]),
                layer.mlp.down_proj.weight.detach().clone(),
            )
            for layer in decoder.layers
        ]
        rope: dict[str, Any] = dict(config.rope_parameters or {})
        theta = float(rope["rope_theta"])
        inverse = 1.0 / theta ** (torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim)
        angles = torch.outer(torch.arange(self.max_positions, dtype=torch.float32), inverse)
        self.cos = torch.cat([angles.cos(), angles.cos()], dim=-1)
        self.sin = torch.cat([-angles.sin(), angles.sin()], dim=-1)

    def _rotate(self, x_BHTD: torch.Tensor, positions_BT: torch.Tensor) -> torch.Tensor:
        """Apply rotary position embeddings."""
        half = self.head_dim // 2
        swapped = torch.cat([x_BHTD[..., half:], x_BHTD[..., :half]], dim=-1)
        return x_BHTD * self.cos[positions_BT][:, None] + swapped * self.sin[positions_BT][:, None]

    def _forward(
        self,
        ids_BT: torch.Tensor,
        positions_BT: torch.Tensor,
        mask_BTS: torch.Tensor,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
        filled: int,
    ) -> torch.Tensor:
        """Run T new tokens, write their keys and values behind the `filled` ones, return the last token's logits (B, V)."""
        batch, length = ids_BT.shape
        end = filled + length
        x = self.embedding[ids_BT]
        for index, layer in enumerate(self.layers):
            h = rms_norm(x, x.shape[-1:], layer.input_norm, self.eps)
            qkv = linear(h, layer.qkv).view(batch, length, 3, self.heads, self.head_dim)
            q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
            q = self._rotate(rms_norm(q, (self.head_dim,), layer.q_norm, self.eps), positions_BT)
            keys[index][:, :, filled:end] = self._rotate(rms_norm(k, (self.head_dim,), layer.k_norm, self.eps), positions_BT)
            values[index][:, :, filled:end] = v
            scores = q @ keys[index][:, :, :end].mT * self.head_dim**-0.5
            weights = (scores + mask_BTS[:, None, :, :end]).softmax(-1)
            mixed = (weights @ values[index][:, :, :end]).transpose(1, 2).reshape(batch, length, -1)
            x = x + linear(mixed, layer.out)
            h = rms_norm(x, x.shape[-1:], layer.post_norm, self.eps)
            gate, up = linear(h, layer.gate_up).chunk(2, dim=-1)
            x = x + linear(silu(gate) * up, layer.down)
        return linear(rms_norm(x[:, -1], x.shape[-1:], self.final_norm, self.eps), self.embedding)

    @torch.no_grad()
    def next_logprobs(self, prompt: Sequence[int]) -> torch.Tensor:
        """Return the log-probabilities (V,) of the token after a prompt, to hold the snapshot against the model."""
        length = len(prompt)
        caches = [torch.zeros(1, self.heads, length, self.head_dim) for _ in range(2 * len(self.layers))]
        causal = torch.full((1, length, length), _MASKED).triu(1)
        keys, values = caches[: len(self.layers)], caches[len(self.layers) :]
        return self._forward(torch.tensor([list(prompt)]), torch.arange(length)[None], causal, keys, values, 0)[0].log_softmax(-1)

    @torch.no_grad()
    def sample(
        self, prompts: Sequence[Sequence[int]], num_samples: int, max_new_tokens: int, *, seed: int | None, temperature: float = 1.0
    ) -> list[list[list[int]]]:
        """Sample completions; see `envwright.training.policies.policy.Sampler`."""
        longest = max(len(prompt) for prompt in prompts)
        room = min(longest + max_new_tokens, self.max_positions)
        if longest >= room:
            raise ValueError(f"a prompt of {longest} tokens leaves no room for an answer within {self.max_positions} positions")
        rows = len(prompts)
        ids = torch.zeros(rows, longest, dtype=torch.long)
        padding = torch.zeros(rows, room)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = torch.tensor(prompt)
            padding[row, : longest - len(prompt)] = _MASKED
        shifts = torch.tensor([longest - len(prompt) for prompt in prompts])
        positions = (torch.arange(longest)[None] - shifts[:, None]).clamp(min=0)
        causal = torch.full((longest, longest), _MASKED).triu(1)
        shape = (rows, self.heads, room, self.head_dim)
        keys = [torch.zeros(shape) for _ in self.layers]
        values = [torch.zeros(shape) for _ in self.layers]
        logits = self._forward(ids, positions, padding[:, None, :longest] + causal, keys, values, 0)

        repeat = torch.arange(rows).repeat_interleave(num_samples)
        keys, values = [part[repeat] for part in keys], [part[repeat] for part in values]
        logits, padding, position = logits[repeat], padding[repeat, None], positions[repeat, -1]
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        written = torch.full((len(repeat), room - longest), _ABSENT)
        owner = torch.arange(len(repeat))
        alive = torch.ones(len(repeat), dtype=torch.bool)
        for step in range(room - longest):
            if generator is None:
                tokens = logits.argmax(-1)
            else:
                tokens = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]
            written[owner[alive], step] = tokens[alive]
            alive = alive & (tokens != self.end)
            remaining = int(alive.sum())
            if not remaining or step == room - longest - 1:
                break
            if remaining < _COMPACT_BELOW * len(owner):
                keys, values = (
                    [_take(part, alive, longest + step) for part in keys],
                    [_take(part, alive, longest + step) for part in values],
                )
                padding, position, owner, tokens, alive = padding[alive], position[alive], owner[alive], tokens[alive], alive[alive]
            position = position + 1
            logits = self._forward(tokens[:, None], position[:, None], padding, keys, values, longest + step)
        answers = [[token for token in row if token != _ABSENT] for row in written.tolist()]
        return [answers[row * num_samples : (row + 1) * num_samples] for row in range(rows)]
