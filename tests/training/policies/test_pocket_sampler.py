"""The pocket sampler agrees with transformers, and its noise is reproducible."""

from __future__ import annotations

import numpy as np
import torch

from envwright.training.policies.demonstrations import demonstrations
from envwright.training.policies.pocket import new_pocket_model
from envwright.training.policies.pocket_sampler import PocketSampler


def _prompts(count: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    boards = demonstrations(rng, 40, 4, 2, 0.2, 0.1) + demonstrations(rng, 40, 6, 3, 0.1, 0.1)
    return [boards[index].prompt for index in rng.permutation(len(boards))[:count]]


def test_greedy_answers_equal_those_of_transformers() -> None:
    model = new_pocket_model(3).eval()
    prompts = _prompts(6)
    ours = PocketSampler(model).sample(prompts, 1, 12, seed=None)
    for prompt, [answer] in zip(prompts, ours, strict=True):
        ids = torch.tensor([prompt])
        theirs = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
        assert theirs[0, len(prompt) :].tolist() == answer


def test_the_first_token_is_drawn_from_the_model_s_distribution() -> None:
    model = new_pocket_model(3).eval()
    [prompt] = _prompts(1)
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([prompt])).logits[0, -1].softmax(-1)
    [answers] = PocketSampler(model).sample([prompt], 20_000, 1, seed=1)
    drawn = torch.bincount(torch.tensor([answer[0] for answer in answers]), minlength=len(expected)) / len(answers)
    assert float((drawn - expected).abs().sum()) < 0.1


def test_one_seed_gives_one_set_of_answers_and_another_seed_another() -> None:
    sampler = PocketSampler(new_pocket_model(3))
    prompts = _prompts(5)
    first = sampler.sample(prompts, 4, 20, seed=7)
    assert first == sampler.sample(prompts, 4, 20, seed=7)
    assert first != sampler.sample(prompts, 4, 20, seed=8)


def test_an_answer_ends_with_the_end_token_or_at_the_limit() -> None:
    sampler = PocketSampler(new_pocket_model(3))
    for group in sampler.sample(_prompts(8), 8, 30, seed=0):
        for answer in group:
            assert sampler.end not in answer[:-1]
            assert answer[-1] == sampler.end or len(answer) == 30
