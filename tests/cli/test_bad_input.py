"""Bad input: exit code 2, one line that says what to do, and nothing written."""

import json
from pathlib import Path
from typing import Any

import pytest

from envwright.env.jsonio import dump_json, write_json
from tests.cli.commands import CONFIG, EVIDENCE, Command, contents

GENERATE = ("generate", "--config", "config.json", "-o", "out.jsonl")
PROPOSE = ("tool", "propose_patch", *EVIDENCE, "--args")

BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "no command": ((), "the following arguments are required: COMMAND; see envwright --help"),
    "unknown command": (("fly",), "invalid choice: 'fly'"),
    "unknown option": (("presets", "--colour"), "unrecognized arguments: --colour"),
    "generate: no config file": (("generate", "--config", "none.json", "-n", "4", "-o", "out.jsonl"), "none.json: no such file"),
    "generate: config is a folder": (("generate", "--config", ".", "-n", "4", "-o", "out.jsonl"), ".: is a folder, expected a file"),
    "generate: n is 0": ((*GENERATE, "-n", "0"), "-n must be at least 1, got 0"),
    "generate: n is no number": ((*GENERATE, "-n", "many"), "argument -n: invalid int value: 'many'"),
    "generate: negative seed": ((*GENERATE, "-n", "4", "--seed", "-1"), "--seed must be at least 0, got -1"),
    "generate: unknown split": ((*GENERATE, "-n", "4", "--split", "test"), "invalid choice: 'test'"),
    "generate: infeasible config": (
        ("generate", "--config", "lone.json", "-n", "4", "-o", "out.jsonl"),
        "a single agent never has to wait; set the size's wait_ratio to 0",
    ),
    "generate: ratios that do not add up": (
        ("generate", "--config", "short.json", "-n", "4", "-o", "out.jsonl"),
        "the data ratios sum to 0.5, not to 1",
    ),
    "generate: NaN in the config": (
        ("generate", "--config", "nan.json", "-n", "4", "-o", "out.jsonl"),
        "nan.json: NaN is not a JSON number",
    ),
    "generate: output below a file": (
        ("generate", "--config", "config.json", "-n", "4", "-o", "config.json/out.jsonl"),
        "cannot be written",
    ),
    "generate: output is a folder": (("generate", "--config", "config.json", "-n", "4", "-o", "."), "cannot be written"),
    "solve: no file": (("solve", "none.jsonl"), "none.jsonl: no such file"),
    "solve: empty file": (("solve", "empty.jsonl"), "empty.jsonl: holds no instance"),
    "solve: bad line": (("solve", "bad.jsonl", "--json"), "bad.jsonl line 2: value: starts[0] [0, 5] is off the 2x2 board"),
    "solve: time limit 0": (("solve", "boards.jsonl", "--time-limit", "0"), "--time-limit must be above 0 seconds, got 0"),
    "solve: time limit NaN": (("solve", "boards.jsonl", "--time-limit", "nan"), "--time-limit must be above 0 seconds, got nan"),
    "solve: not UTF-8": (("solve", "latin.jsonl"), "latin.jsonl: not UTF-8 text (byte 1): save it as UTF-8"),
    "show: unknown id": (("show", "boards.jsonl", "--id", "nobody"), "no instance 'nobody'; it holds 4, such as 2a-3x3-"),
    "show: labels without a plan": (("show", "walled.jsonl"), "no plan was found for walled; give a plan to draw with --completion"),
    "grade: no rollouts": (("grade", "--rollouts", "none.jsonl"), "none.jsonl: no such file"),
    "grade: instances for rollouts": (("grade", "--rollouts", "boards.jsonl", "-o", "out.jsonl"), "boards.jsonl line 1: "),
    "schema: unknown name": (("schema", "plan"), "invalid choice: 'plan'"),
    "tool: no name": (("tool",), "name a tool, or list them with --list"),
    "tool: no evidence": (("tool", "env_stats"), "give --run DIR, or both --config FILE and --rollouts FILE"),
    "tool: half the evidence": (("tool", "env_stats", "--config", "config.json"), "give --run DIR, or both"),
    "tool: evidence twice": (("tool", "env_stats", "--run", "x", *EVIDENCE), "give either --run DIR or --config FILE --rollouts FILE"),
    "tool: no run": (("tool", "env_stats", "--run", "none"), "none"),
    "tool: unknown name": (("tool", "fix_it", *EVIDENCE), "no tool 'fix_it'; the tools are failure_breakdown, env_stats"),
    "tool: arguments are no JSON": ((*PROPOSE, "{"), "--args: not valid JSON"),
    "tool: arguments are a list": ((*PROPOSE, "[1]"), "--args must be a JSON object, got list"),
    "tool: arguments are a string": ((*PROPOSE, '"{}"'), "--args must be a JSON object, got str"),
    "tool: arguments are null": ((*PROPOSE, "null"), "--args must be a JSON object, got NoneType"),
    "tool: arguments repeat a key": ((*PROPOSE, '{"summary": "a", "summary": "b"}'), "the key 'summary' is repeated"),
    "tool: arguments hold NaN": ((*PROPOSE, '{"summary": NaN}'), "NaN is not a JSON number"),
    "tool: arguments are not in the file": ((*PROPOSE, "@none.json"), "none.json: no such file"),
    "tool: unknown argument": (("tool", "env_stats", *EVIDENCE, "--args", '{"size": 3}'), "validation_failed: unknown argument 'size'"),
    "tool: no such stage": (("tool", "env_stats", *EVIDENCE, "--args", '{"stage": 7}'), "not_found: "),
    "redesign: no rollouts": (("redesign", "--config", "config.json"), "give both --config FILE and --rollouts FILE"),
    "redesign: unknown engineer": (("redesign", *EVIDENCE, "--engineer", "rules"), "no engineer 'rules', did you mean 'rule'?"),
    "redesign: engineer of a later release": (
        ("redesign", *EVIDENCE, "--engineer", "local:/tmp/x"),
        "'local:/tmp/x' comes with a later release",
    ),
    "redesign: no transcript": (("redesign", *EVIDENCE, "--engineer", "replay:none.jsonl"), "none.jsonl"),
    "redesign: empty log": (("redesign", "--config", "config.json", "--rollouts", "empty.jsonl"), "empty.jsonl: holds no rollout"),
    "redesign: bad config": (("redesign", "--config", "short.json", "--rollouts", "rollouts.jsonl", "--out", "out.json"), "short.json: "),
    "run: unknown preset": (("run", "moon", "--dry-run"), "'moon' is neither a preset (demo"),
    "run: unknown setting": (("run", "demo", "--dry-run", "--set", "grpo.learnig_rate=1"), "did you mean 'grpo.learning_rate'?"),
    "run: setting without a value": (("run", "demo", "--dry-run", "--set", "seed"), "--set 'seed': expected KEY=VALUE"),
    "run: bad value": (
        ("run", "demo", "--dry-run", "--set", "num_stages=0"),
        "num_stages: Input should be greater than or equal to 1 (got 0)",
    ),
    "run: batch that does not divide": (
        ("run", "demo", "--dry-run", "--set", "grpo.num_generations=7"),
        "is not a multiple of num_generations 7; set it to",
    ),
    "run: unknown engineer": (("run", "demo", "--dry-run", "--engineer", "nobody"), "no engineer 'nobody'"),
    "run: boards beyond the policy": (
        ("run", "demo", "--dry-run", "--set", 'config.sizes={"12": {"data_ratio": 1, "hole_ratio": 0.1, "wait_ratio": 0}}'),
        "the pocket policy knows boards up to 10x10; take size 12 out of the config",
    ),
}


@pytest.fixture
def bad_files(folder: Path) -> None:
    """Files that commands must refuse."""
    full = {"data_ratio": 1.0, "hole_ratio": 0.5, "wait_ratio": 0.0}
    write_json(folder / "lone.json", {"num_agents": 1, "sizes": {"3": {**full, "wait_ratio": 1.0}}})
    write_json(folder / "short.json", {"num_agents": 2, "sizes": {"3": {**full, "data_ratio": 0.5}}})
    (folder / "nan.json").write_text(dump_json(CONFIG).replace("0.25", "NaN"), encoding="utf-8")
    (folder / "empty.jsonl").write_text("\n", encoding="utf-8")
    (folder / "latin.jsonl").write_bytes(b'"\xe9"\n')
    board: dict[str, Any] = {"size": 2, "holes": [], "starts": [[0, 0]], "goals": [[1, 1]]}
    (folder / "bad.jsonl").write_text(json.dumps(board) + "\n" + json.dumps({**board, "starts": [[0, 5]]}) + "\n", encoding="utf-8")
    labels = {"id": "walled", "optimal_cost": 2, "optimal_makespan": 2, "wait_required": False}
    (folder / "walled.jsonl").write_text(json.dumps({**board, **labels, "holes": [[0, 1], [1, 0]]}) + "\n", encoding="utf-8")


@pytest.mark.usefixtures("bad_files")
@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_exits_2_with_one_line_and_writes_nothing(
    command: Command, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    before = contents(folder)
    done = command(*arguments)
    assert done.code == 2
    assert message in done.err
    assert (done.err.count("\n"), done.err.startswith("envwright")) == (1, True)
    assert contents(folder) == before
    if "--json" in arguments:
        assert done.out == ""


def test_a_failed_write_leaves_the_old_file(command: Command, folder: Path) -> None:
    command("generate", "--config", "config.json", "-n", "4", "-o", "out.jsonl")
    before = contents(folder)
    assert command("generate", "--config", "none.json", "-n", "4", "-o", "out.jsonl").code == 2
    assert contents(folder) == before


def test_help_exits_0_for_every_command(command: Command) -> None:
    for name in ("generate", "solve", "show", "grade", "schema", "tool", "redesign", "run", "evaluate", "presets"):
        done = command(name, "--help")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"usage: envwright {name}")
    assert command("--version").out.startswith("envwright 0.")
