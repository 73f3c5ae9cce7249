"""The policy in training as its own engineer: the very model in memory, or a checkpoint, whole or a LoRA adapter."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from envwright.agent.chat_models import default_limits, make_chat_model
from envwright.agent.engineers import ModelEngineer, make_engineer
from envwright.agent.limits import Limits
from envwright.agent.local_model import LocalModel
from envwright.agent.messages import SystemMessage, UserMessage
from envwright.agent.model_size import SMALL_MODEL, parameters_in_files, parameters_in_memory, session_size
from envwright.agent.policy_model import LivePolicy
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.env.errors import UserError
from envwright.tools.evidence import Evidence
from tests.agent.tiny_model import save_tiny_model, tiny_tokenizer

ASKED = (SystemMessage(content="Engineer."), UserMessage(content="Redesign."))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def policy(folder: Path) -> LivePolicy:
    return live(folder)


def live(folder: Path) -> LivePolicy:
    return LivePolicy(AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))


def engineer_of(policy: LivePolicy) -> ModelEngineer:
    engineer = make_engineer("policy", policy=policy, limits=Limits(request_limit=2), max_tokens=80)
    assert isinstance(engineer, ModelEngineer)
    return engineer


def with_lora(model: Any) -> Any:
    torch.manual_seed(1)
    return get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False))


def shake(model: Any, seed: int) -> None:
    """Move every weight, as a stage of training does."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)


def test_the_model_in_training_engineers_without_a_copy_and_stays_as_it_was(policy: LivePolicy, evidence: Evidence, tmp_path: Path) -> None:
    model = policy.model.to(torch.bfloat16).train()
    model.model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    seen: list[tuple[bool, bool]] = []
    hook = model.register_forward_pre_hook(lambda *_: seen.append((torch.is_grad_enabled(), any(m.training for m in model.modules()))))
    redesign = engineer_of(policy).design(evidence, tmp_path / "t.jsonl")
    hook.remove()
    assert redesign.stop_reason is not StopReason.MODEL_ERROR, redesign.note
    assert seen
    assert set(seen) == {(False, False)}
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.dtype is torch.bfloat16 and parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert read_transcript(tmp_path / "t.jsonl").header.model == "policy"


def test_a_model_that_has_engineered_can_still_be_trained(policy: LivePolicy, evidence: Evidence) -> None:
    engineer_of(policy).design(evidence)
    ids = torch.tensor([[1, 2, 3]])
    policy.model(input_ids=ids, labels=ids).loss.backward()
    assert policy.model.get_input_embeddings().weight.grad is not None


def test_nothing_of_a_session_survives_a_change_of_the_weights(
    folder: Path, policy: LivePolicy, evidence: Evidence, tmp_path: Path
) -> None:
    used = engineer_of(policy)
    used.design(evidence, tmp_path / "before.jsonl")
    shake(policy.model, seed=2)
    used.design(evidence, tmp_path / "used.jsonl")
    fresh = live(folder)
    shake(fresh.model, seed=2)
    engineer_of(fresh).design(evidence, tmp_path / "fresh.jsonl")
    assert (tmp_path / "used.jsonl").read_bytes() == (tmp_path / "fresh.jsonl").read_bytes()
    assert (tmp_path / "used.jsonl").read_bytes() != (tmp_path / "before.jsonl").read_bytes()


def test_a_session_leaves_no_cache_behind_even_when_it_breaks_off(policy: LivePolicy) -> None:
    model = LocalModel(policy, name="policy", max_tokens=20)

    def broken_off() -> None:
        with model.session():
            model.complete(ASKED, [])
            assert model._loaded().decoder._cache is not None
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert model._loaded().decoder._cache is None
    assert model._history is None


def test_a_lora_policy_engineers_in_memory_as_it_does_from_its_checkpoint(folder: Path, policy: LivePolicy, tmp_path: Path) -> None:
    wrapped = with_lora(policy.model)
    wrapped.save_pretrained(tmp_path / "adapter")
    named = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
    assert named == str(folder)
    in_memory = make_chat_model("policy", policy=LivePolicy(wrapped, policy.tokenizer), max_tokens=40, free_text=True)
    from_disk = make_chat_model("policy", checkpoint=tmp_path / "adapter", max_tokens=40, free_text=True)
    base_alone = make_chat_model("policy", checkpoint=folder, max_tokens=40, free_text=True)
    assert isinstance(from_disk, LocalModel)
    from_disk.check()
    from_disk._loaded().decoder._model.float()  # read in bfloat16 where the processor computes in it
    said = [model.complete(ASKED, []).message for model in (in_memory, from_disk, base_alone)]
    assert said[0] == said[1] != said[2]


def test_an_adapter_that_cannot_be_read_is_one_line_with_the_fix(
    folder: Path, policy: LivePolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = tmp_path / "adapter"
    with_lora(policy.model).save_pretrained(adapter)

    def refused(words: str) -> None:
        with pytest.raises(UserError, match=words) as caught:
            make_engineer("policy", checkpoint=adapter).check()
        assert "\n" not in str(caught.value)

    find = importlib.util.find_spec
    with monkeypatch.context() as patched:
        patched.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "peft" else find(name, *rest))
        refused("needs the package peft: pip install peft")
    config = adapter / "adapter_config.json"
    raw = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**raw, "base_model_name_or_path": str(tmp_path / "gone")}), encoding="utf-8")
    refused(r"adapter of '.*gone', which is no folder of a model here .*base_model_name_or_path in adapter_config.json")
    config.write_text(json.dumps({**raw, "base_model_name_or_path": None}), encoding="utf-8")
    refused("names no base model")
    config.write_text(json.dumps(raw), encoding="utf-8")
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    refused("no adapter_model.safetensors; save the adapter as safetensors")


def test_weights_that_are_no_safetensors_are_not_read(folder: Path, policy: LivePolicy, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").unlink()
    torch.save(policy.model.state_dict(), tmp_path / "m" / "pytorch_model.bin")
    with pytest.raises(UserError, match="cannot be loaded"):
        make_engineer("policy", checkpoint=tmp_path / "m").check()


def test_a_policy_without_a_chat_template_is_refused_when_it_is_made(policy: LivePolicy) -> None:
    with pytest.raises(UserError, match=r"policy has no chat template.*instruct version.*chat_template") as caught:
        make_engineer("policy", policy=LivePolicy(policy.model, tiny_tokenizer(None)))
    assert "\n" not in str(caught.value)


def test_the_pocket_policys_checkpoint_is_no_engineer() -> None:
    from envwright.training.policies.pocket import BASE_CHECKPOINT

    with pytest.raises(UserError, match=r"pocket policy .* no language model"):
        make_engineer("policy", checkpoint=BASE_CHECKPOINT)


def test_small_policies_get_the_sessions_of_smollm2(folder: Path, policy: LivePolicy, tmp_path: Path) -> None:
    counted = parameters_in_memory(policy.model)
    assert parameters_in_files(folder) == counted
    with_lora(live(folder).model).save_pretrained(tmp_path / "adapter")
    small = default_limits("local:smollm2")
    assert small.request_limit < Limits().request_limit
    for given in ({"policy": policy}, {"checkpoint": folder}, {"checkpoint": tmp_path / "adapter"}):
        assert default_limits("policy", **given) == small
        engineer = make_engineer("policy", **given)
        assert isinstance(engineer, ModelEngineer)
        assert isinstance(engineer.model, LocalModel)
        assert (engineer.limits, engineer.model.max_tokens) == (small, session_size(1).tokens)
    assert session_size(SMALL_MODEL).limits == session_size(None).limits == Limits()
    assert parameters_in_files(tmp_path) is None
