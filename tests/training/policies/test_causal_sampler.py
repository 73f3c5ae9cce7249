"""The sampler of causal language models agrees with transformers, and its noise depends on seed and prompt alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from envwright.training.policies.causal_sampler import CausalSampler, SampledTokens
from tests.agent.tiny_model import save_tiny_model

PAD = 257
SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
    "initializer_range": 0.2,
}
MANY_ENDS = list(range(7, 264, 8))
"""Random weights write one of these after about eight tokens."""
PROMPTS = [[5, 9, 100], [30], [70, 71, 72, 73, 74, 75, 76, 77, 78, 79], [200, 11, 12, 13, 14], [42, 43]]


def _model(kind: str, tmp_path: Path) -> Any:
    torch.manual_seed(0)
    match kind:
        case "llama":
            return AutoModelForCausalLM.from_pretrained(save_tiny_model(tmp_path / "model"), dtype=torch.float32)
        case "qwen2 with a window":
            return Qwen2ForCausalLM(Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=6, max_window_layers=1))
        case _:
            return Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16))


def _plain_logprobs(model: Any, prompt: list[int], completion: SampledTokens, temperature: float) -> torch.Tensor:
    ids = torch.tensor([prompt + completion.tokens])
    with torch.no_grad():
        logits = model.eval()(input_ids=ids).logits[0, len(prompt) - 1 : -1].float()
    logprobs: torch.Tensor = (logits / temperature).log_softmax(-1)
    return logprobs.gather(-1, torch.tensor(completion.tokens)[:, None])[:, 0]


def _assert_logprobs(model: Any, prompts: list[list[int]], groups: list[list[SampledTokens]], temperature: float, atol: float) -> None:
    for prompt, group in zip(prompts, groups, strict=True):
        for completion in group:
            expected = _plain_logprobs(model, prompt, completion, temperature)
            assert torch.allclose(torch.tensor(completion.logprobs), expected, atol=atol)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["llama", "qwen2 with a window", "qwen3"])
def test_greedy_completions_equal_those_of_transformers(kind: str, attention: str, tmp_path: Path) -> None:
    model = _model(kind, tmp_path).eval()
    model.set_attn_implementation(attention)
    ours = CausalSampler(model, MANY_ENDS, PAD).sample(PROMPTS, 1, 24, seed=None)
    for prompt, [answer] in zip(PROMPTS, ours, strict=True):
        ids = torch.tensor([prompt])
        theirs = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=24,
            do_sample=False,
            eos_token_id=MANY_ENDS,
            pad_token_id=PAD,
        )
        assert theirs[0, len(prompt) :].tolist() == answer
    assert model.config._attn_implementation == attention


@pytest.mark.parametrize("kind", ["llama", "qwen2 with a window", "qwen3"])
def test_log_probabilities_equal_those_of_a_plain_forward_while_ended_rows_leave(kind: str, tmp_path: Path) -> None:
    model = _model(kind, tmp_path)
    groups = CausalSampler(model, MANY_ENDS, PAD).sample_with_logprobs(PROMPTS, 6, 40, seed=3, temperature=0.8)
    lengths = [len(completion.tokens) for group in groups for completion in group]
    assert len(set(lengths)) > 5
    _assert_logprobs(model, PROMPTS, groups, 0.8, 1e-4)


def test_a_completion_ends_with_the_first_of_any_end_token_or_at_the_limit(tmp_path: Path) -> None:
    sampler = CausalSampler(_model("qwen3", tmp_path), MANY_ENDS, PAD)
    ends = set()
    for group in sampler.sample(PROMPTS, 8, 12, seed=0):
        for answer in group:
            assert not set(answer[:-1]) & set(MANY_ENDS)
            assert answer[-1] in MANY_ENDS or len(answer) == 12
            ends.add(answer[-1])
    assert len(ends & set(MANY_ENDS)) > 1


def test_the_first_token_is_drawn_from_the_model_s_distribution(tmp_path: Path) -> None:
    model = _model("qwen3", tmp_path).eval()
    with torch.no_grad():
        expected = (model(input_ids=torch.tensor(PROMPTS[:1])).logits[0, -1] / 2.0).softmax(-1)
    [answers] = CausalSampler(model, [0], PAD).sample(PROMPTS[:1], 20_000, 1, seed=1, temperature=2.0)
    drawn = torch.bincount(torch.tensor([answer[0] for answer in answers]), minlength=len(expected)) / len(answers)
    assert float((drawn - expected).abs().sum()) < 0.1
    assert int((drawn[256:] > 0).sum()) > 5  # the vocabulary is summed in blocks of 256: the last one is drawn from too


def test_the_noise_depends_on_the_seed_and_on_nothing_else(tmp_path: Path) -> None:
    sampler = CausalSampler(_model("qwen3", tmp_path), MANY_ENDS, PAD)
    first = sampler.sample(PROMPTS, 4, 20, seed=7)
    torch.manual_seed(123)
    state = torch.get_rng_state()
    assert first == sampler.sample(PROMPTS, 4, 20, seed=7)
    assert torch.equal(state, torch.get_rng_state())
    assert first != sampler.sample(PROMPTS, 4, 20, seed=8)
    assert first[0] != first[4]
    assert len({tuple(answer) for answer in first[0]}) > 1


@pytest.mark.parametrize("rows", [1, 3, 9])
def test_fewer_rows_at_a_time_draw_the_same_completions(rows: int, tmp_path: Path) -> None:
    sampler = CausalSampler(_model("qwen3", tmp_path), MANY_ENDS, PAD)
    assert sampler.sample(PROMPTS, 4, 20, seed=7, rows_per_batch=rows) == sampler.sample(PROMPTS, 4, 20, seed=7)


def test_each_prompt_is_read_once_and_no_batch_is_larger_than_allowed(tmp_path: Path) -> None:
    model = _model("qwen3", tmp_path)
    reads: list[int] = []
    steps: list[int] = []
    model.register_forward_pre_hook(
        lambda _module, _args, kwargs: (steps if kwargs["past_key_values"].get_seq_length() else reads).append(len(kwargs["input_ids"])),
        with_kwargs=True,
    )
    CausalSampler(model, MANY_ENDS, PAD).sample(PROMPTS, 6, 20, seed=0, rows_per_batch=4)
    assert reads == [1] * len(PROMPTS)
    assert max(steps) == 4
    assert min(steps) < 4  # ended rows have left


def test_a_lora_model_samples_with_its_adapter(tmp_path: Path) -> None:
    base = _model("qwen3", tmp_path)
    plain = CausalSampler(base, MANY_ENDS, PAD).sample(PROMPTS, 2, 16, seed=2)
    model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, lora_dropout=0.5))
    groups = CausalSampler(model, MANY_ENDS, PAD).sample_with_logprobs(PROMPTS, 2, 16, seed=2)
    assert plain != [[completion.tokens for completion in group] for group in groups]
    _assert_logprobs(model, PROMPTS, groups, 1.0, 1e-4)


def test_training_modes_and_attention_are_put_back_and_dropout_is_off(tmp_path: Path) -> None:
    model = get_peft_model(_model("qwen3", tmp_path), LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False, lora_dropout=0.5))
    model.train()
    model.base_model.model.lm_head.eval()
    before = [module.training for module in model.modules()]
    sampler = CausalSampler(model, MANY_ENDS, PAD)
    assert sampler.sample(PROMPTS, 2, 16, seed=2) == sampler.sample(PROMPTS, 2, 16, seed=2)
    assert [module.training for module in model.modules()] == before
    assert model.config._attn_implementation == "sdpa"


def test_bfloat16_models_sample_in_bfloat16(tmp_path: Path) -> None:
    model = _model("qwen3", tmp_path).bfloat16()
    groups = CausalSampler(model, MANY_ENDS, PAD).sample_with_logprobs(PROMPTS, 4, 16, seed=5)
    _assert_logprobs(model, PROMPTS, groups, 1.0, 0.5)
    assert all(len(completion.tokens) == len(completion.logprobs) for group in groups for completion in group)


def test_a_prompt_that_does_not_fit_the_context_is_refused_with_both_lengths(tmp_path: Path) -> None:
    sampler = CausalSampler(_model("qwen3", tmp_path), [0], PAD)
    sampler.sample([[1] * 80], 1, 16, seed=0)
    with pytest.raises(ValueError, match=r"prompt 1 of 81 tokens and 16 new ones do not fit the model's context of 96; shorten it to 80"):
        sampler.sample([[1], [1] * 81], 1, 16, seed=0)


def test_numbers_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    model = _model("qwen3", tmp_path)
    with pytest.raises(ValueError, match="at least one end token"):
        CausalSampler(model, [], PAD)
    sampler = CausalSampler(model, [0], PAD)
    with pytest.raises(ValueError, match="prompt 1 is empty"):
        sampler.sample([[1], []], 1, 4, seed=0)
    with pytest.raises(ValueError, match="num_samples is 0, expected a positive number"):
        sampler.sample([[1]], 0, 4, seed=0)
    with pytest.raises(ValueError, match="rows_per_batch is 0, expected 1 or more"):
        sampler.sample([[1]], 1, 4, seed=0, rows_per_batch=0)
    assert sampler.sample([], 1, 4, seed=0) == []


@pytest.mark.parametrize("seed", [None, 0])
def test_damaged_weights_are_noticed(seed: int | None, tmp_path: Path) -> None:
    model = _model("qwen3", tmp_path)
    with torch.no_grad():
        model.model.norm.weight[0] = float("nan")
    with pytest.raises(FloatingPointError, match="logits are not finite"):
        CausalSampler(model, [0], PAD).sample(PROMPTS, 2, 4, seed=seed)
