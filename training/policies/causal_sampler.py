"""Samples completions of any causal language model of transformers: the prompt is read once per group, with the model's own forward.

`generate` of transformers reads a prompt once per completion, copies the whole key-value cache at every token and goes on
with completions that have ended. Here a group shares what was read, keys and values have their room from the start, ended
rows leave the batch, and one step's attention takes the query heads that share keys together. A test pins the tokens to
those of `generate` and the log-probabilities to a plain forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import DynamicCache, PreTrainedConfig

from envwright.env.seeding import derive_seed
from envwright.training.policies.causal_cache import drop_rows, grouped_attention, roomy_cache

__all__ = ["CausalSampler", "SampledTokens"]

_CPU_BUDGET = 2 << 30
_CUDA_SHARE = 0.25
_PREFILL_TOKENS = 32_768
"""Most prompt tokens in one forward pass, padding included, unless one prompt has more."""
_BLOCK = 256
"""Tokens of the vocabulary that are summed before the running sum."""
_DROP_BELOW = 0.95
"""Ended rows leave once fewer than this share of the batch goes on."""
_CUDA_CHECK = 8
"""Tokens between two looks at which rows have ended: each look waits for the device."""


@dataclass(frozen=True, slots=True)
class SampledTokens:
    """One completion."""

    tokens: list[int]
    """Token ids, the end token included; one without it was cut at the limit."""
    logprobs: list[float]
    """Per token its log-probability at the sampling temperature, in nats."""


@dataclass(frozen=True, slots=True)
class _Read:
    """Prompts that have been read: what decoding starts from. Logits (P, V), mask (P, S), lengths (P,) for P prompts padded to S."""

    cache: DynamicCache
    logits: torch.Tensor
    mask: torch.Tensor
    lengths: torch.Tensor


class CausalSampler:
    """Samples from a model as it is at each call; weights may change between calls.

    Args:
        model: a causal language model of transformers, or a peft model round one, on the CPU or one CUDA device.
        eos_ids: tokens that end a completion.
        pad_id: token that fills shorter prompts on the left; no other token sees it.

    Raises:
        ValueError: there is no end token.
    """

    def __init__(self, model: torch.nn.Module, eos_ids: Sequence[int], pad_id: int) -> None:
        if not eos_ids:
            raise ValueError("a sampler needs at least one end token")
        self.model = cast("Any", model)
        self.config: PreTrainedConfig = self.model.config.get_text_config(decoder=True)
        self.eos_ids, self.pad_id = tuple(sorted(set(eos_ids))), pad_id

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        num_samples: int,
        max_new_tokens: int,
        *,
        seed: int | None,
        temperature: float = 1.0,
        rows_per_batch: int | None = None,
    ) -> list[list[list[int]]]:
        """Sample completions as token ids, `num_samples` per prompt; see `sample_with_logprobs`."""
        groups = self.sample_with_logprobs(
            prompts, num_samples, max_new_tokens, seed=seed, temperature=temperature, rows_per_batch=rows_per_batch
        )
        return [[completion.tokens for completion in group] for group in groups]

    @torch.no_grad()
    def sample_with_logprobs(
        self,
        prompts: Sequence[Sequence[int]],
        num_samples: int,
        max_new_tokens: int,
        *,
        seed: int | None,
        temperature: float = 1.0,
        rows_per_batch: int | None = None,
    ) -> list[list[SampledTokens]]:
        """Sample completions and the log-probability of each of their tokens.

        The noise of a completion is drawn from the seed, the number of its prompt and its own number, on the CPU: it is the
        same on every device and for every `rows_per_batch`, which can change a completion through rounding alone. The model
        runs in evaluation mode and in its own precision (autocast is off); its modes are put back.

        Args:
            prompts: token ids of each prompt.
            num_samples: completions per prompt.
            max_new_tokens: longest completion.
            seed: seed of the noise; None decodes greedily.
            temperature: divides the logits.
            rows_per_batch: completions decoded at a time, which bounds the memory. Default: as many as have their keys and
                values in 2 GiB on the CPU, and in a quarter of a CUDA device's memory.

        Returns:
            Per prompt, `num_samples` completions.

        Raises:
            ValueError: a prompt is empty, or leaves less room in the model's context than `max_new_tokens`; a number is not positive.
            FloatingPointError: the model's logits are not finite.
        """
        self._check(prompts, num_samples, max_new_tokens, temperature, rows_per_batch)
        if not prompts:
            return []
        longest = max(len(prompt) for prompt in prompts)
        rows = rows_per_batch or self._affordable_rows(longest + max_new_tokens + longest // num_samples)
        copies = min(rows, num_samples)
        together = max(1, min(rows // copies, _PREFILL_TOKENS // longest))
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
        results: list[list[SampledTokens]] = [[] for _ in prompts]
        device = self._embedding().device
        with _evaluation_mode(self.model), grouped_attention(self.config), torch.autocast(device.type, enabled=False):
            for first in range(0, len(order), together):
                batch = order[first : first + together]
                noise = None if seed is None else [_noise(seed, index, num_samples, max_new_tokens) for index in batch]
                read = self._read([prompts[index] for index in batch])
                for begin in range(0, num_samples, copies):
                    end = min(begin + copies, num_samples)
                    part = None if noise is None else torch.cat([draws[begin:end] for draws in noise]).to(device)
                    decoded = self._decode(read, end - begin, max_new_tokens, part, temperature)
                    for place, index in enumerate(batch):
                        results[index] += decoded[place * (end - begin) : (place + 1) * (end - begin)]
        return results

    def _check(
        self, prompts: Sequence[Sequence[int]], num_samples: int, max_new_tokens: int, temperature: float, rows_per_batch: int | None
    ) -> None:
        for name, value in (("num_samples", num_samples), ("max_new_tokens", max_new_tokens), ("temperature", temperature)):
            if value <= 0:
                raise ValueError(f"{name} is {value!r}, expected a positive number")
        if rows_per_batch is not None and rows_per_batch < 1:
            raise ValueError(f"rows_per_batch is {rows_per_batch!r}, expected 1 or more")
        context: int = self.config.max_position_embeddings
        for index, prompt in enumerate(prompts):
            if not prompt:
                raise ValueError(f"prompt {index} is empty")
            if len(prompt) + max_new_tokens > context:
                raise ValueError(
                    f"prompt {index} of {len(prompt)} tokens and {max_new_tokens} new ones do not fit the model's context of {context}; "
                    f"shorten it to {context - max_new_tokens} or ask for fewer new tokens"
                )

    def _embedding(self) -> torch.Tensor:
        return cast("torch.Tensor", self.model.get_input_embeddings().weight)

    def _affordable_rows(self, positions: int) -> int:
        """Return how many rows of so many positions, the prompt's share of what was read included, have room within the budget."""
        weight, config = self._embedding(), self.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        row = 2 * config.num_hidden_layers * heads * head_dim * weight.element_size() * positions
        cuda = weight.device.type == "cuda"
        budget = int(_CUDA_SHARE * torch.cuda.get_device_properties(weight.device).total_memory) if cuda else _CPU_BUDGET
        return max(1, budget // int(row))

    def _forward(self, ids_BT: torch.Tensor, mask_BS: torch.Tensor, positions_BT: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
        """Run T new tokens after the cached ones and return the last one's logits (B, V)."""
        output = self.model(
            input_ids=ids_BT,
            attention_mask=mask_BS,
            position_ids=positions_BT,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return cast("torch.Tensor", output.logits[:, -1])

    def _read(self, prompts: Sequence[Sequence[int]]) -> _Read:
        """Run prompts, padded on the left, through the model."""
        longest = max(len(prompt) for prompt in prompts)
        padded = [[self.pad_id] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        device = self._embedding().device
        ids_PS = torch.tensor(padded, device=device)
        lengths_P = torch.tensor([len(prompt) for prompt in prompts], device=device)
        positions_PS = torch.arange(longest, device=device) - (longest - lengths_P)[:, None]
        mask_PS = (positions_PS >= 0).long()
        cache = DynamicCache(config=self.config)
        return _Read(cache, self._forward(ids_PS, mask_PS, positions_PS.clamp(min=0), cache), mask_PS, lengths_P)

    def _decode(
        self, read: _Read, copies: int, max_new_tokens: int, noise_RT: torch.Tensor | None, temperature: float
    ) -> list[SampledTokens]:
        """Decode `copies` completions of each prompt (R rows), the copies of one prompt in a row."""
        prompt = read.mask.shape[1]
        cache = roomy_cache(read.cache, copies, prompt + max_new_tokens)
        logits = read.logits.repeat_interleave(copies, 0)
        positions = read.lengths.repeat_interleave(copies)
        device, rows = logits.device, len(logits)
        mask = torch.ones(rows, prompt + max_new_tokens, dtype=torch.long, device=device)
        mask[:, :prompt] = read.mask.repeat_interleave(copies, 0)
        tokens_RT = torch.zeros(rows, max_new_tokens, dtype=torch.long, device=device)
        logprobs_RT = torch.zeros(rows, max_new_tokens, device=device)
        owner = torch.arange(rows, device=device)
        ended = torch.zeros(rows, dtype=torch.bool, device=device)
        ends = torch.tensor(self.eos_ids, device=device)
        every = _CUDA_CHECK if device.type == "cuda" else 1
        for step in range(max_new_tokens):
            tokens, logprobs = _draw(logits, None if noise_RT is None else noise_RT[owner, step], temperature)
            tokens_RT[owner, step], logprobs_RT[owner, step] = tokens, logprobs
            ended |= torch.isin(tokens, ends)
            if step + 1 == max_new_tokens:
                break
            if (step + 1) % every == 0:
                going = int((~ended).sum())
                if not going:
                    break
                if going < _DROP_BELOW * len(owner):
                    kept = drop_rows(cache, ended, going)
                    mask, positions, owner, tokens, ended = mask[kept], positions[kept], owner[kept], tokens[kept], ended[kept]
            logits = self._forward(tokens[:, None], mask[:, : prompt + step + 1], positions[:, None], cache)
            positions = positions + 1
        if not bool(logprobs_RT.isfinite().all()):
            raise FloatingPointError("the model's logits are not finite: its weights are damaged, or its precision overflows")
        return [self._cut(*row) for row in zip(tokens_RT.tolist(), logprobs_RT.tolist(), strict=True)]

    def _cut(self, tokens: list[int], logprobs: list[float]) -> SampledTokens:
        """Cut what was decoded after the first end token."""
        length = next((place + 1 for place, token in enumerate(tokens) if token in self.eos_ids), len(tokens))
        return SampledTokens(tokens[:length], logprobs[:length])


def _noise(seed: int, index: int, num_samples: int, max_new_tokens: int) -> torch.Tensor:
    """Return one uniform number per completion and token of a prompt."""
    generator = torch.Generator().manual_seed(derive_seed(seed, "completions", index))
    return torch.rand(num_samples, max_new_tokens, generator=generator, dtype=torch.float64)


def _draw(logits_BV: torch.Tensor, noise_B: torch.Tensor | None, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a token per row and its log-probability: the likeliest, or the one at the noise's place in the cumulative distribution."""
    scores = logits_BV.float() if temperature == 1.0 else logits_BV.float() / temperature
    weights = (scores - scores.amax(-1, keepdim=True)).exp_()
    tokens = logits_BV.argmax(-1) if noise_B is None else _invert(weights, noise_B)
    return tokens, (weights.gather(-1, tokens[:, None])[:, 0] / weights.sum(-1)).log()


def _invert(weights_BV: torch.Tensor, noise_B: torch.Tensor) -> torch.Tensor:
    """Return per row the token whose share of the weights' running sum covers the noise: first its block, then its place there.

    Running sums are in double precision, and over blocks first because one over a whole vocabulary is slow.
    """
    width = weights_BV.shape[-1]
    blocks = width // _BLOCK
    sums = weights_BV[:, : blocks * _BLOCK].unflatten(-1, (blocks, _BLOCK)).sum(-1)
    if blocks * _BLOCK < width:
        sums = torch.cat([sums, weights_BV[:, blocks * _BLOCK :].sum(-1, keepdim=True)], -1)
    block, rest = _place(sums.double(), noise_B)
    places = block[:, None] * _BLOCK + torch.arange(_BLOCK, device=block.device)
    inner = weights_BV.gather(-1, places.clamp(max=width - 1)).masked_fill(places >= width, 0.0)
    token, _ = _place(inner.double(), rest)
    return (block * _BLOCK + token).clamp(max=width - 1)


def _place(weights_BN: torch.Tensor, share_B: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where each row's running sum passes a share of its total, and which share of that entry lies below."""
    running = weights_BN.cumsum(-1)
    target = share_B[:, None] * running[:, -1:]
    place = torch.searchsorted(running, target, right=True).clamp(max=weights_BN.shape[-1] - 1)
    entry = weights_BN.gather(-1, place)
    return place[:, 0], ((target - running.gather(-1, place) + entry) / entry)[:, 0].clamp(0.0, 1.0)


@contextmanager
def _evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Switch every module to evaluation and put back what each was."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
