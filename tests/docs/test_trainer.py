"""docs/bring-your-own-trainer.md: the recipes run, on boards, completions and dumps as the trainers would make them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envwright.env.canonical import Split
from envwright.env.config import read_config
from envwright.env.grading import solution_answer
from envwright.env.instance import read_instances
from envwright.env.jsonio import write_json
from envwright.env.patch import apply_patch, read_patch
from envwright.env.rollout import read_rollouts
from envwright.env.solver import solve
from envwright.training.cli import main
from tests.docs.pages import blocks

PAGE = blocks("bring-your-own-trainer.md")
CONFIG = {"num_agents": 2, "sizes": {str(size): {"data_ratio": 0.5, "hole_ratio": 0.2, "wait_ratio": 0.5} for size in (3, 4)}}


def run_python(namespace: dict[str, Any], heading: str) -> None:
    for block in PAGE:
        if (block.kind, block.heading) == ("python", heading):
            exec(compile(block.text, f"the page, {heading}", "exec"), namespace)


def run_shell(heading: str) -> None:
    for block in PAGE:
        if (block.kind, block.heading) == ("sh", heading):
            for line in block.text.split("\n"):
                program, *arguments = shlex.split(line)
                assert (program, main(arguments)) == ("envwright", 0)


def completions(path: Path) -> list[tuple[str, str]]:
    """Board and completion as text: 3x3 boards are solved, 4x4 boards only where no wait is required."""
    made = []
    for board in read_instances(path):
        plan = solve(board.size, board.holes, board.starts, board.goals).plan or ()
        good = board.size == 3 or not board.wait_required
        made.append((json.dumps(board.to_json()), f"<think>hm</think>{solution_answer(plan)}" if good else '{"plan": ["UUUUU", "UUUUU"]}'))
    return made * 3


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's first block defines, in a folder with a config and boards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    write_json(tmp_path / "config.json", CONFIG)
    run_shell("Boards")
    defined: dict[str, Any] = {}
    run_python(defined, "Boards")
    return defined


def assert_redesigned(capsys: pytest.CaptureFixture[str], namespace: dict[str, Any]) -> None:
    before = read_config(Path("config.json"))
    run_shell("The patch")
    told = capsys.readouterr().out
    assert "/sizes/3/hole_ratio    0.200 -> " in told
    patch = read_patch(Path("patch.json"))
    run_python(namespace, "The patch")
    assert read_config(Path("config.json")) == apply_patch(before, patch) != before


Reward = Callable[..., list[float]]


def test_a_trl_reward_function_writes_a_log_that_is_redesigned_from(namespace: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run_python(namespace, "TRL")
    reward: Reward = namespace["ValidPlan"](".", stage=1)
    for path in ("train.jsonl", "validation.jsonl"):
        boards, texts = zip(*completions(Path(path)), strict=True)
        chats = [[{"role": "assistant", "content": text}] for text in texts]
        extra = {"completion_ids": [[1]] * len(texts), "trainer_state": None, "log_extra": print}
        paid = reward(prompts=[row["prompt"] for row in namespace["train_rows"]], completions=chats, instance=list(boards), **extra)
        assert paid == reward(prompts=[], completions=list(texts), instance=list(boards))
    rollouts = read_rollouts(Path("rollouts-0.jsonl"))
    assert {(rollout.stage, rollout.split) for rollout in rollouts} == {(1, Split.TRAIN), (1, Split.VALIDATION)}
    assert all(rollout.reward == float(rollout.verdict.valid) for rollout in rollouts)
    Path("rollouts-0.jsonl").rename("rollouts.jsonl")
    assert_redesigned(capsys, namespace)


def test_verls_dumps_become_a_log_that_is_redesigned_from(namespace: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run_python(namespace, "TRL")
    for split in ("train", "validation"):
        (Path("dumps") / split).mkdir(parents=True)
    boards = {name: completions(Path(f"{name}.jsonl")) for name in ("train", "validation")}
    source = next(block.text for block in PAGE if block.heading == "verl" and block.kind == "python")
    exec(source, namespace)
    for name, made in boards.items():
        rows = namespace["verl_rows"](namespace[f"{name}_rows"])
        assert {row["reward_model"]["ground_truth"] for row in rows} == {text for text, _ in made}
        for step in (9, 10):
            lines = [
                {"input": "...", "output": text, "gts": board, "score": namespace["compute_score"]("envwright", text, board), "step": step}
                for board, text in made
            ]
            (Path("dumps") / name / f"{step}.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    run_python(namespace, "verl")
    rollouts = read_rollouts(Path("rollouts.jsonl"))
    assert len(rollouts) == 2 * sum(len(made) for made in boards.values()) == 2 * len(namespace["convert"]("dumps", 0, first_step=10))
    assert {rollout.split for rollout in rollouts} == {Split.TRAIN, Split.VALIDATION}
    assert all(rollout.reward == float(rollout.verdict.valid) for rollout in rollouts)
    assert_redesigned(capsys, namespace)
