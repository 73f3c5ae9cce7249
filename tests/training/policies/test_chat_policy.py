"""A language model as the policy: what it is shown, what is read, and which folders are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from envwright.env.errors import UserError
from envwright.env.generator import generate
from envwright.env.grading import grade_completion
from envwright.env.rules import Outcome
from envwright.env.solver import solve
from envwright.training.policies.chat_policy import ChatPolicy, bare_policy, load_chat
from envwright.training.policies.policy import is_pocket, load_policy, sample_boards
from envwright.training.settings import RunSettings, load_settings
from tests.agent.tiny_model import REFUSES_SYSTEM, save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"), ends=[257, 258])


def _settings(folder: Path, *more: str) -> RunSettings:
    return load_settings("smollm2", [f"policy={folder}", *more])


def test_an_optimal_plan_as_tokens_is_graded_optimal(folder: Path) -> None:
    policy = load_policy(str(folder))
    for board in generate(_settings(folder).config, 6, seed=3).instances:
        plan = solve(board.size, board.holes, board.starts, board.goals).plan
        assert plan is not None
        ids = policy.answer_ids(board, plan)
        assert policy.ended(ids)
        assert grade_completion(board, policy.text(ids)).outcome is Outcome.OPTIMAL


def test_every_end_token_of_the_generation_config_ends_an_answer(folder: Path) -> None:
    policy = load_policy(str(folder))
    (token,) = policy.tokenizer("R", add_special_tokens=False)["input_ids"]
    for end in (257, 258):
        assert policy.ended([token, end])
        assert policy.text([token, end, token]) == "R"
    assert not policy.ended([token, token])


def test_the_prompt_is_token_for_token_what_trl_renders(folder: Path) -> None:
    policy = load_policy(str(folder))
    board = generate(_settings(folder).config, 1, seed=3).instances[0]
    rendered = policy.tokenizer.apply_chat_template(policy.prompt(board), add_generation_prompt=True, tokenize=True, return_dict=True)
    assert policy.encode(policy.prompt(board)) == list(rendered["input_ids"])


def test_brief_rules_are_shorter_and_name_the_same_board(folder: Path) -> None:
    board = generate(_settings(folder).config, 1, seed=3).instances[0]
    brief, full = (
        load_chat(str(folder), _settings(folder, f"prompt.rules={rules}")).prompt(board)[1]["content"] for rules in ("brief", "full")
    )
    assert 3 * len(brief) < len(full)
    for row, col in (*board.starts, *board.goals):
        assert f"{row},{col}" in brief
        assert f"({row}, {col})" in full


def test_a_template_without_a_system_role_gets_the_rules_in_the_user_message(tmp_path: Path) -> None:
    policy = load_policy(str(save_tiny_model(tmp_path / "m", template=REFUSES_SYSTEM)))
    board = generate(_settings(tmp_path).config, 1, seed=3).instances[0]
    (message,) = policy.prompt(board)
    assert message["role"] == "user"
    assert "JSON" in message["content"]
    assert policy.encode([message])


def test_greedy_samples_are_those_of_generate(folder: Path) -> None:
    policy = load_policy(str(folder))
    boards = generate(_settings(folder).config, 3, seed=3).instances
    ours = sample_boards(policy, boards, 1, seed=None, max_new_tokens=6)
    for board, (sample,) in zip(boards, ours, strict=True):
        ids = torch.tensor([policy.encode(policy.prompt(board))])
        theirs = policy.model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=257)[0, ids.shape[1] :].tolist()
        assert sample.text == policy.text(theirs)


def test_a_checkpoint_remembers_how_boards_were_put_to_it(folder: Path, tmp_path: Path) -> None:
    policy = load_chat(str(folder), _settings(folder, "prompt.rules=brief", "grpo.max_completion_length=9"))
    policy.save(tmp_path / "saved")
    again = load_policy(str(tmp_path / "saved"))
    assert isinstance(again, ChatPolicy)
    assert again.prompt_settings.rules == "brief"
    assert again.max_answer_tokens == 9
    assert again.provenance() == policy.provenance()


def test_a_policy_without_weights_has_the_prompts_of_the_real_one(folder: Path) -> None:
    board = generate(_settings(folder).config, 1, seed=3).instances[0]
    bare, real = bare_policy(_settings(folder)), load_chat(str(folder), _settings(folder))
    assert bare.encode(bare.prompt(board)) == real.encode(real.prompt(board))
    assert all(parameter.device.type == "meta" for parameter in bare.model.parameters())


def test_a_pocket_checkpoint_is_told_from_a_language_model(folder: Path) -> None:
    assert is_pocket("pocket")
    assert not is_pocket("smollm2")
    assert not is_pocket(str(folder))


def _without(folder: Path, target: Path, *names: str) -> Path:
    shutil.copytree(folder, target)
    for name in names:
        for path in target.glob(name):
            path.unlink()
    return target


def test_a_folder_without_a_tokenizer_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no tokenizer in .*\(tokenizer_config\.json\); copy it from where the model came from"):
        load_policy(str(_without(folder, tmp_path / "m", "tokenizer*")))


def test_weights_that_are_no_safetensors_are_refused(folder: Path, tmp_path: Path) -> None:
    broken = _without(folder, tmp_path / "m", "*.safetensors")
    torch.save(AutoModelForCausalLM.from_pretrained(folder).state_dict(), broken / "pytorch_model.bin")
    with pytest.raises(UserError, match="no safetensors weights"):
        load_policy(str(broken))


def test_a_tokenizer_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="its tokenizer has no chat template; take the instruct version"):
        load_policy(str(save_tiny_model(tmp_path / "m", template=None)))


def test_a_template_that_renders_nothing_is_refused_with_its_own_words(tmp_path: Path) -> None:
    template = "{{ raise_exception('tools are required') }}"
    with pytest.raises(UserError, match="its chat template refuses the prompt: tools are required"):
        load_policy(str(save_tiny_model(tmp_path / "m", template=template)))


def test_cut_weights_are_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    broken = _without(folder, tmp_path / "m")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(UserError, match="cannot be loaded"):
        load_policy(str(broken))


def test_code_that_comes_with_a_model_is_not_run_unless_the_settings_say_so(folder: Path, tmp_path: Path) -> None:
    custom = _without(folder, tmp_path / "m")
    config = json.loads((custom / "config.json").read_text(encoding="utf-8"))
    del config["model_type"]
    config |= {"model_type": "curious", "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}}
    (custom / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (custom / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8")
    with pytest.raises(UserError, match="set trust_remote_code to true if you trust them"):
        load_policy(str(custom))
    assert not (tmp_path / "ran").exists()


def test_adapters_whose_base_is_gone_are_refused_and_name_it(folder: Path, tmp_path: Path) -> None:
    base = _without(folder, tmp_path / "base")
    load_chat(str(base), _settings(base, "lora.r=2")).save(tmp_path / "adapters")
    assert load_policy(str(tmp_path / "adapters")).model.peft_config
    shutil.rmtree(base)
    with pytest.raises(UserError, match=r"the base model of its adapters is gone: .*base; put it back there"):
        load_policy(str(tmp_path / "adapters"))


def test_a_gpu_that_is_not_there_is_refused(folder: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UserError, match="device cuda: torch sees no GPU here"):
        load_chat(str(folder), _settings(folder, "device=cuda"))


def test_bfloat16_is_refused_where_the_processor_lacks_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False, raising=False)
    for wish in ("grpo.bf16=true", "dtype=bfloat16"):
        with pytest.raises(UserError, match="does not compute in bfloat16"):
            load_chat(str(folder), _settings(folder, wish))
