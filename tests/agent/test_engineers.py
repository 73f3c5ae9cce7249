"""Engineers by name, baselines, transcripts and their replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envwright.agent.engineers import ENGINEERS, Engineer, make_engineer
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.env.errors import UserError
from envwright.env.generator import generate
from envwright.env.patch import apply_patch
from envwright.tools.evidence import Evidence
from tests.agent.evidence_maker import BASE, make_config, make_evidence

SMALL = {"4": BASE["4"], "5": BASE["5"]}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("ruel", "did you mean 'rule'"),
        ("openal:gpt", "did you mean 'openai:MODEL'"),
        ("Random", "did you mean 'random'"),
        ("", "the engineers are rule"),
        ("xyzzy", "the engineers are rule"),
        ("rule:x", "the engineers are rule"),
        ("random:once", "did you mean 'random'"),
        ("random:", "did you mean 'random'"),
        ("uniforn", "did you mean 'uniform'"),
        ("easy_to_hard", "did you mean 'easy-to-hard'"),
        ("openai", "openai:MODEL"),
        ("openai:", "openai:MODEL"),
        ("replay:", "replay:TRANSCRIPT"),
        ("local", "local:PATH"),
        ("vllm:", "vllm:PATH"),
        ("policy:x", "the engineers are"),
        ("scripted", "the engineers are"),
    ],
)
def test_an_unknown_engineer_is_one_line_with_the_closest_match(spec: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        make_engineer(spec)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["random", "learnability"])
def test_baselines_emit_a_real_patch_with_a_transcript(spec: str, tmp_path: Path) -> None:
    evidence = make_evidence(SMALL)
    result = make_engineer(spec).design(evidence, tmp_path / "t.jsonl")
    assert result.stop_reason is StopReason.PATCH_ACCEPTED
    assert result.patch is not None
    assert apply_patch(evidence.config, result.patch) == result.config
    assert all(edit.reason for edit in result.patch.edits)
    assert read_transcript(tmp_path / "t.jsonl").end.patch == result.patch


def test_fixed_keeps_and_says_so(tmp_path: Path) -> None:
    evidence = make_evidence(SMALL)
    result = make_engineer("fixed").design(evidence, tmp_path / "t.jsonl")
    assert (result.stop_reason, result.patch, result.config) == (StopReason.KEPT, None, evidence.config)
    assert len(read_transcript(tmp_path / "t.jsonl").assistant_messages) == 1


def test_random_draws_differ_between_stages_and_seeds_and_are_the_same_again() -> None:
    def draw(seed: int, stage: int) -> object:
        rollouts = tuple(rollout.model_copy(update={"stage": stage}) for rollout in make_evidence(SMALL, n=1).rollouts)
        return make_engineer("random").design(Evidence(config=make_config([4, 5]), rollouts=rollouts, seed=seed)).config

    assert draw(0, 0) == draw(0, 0)
    assert len({str(draw(seed, stage)) for seed in (0, 1) for stage in (0, 1)}) == 4


def test_random_configs_stay_within_what_the_generator_can_fill() -> None:
    for seed in range(4):
        config = make_engineer("random").design(Evidence(config=make_config(), rollouts=(), seed=seed)).config
        assert all(knobs.hole_ratio <= 0.35 and knobs.wait_ratio <= 0.75 for _, knobs in config.buckets())
        assert len(generate(config, 24, seed=seed).instances) == 24


def test_learnability_follows_p_times_one_minus_p_above_a_floor() -> None:
    result = make_engineer("learnability").design(make_evidence({"3": (60, 60), "4": (30, 30), "5": (6, 48), "6": (0, 0)}))
    ratios = {bucket: knobs.data_ratio for bucket, knobs in result.config.buckets()}
    assert ratios["3"] == ratios["6"] == 0.075
    assert ratios["4"] > ratios["5"] > 0.3
    assert result.config.sizes["5"].wait_ratio == pytest.approx(0.09 / (0.09 + 0.16), abs=1e-3)
    assert result.config.sizes["3"].wait_ratio == 0.1


def test_learnability_without_a_rate_to_read_keeps_the_config() -> None:
    for evidence in (Evidence(config=make_config(), rollouts=()), make_evidence({"4": (0, 0), "5": (60, 60)})):
        assert make_engineer("learnability").design(evidence).stop_reason is StopReason.KEPT


@pytest.mark.parametrize("spec", ["rule", "random", "random:kept", "uniform", "learnability", "fixed"])
def test_a_replay_gives_the_same_patch_and_config(spec: str, tmp_path: Path) -> None:
    evidence = make_evidence({"4": BASE["4"]}) if spec == "rule" else make_evidence(SMALL)
    first = make_engineer(spec).design(evidence, tmp_path / "first.jsonl")
    again = make_engineer(f"replay:{tmp_path / 'first.jsonl'}").design(evidence, tmp_path / "again.jsonl")
    assert (again.patch, again.config, again.stop_reason) == (first.patch, first.config, first.stop_reason)
    if spec == "rule":
        assert (tmp_path / "first.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()


def test_a_run_folder_replays_stage_by_stage(tmp_path: Path) -> None:
    path = tmp_path / "stages" / "00" / "engineer" / "transcript.jsonl"
    first = make_engineer("random").design(make_evidence(SMALL), path)
    assert make_engineer(f"replay:{tmp_path}").design(make_evidence(SMALL)).patch == first.patch


def test_a_replay_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    make_engineer("random").design(make_evidence(SMALL), tmp_path / "t.jsonl")
    engineer = make_engineer(f"replay:{tmp_path / 't.jsonl'}")
    with pytest.raises(UserError, match=r"a patch of 6 edits .* and its replay with no patch"):
        engineer.design(make_evidence({"7": (6, 48)}))


def test_a_transcript_cut_anywhere_is_one_clear_error(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    make_engineer("random").design(make_evidence(SMALL, n=1), whole)
    data = whole.read_bytes()
    for length in (*range(0, len(data) - 1, 97), len(data) - 2):
        cut.write_bytes(data[:length])
        with pytest.raises(UserError, match=r"cut off|empty") as caught:
            make_engineer(f"replay:{cut}").check()
        assert "\n" not in str(caught.value)


def test_a_missing_or_foreign_transcript_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        make_engineer(f"replay:{tmp_path / 'none.jsonl'}").check()
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text('{"role":"user","content":"hi"}\n{"type":"result","stop_reason":"kept"}\n', encoding="utf-8")
    with pytest.raises(UserError, match="begins with a line of type 'session'"):
        make_engineer(f"replay:{foreign}").check()


def test_a_transcript_is_in_openais_message_shape(tmp_path: Path) -> None:
    make_engineer("rule").design(make_evidence({"4": BASE["4"]}), tmp_path / "t.jsonl")
    first, *messages, last = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert (first["type"], first["model"], first["seed"], len(first["config_hash"])) == ("session", "rule", 3, 16)
    assert (last["type"], last["stop_reason"], last["usage"]["tool_calls"]) == ("result", "patch_accepted", 3)
    called = [call["id"] for message in messages for call in message.get("tool_calls", [])]
    assert called == [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ["call_1", "call_2", "call_3"]
    assert all(set(message) <= {"role", "content", "tool_calls", "tool_call_id"} for message in messages)


def test_a_transcript_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written"):
        make_engineer("fixed").design(make_evidence(SMALL, n=1), tmp_path / "file" / "t.jsonl")


def test_every_engineer_in_the_list_that_needs_no_weights_can_be_made() -> None:
    for spec in ENGINEERS:
        if spec.startswith(("local:", "vllm:", "policy")):
            continue
        engineer: Engineer = make_engineer(spec, base_url="http://localhost:1/v1")
        assert engineer.name


def test_importing_the_engineers_imports_neither_torch_nor_the_sdk() -> None:
    code = (
        "import sys, envwright.agent.engineers; print([name for name in ('torch', 'openai', 'envwright.training') if name in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout.strip() == "[]"
