"""Bad input: exit code 2, one line that says what to do, and nothing written."""

import json
from pathlib import Path
from typing import Any

import pytest

from envwright.env.jsonio import dump_json, write_json, write_json_lines
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
    "show: labels of a walled board": (
        ("show", "walled.jsonl"),
        "walled.jsonl line 1: id 'walled': the board is unsolvable: no way leads from starts[0] [0, 0] to goals[0] [1, 1]",
    ),
    "show: labels without a plan": (("show", "stuck.jsonl"), "no plan was found for stuck; give a plan to draw with --completion"),
    "show: a wrong optimum": (("show", "wrong.jsonl"), "wrong.jsonl: id 'wrong': optimal_cost is 4, not 6; leave the labels out"),
    "solve: a wrong optimum": (("solve", "wrong.jsonl", "--check"), "wrong.jsonl line 1: id 'wrong': optimal_cost is 4, not 6"),
    "solve: labels without a plan": (
        ("solve", "stuck.jsonl", "--check", "--json"),
        "stuck.jsonl line 1: id 'stuck': the board is unsolvable",
    ),
    "import: no map": (("import", "--map", "none.map", "--scen", "none.scen", "-o", "out.jsonl"), "none.map: no such file"),
    "import: time limit 0": (
        ("import", "--map", "none.map", "--scen", "none.scen", "--time-limit", "0", "-o", "out.jsonl"),
        "--time-limit must be above 0 seconds, got 0",
    ),
    "export: unknown format": (("export", "boards.jsonl", "--format", "csv", "--out", "out"), "invalid choice: 'csv'"),
    "export: folder in use": (
        ("export", "boards.jsonl", "--format", "jsonl", "--out", "."),
        ".: exists already; choose another folder with --out",
    ),
    "export: below a file": (("export", "boards.jsonl", "--format", "movingai", "--out", "config.json/out"), "cannot be written"),
    "export: no such size": (
        ("export", "boards.jsonl", "--format", "hf", "--size", "9", "--out", "out"),
        "no instance has size 9; choose another",
    ),
    "export: size 0": (("export", "boards.jsonl", "--format", "hf", "--size", "0", "--out", "out"), "--size must be 1 to 64, got 0"),
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
    "redesign: a local model that is not there": (
        ("redesign", *EVIDENCE, "--engineer", "local:nowhere"),
        "local:nowhere: no such folder; give the folder of a transformers model, or local:smollm2",
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
    stuck = {"size": 2, "holes": [[1, 0], [1, 1]], "starts": [[0, 0], [0, 1]], "goals": [[0, 1], [0, 0]]}
    write_json_lines(folder / "stuck.jsonl", [{**stuck, "id": "stuck", "optimal_cost": 4, "optimal_makespan": 3, "wait_required": False}])
    loose = {"size": 3, "holes": [], "starts": [[0, 0], [2, 0]], "goals": [[0, 2], [2, 2]]}
    write_json_lines(folder / "wrong.jsonl", [{**loose, "id": "wrong", "optimal_cost": 6, "optimal_makespan": 4, "wait_required": False}])
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
    for name in ("generate", "solve", "show", "grade", "benchmark", "schema", "tool", "redesign", "run", "evaluate", "presets"):
        done = command(name, "--help")
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"usage: envwright {name}")
    assert command("--version").out.startswith("envwright 0.")


LINE: dict[str, Any] = {
    "id": "mine",
    "size": 3,
    "holes": [[1, 1]],
    "starts": [[0, 0], [2, 2]],
    "goals": [[0, 2], [2, 0]],
    "optimal_cost": 4,
    "optimal_makespan": 2,
    "wait_required": False,
}
BAD_LINES: dict[str, tuple[str, str]] = {
    "equal starts": (dump_json({**LINE, "starts": [[0, 0], [0, 0]]}), "starts[1] [0, 0] is repeated; starts must be distinct"),
    "equal goals": (dump_json({**LINE, "goals": [[0, 2], [0, 2]]}), "goals[1] [0, 2] is repeated; goals must be distinct"),
    "start on a hole": (dump_json({**LINE, "starts": [[1, 1], [2, 2]]}), "starts[0] [1, 1] is on a hole"),
    "goal on a hole": (dump_json({**LINE, "goals": [[0, 2], [1, 1]]}), "goals[1] [1, 1] is on a hole"),
    "hole off the board": (dump_json({**LINE, "holes": [[3, 0]]}), "holes[0] [3, 0] is off the 3x3 board (rows and columns 0 to 2)"),
    "start off the board": (dump_json({**LINE, "starts": [[0, -1], [2, 2]]}), "starts[0] [0, -1] is off the 3x3 board"),
    "size as a string": (dump_json({**LINE, "size": "3"}), "size: Input should be a valid integer (got '3')"),
    "half a coordinate": (dump_json({**LINE, "holes": [[1, 0.5]]}), "holes/0/1: Input should be a valid integer (got 0.5)"),
    "a list for a label": (dump_json({**LINE, "optimal_cost": [4]}), "optimal_cost: Input should be a valid integer (got [4])"),
    "a number for a truth": (dump_json({**LINE, "wait_required": 0}), "wait_required: Input should be a valid boolean (got 0)"),
    "repeated key": (dump_json(LINE).replace("}", ',"size":3}'), "the key 'size' is repeated"),
    "NaN": (dump_json(LINE).replace('"optimal_cost":4', '"optimal_cost":NaN'), "NaN is not a JSON number"),
    "unknown key": (dump_json({**LINE, "colour": "red"}), "unknown key 'colour' (got 'red'); known keys are "),
    "unsolvable": (dump_json({**LINE, "holes": [[0, 1], [1, 0]]}), "unsolvable: no way leads from starts[0] [0, 0] to goals[0] [0, 2]"),
    "optimum below the distances": (
        dump_json({**LINE, "optimal_cost": 3}),
        "optimal_cost 3 is below 4, the sum of the agents' shortest distances",
    ),
    "one wrong label of some": (
        dump_json({key: value for key, value in LINE.items() if key != "wait_required"} | {"optimal_cost": 6, "optimal_makespan": 4}),
        "optimal_cost is 4, not 6; optimal_makespan is 2, not 4; leave the labels out and they are computed",
    ),
}
UNCHECKED_BY_SOLVE = ("unsolvable", "optimum below", "one wrong")
READERS: dict[str, tuple[str, ...]] = {
    "solve": ("solve", "lines.jsonl", "--json"),
    "show": ("show", "lines.jsonl", "--id", "nobody"),
    "evaluate": ("evaluate", "--policy", "pocket", "--instances", "lines.jsonl", "-o", "out.jsonl"),
    "export": ("export", "lines.jsonl", "--format", "jsonl", "--out", "out"),
    "grade": ("grade", "--rollouts", "log.jsonl", "-o", "out.jsonl"),
    "redesign": ("redesign", "--config", "config.json", "--rollouts", "log.jsonl", "--out", "out.json"),
}


CASES = [
    (reader, name)
    for reader in READERS
    for name in BAD_LINES
    if not (reader == "solve" and name.startswith(UNCHECKED_BY_SOLVE))  # solve says what the labels are, --check compares
]


@pytest.mark.parametrize(("reader", "name"), CASES)
def test_every_reader_of_instances_names_file_line_id_value_and_rule(command: Command, folder: Path, reader: str, name: str) -> None:
    line, message = BAD_LINES[name]
    good = dump_json({**LINE, "id": "good"})
    (folder / "lines.jsonl").write_text(f"{good}\n{line}\n", encoding="utf-8")
    rollout = '{"completion":"","instance":%s}\n'
    (folder / "log.jsonl").write_text(rollout % good + rollout % line, encoding="utf-8")
    before = contents(folder)
    done = command(*READERS[reader])
    file = "lines.jsonl" if "lines.jsonl" in READERS[reader] else "log.jsonl"
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"envwright {reader}: {file} line 2: ")
    assert "'mine': " in done.err
    assert message in done.err
    assert done.err.count("\n") == 1
    assert contents(folder) == before


def test_a_line_that_is_no_json_at_all_is_named_by_file_and_line(command: Command, folder: Path) -> None:
    (folder / "lines.jsonl").write_text(dump_json(LINE) + "\n" + dump_json(LINE)[:-1] + "\n", encoding="utf-8")
    done = command("export", "lines.jsonl", "--format", "jsonl", "--out", "out")
    assert (done.code, done.err.startswith("envwright export: lines.jsonl line 2: not valid JSON: ")) == (2, True)


def test_labels_that_agree_are_proved_by_solve_check(command: Command, folder: Path) -> None:
    write_json_lines(folder / "lines.jsonl", [LINE, {key: LINE[key] for key in ("size", "holes", "starts", "goals", "optimal_cost")}])
    done = command("solve", "lines.jsonl", "--check")
    assert (done.code, done.err, done.out) == (0, "", "2 boards, 4 labels: all exact\n")
