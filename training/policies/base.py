"""Makes the pocket policy's base checkpoint by imitation of blind demonstrations (`envwright policy make-base`).

Batches are drawn fresh and never repeated, so nothing can be memorised; they hold a fixed number of tokens, of sequences
of similar length. Deterministic for a given seed, number of steps and threads on one kind of CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen3ForCausalLM

from envwright.env.cells import PAD, VOCABULARY
from envwright.env.seeding import random_stream
from envwright.training.policies.demonstrations import Demonstration, demonstrations
from envwright.training.policies.muon import Muon
from envwright.training.policies.pocket import new_pocket_model, pocket_tokenizer

__all__ = ["BASE_STEPS", "make_base", "train_base"]


@dataclass(frozen=True, slots=True)
class _Cycle:
    """A warm-up and decay of the learning rate."""

    steps: int
    """Optimizer steps."""
    rate: float
    """Factor on the learning rates."""


CYCLES = (_Cycle(2000, 1.0), _Cycle(1500, 0.5))
BASE_STEPS = sum(cycle.steps for cycle in CYCLES)
"""Optimizer steps of the shipped base checkpoint."""
TOKENS_PER_BATCH = 6_000
MUON_LEARNING_RATE = 6e-3
ADAMW_LEARNING_RATE = 3e-3
WEIGHT_DECAY = 0.05
WARMUP_STEPS = 100
WAIT_PROBABILITY = 0.12
SIZE_SHARES = {3: 0.12, 4: 0.16, 5: 0.18, 6: 0.18, 7: 0.12, 8: 0.10, 9: 0.07, 10: 0.07}
AGENT_SHARES = {1: 0.1, 2: 0.55, 3: 0.15, 4: 0.1, 5: 0.1}
HIGHEST_HOLE_RATIO = 0.35
_STRATA_PER_POOL, _BOARDS_PER_STRATUM = 128, 64


def _pool(rng: np.random.Generator) -> list[Demonstration]:
    """Draw demonstrations of many strata, shortest sequences first."""
    pool: list[Demonstration] = []
    for _ in range(_STRATA_PER_POOL):
        size = int(rng.choice(list(SIZE_SHARES), p=list(SIZE_SHARES.values())))
        agents = int(rng.choice(list(AGENT_SHARES), p=list(AGENT_SHARES.values())))
        pool += demonstrations(rng, _BOARDS_PER_STRATUM, size, agents, float(rng.uniform(0, HIGHEST_HOLE_RATIO)), WAIT_PROBABILITY)
    return sorted(pool, key=lambda item: len(item.prompt) + len(item.answer))


def _batches(seed: int, cycle: int) -> Iterator[list[Demonstration]]:
    """Yield batches of about `TOKENS_PER_BATCH` tokens for ever."""
    rng = random_stream(seed, "base-demonstrations", *([cycle] if cycle else []))
    while True:
        groups: list[list[Demonstration]] = [[]]
        for item in _pool(rng):
            length = len(item.prompt) + len(item.answer)
            if (len(groups[-1]) + 1) * length > TOKENS_PER_BATCH:
                groups.append([])
            groups[-1].append(item)
        for index in rng.permutation(len(groups)):
            yield groups[index]


def _tensors(batch: list[Demonstration], pad: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `(input_ids, labels)`, both (B, T), right-padded; prompts are masked out of the labels."""
    length = max(len(item.prompt) + len(item.answer) for item in batch)
    ids = torch.full((len(batch), length), pad)
    labels = torch.full((len(batch), length), -100)
    for row, item in enumerate(batch):
        end = len(item.prompt) + len(item.answer)
        ids[row, :end] = torch.tensor(item.prompt + item.answer)
        labels[row, len(item.prompt) : end] = torch.tensor(item.answer)
    return ids, labels


def _factor(done: int, steps: int) -> float:
    """Learning rate factor of a cycle: linear warm-up, then linear decay to zero."""
    return min((done + 1) / WARMUP_STEPS, 1.0) * max(0.0, 1 - done / steps)


def train_base(steps: int, seed: int, on_step: Callable[[int, float, Qwen3ForCausalLM], None]) -> Qwen3ForCausalLM:
    """Train a pocket model from scratch; `on_step(step, loss, model)` is called after every optimizer step."""
    model = new_pocket_model(seed)
    first = steps * CYCLES[0].steps // BASE_STEPS
    train_cycle(model, seed, 0, range(1, first + 1), on_step)
    train_cycle(model, seed, 1, range(first + 1, steps + 1), on_step)
    model.eval()
    return model


def train_cycle(
    model: Qwen3ForCausalLM, seed: int, number: int, steps: range, on_step: Callable[[int, float, Qwen3ForCausalLM], None]
) -> None:
    """Train for the steps of one cycle, with its own demonstrations, optimizers and learning rate schedule."""
    pad, rate = VOCABULARY.index(PAD), CYCLES[number].rate
    embeddings_and_norms = [p for name, p in model.named_parameters() if p.ndim < 2 or "embed" in name]
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    optimizers = [
        Muon(matrices, lr=rate * MUON_LEARNING_RATE, weight_decay=WEIGHT_DECAY),
        torch.optim.AdamW(embeddings_and_norms, lr=rate * ADAMW_LEARNING_RATE, betas=(0.9, 0.98), weight_decay=WEIGHT_DECAY),
    ]
    schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: _factor(done, len(steps))) for optimizer in optimizers]
    model.train()
    for step, batch in zip(steps, _batches(seed, number), strict=False):
        ids, labels = _tensors(batch, pad)
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
        on_step(step, float(loss.detach()), model)


def make_base(out: Path, *, steps: int, seed: int, threads: int, say: Callable[[str], None]) -> None:
    """Train the base and write it, with its tokenizer, to the folder `out` (safetensors).

    Args:
        out: folder to write; made when missing.
        steps: optimizer steps.
        seed: seed of weights and demonstrations.
        threads: CPU threads, pinned, since their number changes results slightly.
        say: receives progress lines.
    """
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    begin = time.monotonic()

    def report(step: int, loss: float, _model: Qwen3ForCausalLM) -> None:
        if step % 100 == 0 or step == steps:
            say(f"base step {step}/{steps}  loss {loss:.4f}  {time.monotonic() - begin:.0f} s")

    model = train_base(steps, seed, report)
    model.save_pretrained(out)
    pocket_tokenizer().save_pretrained(out)
