"""What redesign's options do: context, way of working, guard rails, approval; and how it ends when the model fails."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from envwright.agent.transcript import read_transcript
from tests.cli.commands import EVIDENCE, Command

HOLES = "/sizes/4/hole_ratio    0.200 -> 0.150"


@pytest.mark.parametrize("how", ["agent", "direct", "direct-config"])
def test_both_ways_of_engineering_give_the_rules_patch(command: Command, folder: Path, how: str) -> None:
    done = command("redesign", *EVIDENCE, "--engineering", how, "--context", "V4", "--transcript", "talk.jsonl")
    assert (done.code, done.err) == (0, "")
    assert "/sizes/4/hole_ratio" in done.out
    assert "0.200 -> 0.150" in done.out
    header = read_transcript(folder / "talk.jsonl").header
    assert (header.engineering, header.context) == (how, "V4")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--context", "F,X"), "context 'F,X': no module 'X'; the modules are F, G, H, H0, S, T, Tfull"),
        (("--engineering", "both"), "engineering: Input should be 'agent', 'direct' or 'direct-config' (got 'both')"),
        (("--approval", "human"), "--approval human asks on the terminal, and stdin is none; use --approval auto or a policy file"),
        (("--approval", "none.json"), "--approval 'none.json' is neither auto nor human, nor a JSON file of guard rails"),
        (("--guard-rails", "none.json"), "none.json: no such file"),
        (("--guard-rails", "config.json"), "config.json: schema_version: Extra inputs are not permitted"),
        (("--engineer", "random", "--approval", "policy.json"), "use --approval auto"),
    ],
)
def test_a_bad_option_is_one_line(command: Command, folder: Path, options: tuple[str, ...], words: str) -> None:
    (folder / "policy.json").write_text('{"max_edits": 3}', encoding="utf-8")
    done = command("redesign", *EVIDENCE, *options, "--out", "patch.json")
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert not (folder / "patch.json").exists()


def test_a_policy_that_rejects_keeps_the_config_and_says_why(command: Command, folder: Path) -> None:
    (folder / "policy.json").write_text('{"max_hole_step": 0.01}', encoding="utf-8")
    done = command("redesign", *EVIDENCE, "--approval", "policy.json", "--transcript", "talk.jsonl", "--json")
    assert (done.code, done.json["patch"], done.json["stop_reason"]) == (0, None, "kept")
    (reason,) = read_transcript(folder / "talk.jsonl").end.rejections
    assert reason.startswith("the policy of policy.json: /sizes/4/hole_ratio")


def test_guard_rails_can_be_tightened_and_taken_off(command: Command, folder: Path) -> None:
    (folder / "rails.json").write_text('{"bounds": "refuse", "max_hole_step": 0.01}', encoding="utf-8")
    assert command("redesign", *EVIDENCE, "--guard-rails", "rails.json", "--json").json["patch"] is None
    assert command("redesign", *EVIDENCE, "--guard-rails", "off", "--json").json["patch"] is not None


def test_a_model_that_fails_exits_1_with_one_line_and_keeps_the_config(command: Command, folder: Path) -> None:
    command("redesign", *EVIDENCE, "--transcript", "whole.jsonl")
    lines = (folder / "whole.jsonl").read_text(encoding="utf-8").splitlines()
    end = {**json.loads(lines[-1]), "patch": None}
    (folder / "short.jsonl").write_text("\n".join([*lines[:5], json.dumps(end)]) + "\n", encoding="utf-8")
    done = command("redesign", *EVIDENCE, "--engineer", "replay:short.jsonl", "--out", "patch.json", "--json")
    assert (done.code, done.json["patch"], done.json["stop_reason"]) == (1, None, "model_error")
    assert done.json["config"] == json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert done.err.count("\n") == 1
    assert "the config stays as it is" in done.err
    assert not (folder / "patch.json").exists()


@pytest.mark.parametrize(("typed", "code", "stop_reason"), [("y\n", 0, "patch_accepted"), ("\x04", 130, "cancelled")])
def test_a_person_decides_on_a_real_terminal(command: Command, folder: Path, typed: str, code: int, stop_reason: str) -> None:
    controller, terminal = pty.openpty()
    os.write(controller, typed.encode())
    run = [sys.executable, "-m", "envwright.training.cli", "redesign", *EVIDENCE, "--approval", "human", "--transcript", "talk.jsonl"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(run, cwd=folder, stdin=terminal, capture_output=True, text=True, check=False, timeout=120, env=env)
    os.close(controller)
    os.close(terminal)
    assert done.returncode == code
    assert f"{HOLES}   4x4: only 5 of 75" in done.stderr
    assert read_transcript(folder / "talk.jsonl").end.stop_reason == stop_reason


def test_a_single_proposal_may_cite_results_of_an_earlier_call(command: Command) -> None:
    edit = {"op": "replace", "path": "/sizes/4/wait_ratio", "value": 0.5, "reason": "60 of 75 fail", "evidence": ["failure_breakdown#1"]}
    done = command("tool", "propose_patch", *EVIDENCE, "--args", json.dumps({"summary": "s", "edits": [edit]}), "--json")
    assert (done.json["accepted"], done.json["warnings"]) == (True, [])
