"""tool and redesign over anybody's config and rollout log."""

import json
from pathlib import Path
from typing import Any

import pytest

from envwright.env.config import GeneratorConfig, read_config
from envwright.env.jsonio import dump_json
from envwright.env.patch import apply_patch, diff_configs, read_patch
from envwright.env.schemas import schema_problems
from envwright.tools.registry import TOOLS
from tests.cli.commands import CONFIG, EVIDENCE, Command

EDIT = {"op": "replace", "path": "/sizes/4/wait_ratio", "value": 0.5, "reason": "60 of 75 fail", "evidence": []}
PATCH = {"summary": "more waiting on 4x4", "edits": [EDIT]}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "failure_breakdown": {"by": ["size", "outcome"]},
    "env_stats": {},
    "sample_maps": {"n": 1},
    "simulate_config": {"edits": [EDIT], "n": 4},
    "propose_patch": PATCH,
}


def test_tool_list_prints_every_tool_in_openais_shape(command: Command) -> None:
    specs = command("tool", "--list", "--json").json
    assert [(spec["type"], spec["function"]["name"]) for spec in specs] == [("function", name) for name in TOOLS]
    assert all(spec["function"]["description"] and spec["function"]["parameters"]["type"] == "object" for spec in specs)
    assert "propose_patch(summary, edits)" in command("tool", "--list").out


@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_answers_with_one_json_document(command: Command, name: str) -> None:
    done = command("tool", name, *EVIDENCE, "--args", dump_json(ARGUMENTS[name]), "--json")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("\n") == 1
    assert isinstance(done.json, dict)


def test_an_accepted_patch_is_shown_with_its_diff_and_the_config(command: Command) -> None:
    done = command("tool", "propose_patch", *EVIDENCE, "--args", dump_json(PATCH), "--json")
    assert {"accepted", "errors", "warnings", "diff", "config"} <= set(done.json)
    assert (done.code, done.json["accepted"], done.json["errors"]) == (0, True, [])
    assert done.json["diff"] == [{"path": "/sizes/4/wait_ratio", "before": 0.25, "after": 0.5}]
    assert done.json["config"]["sizes"]["4"]["wait_ratio"] == 0.5
    assert [set(warning) for warning in done.json["warnings"]] == [{"path", "code", "message"}]


@pytest.mark.parametrize(
    ("arguments", "path", "code"),
    [
        ({**PATCH, "edits": [{**EDIT, "value": 1.5}]}, "/sizes/4/wait_ratio", "out_of_bounds"),
        ({**PATCH, "edits": [{**EDIT, "path": "/sizes/9/wait_ratio"}]}, "/sizes/9/wait_ratio", "unknown_path"),
        ({**PATCH, "edits": [EDIT, EDIT]}, "/sizes/4/wait_ratio", "repeated_path"),
        ({"summary": "nothing"}, "", "schema"),
        ({}, "", "schema"),
    ],
)
def test_a_refused_patch_exits_0_with_every_error(command: Command, arguments: dict[str, Any], path: str, code: str) -> None:
    done = command("tool", "propose_patch", *EVIDENCE, "--args", dump_json(arguments), "--json")
    assert (done.code, done.json["accepted"], done.json["diff"], done.json["config"]) == (0, False, [], CONFIG)
    assert (done.json["errors"][0]["path"], done.json["errors"][0]["code"]) == (path, code)
    assert all(set(error) == {"path", "code", "message"} for error in done.json["errors"])


def test_arguments_may_come_from_a_file(command: Command, folder: Path) -> None:
    (folder / "patch.json").write_text(json.dumps({"schema_version": 1, **PATCH}), encoding="utf-8")
    assert command("tool", "propose_patch", *EVIDENCE, "--args", "@patch.json", "--json").json["accepted"] is True


@pytest.mark.parametrize("engineer", ["rule", "random", "learnability", "fixed"])
def test_redesign_prints_patch_reason_diff_and_config_that_belong_together(command: Command, folder: Path, engineer: str) -> None:
    done = command("redesign", *EVIDENCE, "--engineer", engineer, "--out", "patch.json", "--transcript", "talk.jsonl", "--json")
    assert (done.code, done.err) == (0, "")
    assert {"patch", "stop_reason", "diff", "config"} <= set(done.json)
    config = read_config(folder / "config.json")
    after = GeneratorConfig.parse(done.json["config"], "answer")
    assert done.json["diff"] == [change.to_json() for change in diff_configs(config, after)]
    assert (done.json["patch"] is None) is (engineer == "fixed")
    if done.json["patch"] is None:
        assert not (folder / "patch.json").exists()
        assert after == config
        return
    assert schema_problems("patch", done.json["patch"]) == []
    assert read_patch(folder / "patch.json").to_json() == done.json["patch"]
    assert apply_patch(config, read_patch(folder / "patch.json")) == after


def test_redesign_gives_the_same_answer_every_time(command: Command) -> None:
    first, second = (command("redesign", *EVIDENCE, "--json").json for _ in range(2))
    assert first == second


def test_redesign_helps_the_map_size_that_fails(command: Command) -> None:
    done = command("redesign", *EVIDENCE)
    assert done.code == 0
    assert done.out.startswith("patch (")
    assert "/sizes/4/" in done.out
    assert done.out.endswith("write it with --out FILE\n")
