"""Loading a policy: clear refusals; sampling: text that grades."""

from __future__ import annotations

from pathlib import Path

import pytest

from envwright.env.canonical import Split
from envwright.env.errors import UserError
from envwright.env.generator import generate
from envwright.training.evaluation import evaluate
from envwright.training.policies.policy import base_folder, load_policy, sample_boards
from envwright.training.settings import RunSettings


def test_a_missing_folder_names_the_next_step() -> None:
    with pytest.raises(UserError, match="no such folder; give 'pocket', 'smollm2', the folder of a causal language model"):
        load_policy("nowhere/at/all")


def test_the_weights_that_a_run_began_with_are_found_again(tmp_path: Path) -> None:
    load_policy("pocket").save(tmp_path / "copy")
    assert base_folder(str(tmp_path / "copy")) == tmp_path / "copy"
    assert (base_folder("pocket") / "model.safetensors").is_file()


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"needs config\.json and safetensors weights"):
        load_policy(str(tmp_path))


def test_cut_weights_are_refused_in_one_line(tmp_path: Path) -> None:
    load_policy("pocket").save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(UserError, match="cannot be loaded"):
        load_policy(str(tmp_path))


def test_the_prompt_text_and_its_token_ids_agree(tiny_settings: RunSettings) -> None:
    policy = load_policy("pocket")
    for board in generate(tiny_settings.config, 8, seed=0).instances:
        assert policy.tokenizer(policy.prompt(board))["input_ids"] == policy.encode(policy.prompt(board))


def test_a_saved_policy_loads_and_answers_as_before(tiny_settings: RunSettings, tmp_path: Path) -> None:
    policy = load_policy("pocket")
    boards = generate(tiny_settings.config, 8, seed=0).instances
    policy.save(tmp_path / "copy")
    copy = load_policy(str(tmp_path / "copy"))
    assert sample_boards(copy, boards, 2, seed=3) == sample_boards(policy, boards, 2, seed=3)


def test_the_shipped_base_solves_boards_without_conflicts_and_leaves_the_others_to_learn(tiny_settings: RunSettings) -> None:
    boards = generate(tiny_settings.evaluation.config, 80, seed=0, split=Split.VALIDATION).instances
    rollouts = evaluate(load_policy("pocket"), boards, stage=0, split=Split.VALIDATION, samples=1, seed=None)
    by_label = {label: [r.verdict.valid for r in rollouts if r.instance.wait_required is label] for label in (True, False)}
    assert sum(by_label[False]) / len(by_label[False]) > 0.5
    assert sum(by_label[True]) / len(by_label[True]) < 0.5
