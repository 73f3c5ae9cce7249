"""generate, solve, show, grade, schema, presets and the dry run: what they print and write."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from envwright.env.grading import grade_completion, solution_answer
from envwright.env.instance import read_instances
from envwright.env.jsonio import write_json, write_json_lines
from envwright.env.rollout import read_rollouts
from envwright.env.rules import Outcome
from envwright.env.schemas import SCHEMA_NAMES
from envwright.training.settings import list_presets
from tests.cli.commands import Command, contents


def test_generate_writes_instances_that_follow_the_config_and_talks_on_stderr(command: Command, folder: Path) -> None:
    done = command("generate", "--config", "config.json", "-n", "11", "--seed", "3", "--split", "validation", "-o", "out/made.jsonl")
    assert (done.code, done.out) == (0, "")
    assert "11 instances (validation split) in out/made.jsonl" in done.err
    made = read_instances(folder / "out" / "made.jsonl")
    assert Counter(instance.size for instance in made) == {3: 6, 4: 5}
    again = command("generate", "--config", "config.json", "-n", "11", "--seed", "3", "--split", "validation", "-o", "again.jsonl")
    assert again.code == 0
    assert (folder / "again.jsonl").read_bytes() == (folder / "out" / "made.jsonl").read_bytes()


def test_generate_says_when_boards_repeat(command: Command, folder: Path) -> None:
    knobs = {"data_ratio": 1.0, "hole_ratio": 0.0, "wait_ratio": 0.0}
    write_json(folder / "tiny.json", {"num_agents": 1, "sizes": {"2": knobs}})
    assert "of them repeats" in command("generate", "--config", "tiny.json", "-n", "5", "-o", "tiny.jsonl").err


def test_solve_prints_one_document_with_a_plan_per_board(command: Command, folder: Path) -> None:
    done = command("solve", "boards.jsonl", "--json")
    assert (done.code, done.err) == (0, "")
    results = done.json["results"]
    assert [list(result) for result in results] == [
        ["id", "objective", "status", "sum_of_costs", "makespan", "wait_required", "plan", "seconds"]
    ] * 4
    assert [result["id"] for result in results] == ["1", "2", "3", "4"]
    for result, instance in zip(results, read_instances(folder / "boards.jsonl"), strict=True):
        assert result["status"] == "optimal"
        labels = (result["sum_of_costs"], result["makespan"], result["wait_required"])
        assert labels == (instance.optimal_cost, instance.optimal_makespan, instance.wait_required)
        assert grade_completion(instance, solution_answer(tuple(result["plan"]))).outcome is Outcome.OPTIMAL


def test_solve_tells_unsolvable_boards_and_budgets_apart_and_keeps_ids_and_blank_lines(command: Command, folder: Path) -> None:
    walled = {"id": "walled", "size": 3, "holes": [[0, 1], [1, 1], [2, 1]], "starts": [[0, 0]], "goals": [[0, 2]]}
    ring = [[row, col] for row in range(6) for col in range(6)][:24]
    crowded = {"size": 6, "holes": [], "starts": ring, "goals": ring[::-1]}
    text = json.dumps(walled) + "\n\n" + json.dumps(crowded) + "\n"
    (folder / "hard.jsonl").write_text(text, encoding="utf-8")
    done = command("solve", "hard.jsonl", "--json", "--time-limit", "0.05")
    assert all(result["seconds"] < 1 for result in done.json["results"])
    nothing = {"sum_of_costs": None, "makespan": None, "wait_required": None, "plan": None}
    found = [{key: value for key, value in result.items() if key != "seconds"} for result in done.json["results"]]
    assert found == [
        {"id": "walled", "objective": "sum_of_costs", "status": "unsolvable", **nothing},
        {"id": "3", "objective": "sum_of_costs", "status": "budget", **nothing},
    ]


def test_solve_without_json_prints_a_line_per_board(command: Command) -> None:
    done = command("solve", "boards.jsonl")
    assert done.out.splitlines()[0] == "1  optimal  sum of costs 4, makespan 2, wait required: False  RR LL"
    assert len(done.out.splitlines()) == 4


def test_show_draws_the_chosen_instance_with_an_optimal_plan(command: Command, folder: Path) -> None:
    instance = read_instances(folder / "boards.jsonl")[0]
    done = command("show", "boards.jsonl", "--id", instance.id)
    assert done.code == 0
    assert f"{instance.id}: 3x3, 2 agents, 1 hole" in done.out
    assert "A agent 0: (0, 0) to (0, 2)  RR\nB agent 1: (2, 2) to (2, 0)  LL\n" in done.out
    assert "an optimal plan: RR LL\nvalid and optimal: sum of costs 4, makespan 2\n\nt=0" in done.out
    assert done.out.endswith("  012     012     012\n0 A.a   0 .Aa   0 ..@\n1 .#.   1 .#.   1 .#.\n2 b.B   2 bB.   2 @..\n")


def test_show_draws_a_completion_up_to_where_it_breaks(command: Command) -> None:
    done = command("show", "boards.jsonl", "--completion", '{"plan": ["RD", "LL"]}')
    assert "hole at timestep 2: agent 0 enters the hole (1, 1)" in done.out
    assert "parse_error: no plan to draw" in command("show", "boards.jsonl", "--completion", "no \x1b(B idea").out
    assert "\x1b" not in command("show", "boards.jsonl", "--completion", "no \x1b(B idea").out
    assert 'completion: {"plan": ["RRU", "LL"]}' in command("show", "rollouts.jsonl").out


def test_grade_prints_rates_outcomes_and_sizes_and_writes_graded_rollouts(command: Command, folder: Path) -> None:
    done = command("grade", "--rollouts", "rollouts.jsonl", "-o", "graded.jsonl", "--json")
    assert (done.code, done.err) == (0, "")
    assert {"n", "valid", "optimal", "outcomes", "by_size"} <= set(done.json)
    assert done.json["n"] == sum(done.json["outcomes"].values()) == 300
    assert done.json["outcomes"] == {"out_of_bounds": 5, "hole": 70, "vertex_conflict": 70, "swap_conflict": 5, "optimal": 150}
    assert set(done.json["valid"]) == {"rate", "low", "high"}
    assert done.json["valid"]["low"] < done.json["valid"]["rate"] == 0.5 < done.json["valid"]["high"]
    assert {size: tally["valid"]["rate"] for size, tally in done.json["by_size"].items()} == {"3": 140 / 150, "4": 10 / 150}
    graded = read_rollouts(folder / "graded.jsonl")
    assert Counter(rollout.verdict.value for rollout in graded) == done.json["outcomes"]
    assert command("grade", "--rollouts", "graded.jsonl", "--json").json == done.json


def test_grade_says_when_recorded_outcomes_disagree(command: Command, folder: Path) -> None:
    rollout = json.loads((folder / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()[2])
    write_json_lines(folder / "wrong.jsonl", [{**rollout, "outcome": "optimal", "cost": 1}])
    done = command("grade", "--rollouts", "wrong.jsonl")
    assert (done.code, done.err.splitlines()) == (
        0,
        ["1 of 1 recorded outcomes disagree with their completions; the completions were graded anew"],
    )
    assert "4x4" in done.out


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_schema_prints_a_valid_json_schema(command: Command, name: str) -> None:
    done = command("schema", name)
    assert (done.code, done.err) == (0, "")
    Draft202012Validator.check_schema(done.json)


def test_presets_lists_every_preset_with_what_it_is_for(command: Command) -> None:
    done = command("presets")
    assert done.code == 0
    assert {line.split()[0]: line.split(maxsplit=1)[1] for line in done.out.splitlines()} == list_presets()


@pytest.mark.parametrize("preset", list_presets())
def test_every_preset_can_be_resolved_by_a_dry_run_that_writes_nothing(command: Command, folder: Path, preset: str) -> None:
    before = contents(folder)
    done = command("run", preset, "--dry-run", "--engineer", "fixed", "--set", "seed=5", "--set", "grpo.learning_rate=0.001")
    assert (done.code, done.err) == (0, "")
    settings, _, plan = done.out.partition("\n}\n")
    resolved: dict[str, Any] = json.loads(settings + "\n}")
    assert (resolved["engineer"], resolved["seed"], resolved["grpo"]["learning_rate"]) == ("fixed", 5, 0.001)
    assert plan.startswith(f"each stage: {resolved['steps_per_stage']} steps, ")
    assert contents(folder) == before
    if preset in ("smollm2", "qwen3-4b"):
        for told in ("M parameters", "tokens in the middle", "memory per process, roughly, in GiB: weights"):
            assert told in plan


def test_a_dry_runs_settings_are_a_settings_file(command: Command, folder: Path) -> None:
    text = command("run", "demo", "--dry-run", "--set", "num_stages=2").out.partition("\n}\n")[0] + "\n}\n"
    (folder / "mine.json").write_text(text, encoding="utf-8")
    assert command("run", "mine.json", "--dry-run").out.startswith(text)
