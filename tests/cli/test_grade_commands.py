"""grade, evaluate's table and benchmark make: sets of the benchmark, the paper's figures beside, and bad input."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from envwright.env import benchmark
from envwright.env.benchmark import BenchmarkCell, fill_group, make_benchmark
from envwright.env.grading import solution_answer
from envwright.env.instance import Instance
from envwright.env.jsonio import write_json_lines
from envwright.env.manifest import manifest_of, manifest_path, write_benchmark
from envwright.env.solver import solve
from envwright.training import commands_grade
from tests.cli.commands import Command, contents


def answer(board: Instance) -> str:
    plan = solve(board.size, board.holes, board.starts, board.goals).plan
    assert plan is not None
    return solution_answer(plan)


def lines(boards: Sequence[Instance], right: int) -> list[dict[str, Any]]:
    """A completion per board; the first `right` are optimal, the others stay where they are."""
    still = [solution_answer(("",) * board.num_agents) for board in boards]
    return [
        {"instance": board.to_json(), "completion": answer(board) if index < right else still[index]} for index, board in enumerate(boards)
    ]


@pytest.fixture(scope="module")
def cells() -> list[BenchmarkCell]:
    return [*fill_group(3, 4, per_cell=4), *fill_group(4, 4, per_cell=4)]


@pytest.fixture
def bench(folder: Path, cells: list[BenchmarkCell]) -> list[Instance]:
    """`bench.jsonl` with its manifest and `log.jsonl` with a completion per board, those of the first cell all right."""
    write_benchmark(folder / "bench.jsonl", "paper", cells)
    boards = [board for cell in cells for board in cell.instances]
    write_json_lines(folder / "log.jsonl", lines(boards, right=4))
    return boards


@pytest.mark.usefixtures("bench")
def test_grade_knows_the_wait_ratio_sets_of_a_benchmark_by_its_manifest(command: Command) -> None:
    done = command("grade", "--rollouts", "log.jsonl", "--instances", "bench.jsonl", "--json")
    assert (done.code, done.err) == (0, "")
    table = {block["wait"]: {row["num_agents"]: row["sum"]["valid"]["rate"] for row in block["rows"]} for block in done.json["table"]}
    assert table == {"all": {3: 4 / 12, 4: 0.0}, "0.25": {3: 1.0, 4: 0.0}, "0.50": {3: 0.0, 4: 0.0}, "0.75": {3: 0.0, 4: 0.0}}
    assert {"n", "valid", "optimal", "outcomes", "by_size", "by_num_agents", "by_wait_required", "sum"} <= set(done.json)
    text = command("grade", "--rollouts", "log.jsonl", "--instances", "bench.jsonl").out
    assert [line for line in text.splitlines() if line.startswith("wait ratio")] == [
        f"wait ratio {ratio}, 4 per cell" for ratio in ("0.25", "0.50", "0.75")
    ]


@pytest.mark.usefixtures("bench")
def test_without_the_benchmark_the_sets_are_the_boards_own_wait_labels(command: Command) -> None:
    done = command("grade", "--rollouts", "log.jsonl", "--json")
    assert [block["wait"] for block in done.json["table"]] == ["all", "free", "required"]
    assert {label: tally["n"] for label, tally in done.json["by_wait_required"].items()} == {"false": 12, "true": 12}


@pytest.mark.usefixtures("bench")
def test_the_papers_figures_are_shown_when_asked_and_marked_as_its_own(command: Command) -> None:
    done = command("grade", "--rollouts", "log.jsonl", "--reported")
    assert "reported in arXiv 2606.17682, on its own boards" in done.out
    assert re.search(r"these completions +33\.33 / 33\.33 +0\.00 / 0\.00 +-\n", done.out)
    assert re.search(r"Qwen3-4B, GRPO \+ environment engineer +51\.67 / 31\.67 +33\.14 / 21\.33 +18\.67 / 11\.00\n", done.out)
    assert done.out.isascii()
    assert max(map(len, done.out.splitlines())) <= 100
    document = command("grade", "--rollouts", "log.jsonl", "--reported", "--json").json
    assert len(document["reported"]["rows"]) == 7
    assert "reported" not in command("grade", "--rollouts", "log.jsonl", "--json").json


def test_boards_without_a_completion_are_counted_on_stderr(command: Command, folder: Path, bench: list[Instance]) -> None:
    write_json_lines(folder / "some.jsonl", lines(bench[:5], right=5))
    done = command("grade", "--rollouts", "some.jsonl", "--instances", "bench.jsonl")
    assert (done.code, done.err) == (0, "19 of the 24 boards of bench.jsonl have no completion\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": "4"}, "log.jsonl line 2: instance 'ID': size: Input should be a valid integer (got '4')"),
        (
            {"holes": [], "starts": [[0, 0], [0, 0], [1, 1]]},
            "log.jsonl line 2: instance 'ID': value: starts[1] [0, 0] is repeated; starts must be distinct",
        ),
        ({"note": 1}, "log.jsonl line 2: instance 'ID': unknown key 'note' (got 1); known keys are"),
        ({"optimal_cost": 0}, "log.jsonl line 2: instance 'ID': optimal_cost 0 is below "),
    ],
)
def test_a_bad_board_is_told_in_one_line_with_file_line_id_value_and_rule(
    command: Command, folder: Path, bench: list[Instance], change: dict[str, Any], message: str
) -> None:
    first, second = lines(bench[:2], right=2)
    second["instance"] |= change
    write_json_lines(folder / "log.jsonl", [first, second])
    before = contents(folder)
    done = command("grade", "--rollouts", "log.jsonl", "-o", "out.jsonl")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message.replace("ID", bench[1].id) in done.err
    assert contents(folder) == before


def test_a_rollouts_own_fault_is_told_with_the_boards_id(command: Command, folder: Path, bench: list[Instance]) -> None:
    first, second = lines(bench[:2], right=2)
    write_json_lines(folder / "log.jsonl", [first, {**second, "tokens": -1}])
    done = command("grade", "--rollouts", "log.jsonl")
    assert done.code == 2
    assert f"log.jsonl line 2: rollout of {bench[1].id!r}: tokens: Input should be greater than or equal to 0 (got -1)" in done.err


def test_a_label_that_a_completion_beats_is_refused(command: Command, folder: Path, bench: list[Instance]) -> None:
    board = next(board for board in bench if board.optimal_makespan > 1 and not board.wait_required)
    wrong = {**board.to_json(), "optimal_cost": board.optimal_cost + 2}
    write_json_lines(folder / "log.jsonl", [{"instance": wrong, "completion": answer(board)}])
    done = command("grade", "--rollouts", "log.jsonl")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert (
        f"log.jsonl line 1: instance {board.id!r}: optimal_cost is {board.optimal_cost + 2}, but this completion is valid at cost"
        in done.err
    )


def test_grade_refuses_boards_that_are_not_the_benchmarks_and_files_without_a_manifest(
    command: Command, folder: Path, bench: list[Instance]
) -> None:
    done = command("grade", "--rollouts", "rollouts.jsonl", "--instances", "bench.jsonl")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "is not in bench.jsonl; grade it without --instances" in done.err
    turned = {**bench[0].to_json(), "starts": bench[0].to_json()["goals"], "goals": bench[0].to_json()["starts"]}
    write_json_lines(folder / "log.jsonl", [{"instance": turned, "completion": ""}])
    assert (
        "differs from the board of that id in bench.jsonl" in command("grade", "--rollouts", "log.jsonl", "--instances", "bench.jsonl").err
    )
    manifest_path(folder / "bench.jsonl").unlink()
    done = command("grade", "--rollouts", "log.jsonl", "--instances", "bench.jsonl")
    assert (done.code, "bench.jsonl: has no bench.jsonl.manifest.json that names its cells" in done.err) == (2, True)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """The set `in-distribution` as two boards per cell on two sizes, pinned; returns its digest."""
    monkeypatch.setitem(benchmark.BENCHMARK_SETS, "in-distribution", {2: (3, 4)})
    monkeypatch.setattr(commands_grade, "make_benchmark", lambda name, **more: make_benchmark(name, per_cell=2, **more))
    digest = manifest_of("in-distribution", make_benchmark("in-distribution", per_cell=2)).sha256
    monkeypatch.setitem(benchmark.DIGESTS, "in-distribution", digest)
    return digest


def test_benchmark_make_writes_the_pinned_boards_with_their_manifest(command: Command, folder: Path, tiny: str) -> None:
    done = command("benchmark", "make", "--set", "in-distribution", "-o", "out/bench.jsonl")
    assert (done.code, done.out) == (0, f"sha256 {tiny}  out/bench.jsonl\n")
    assert "12 boards in out/bench.jsonl, their cells in out/bench.jsonl.manifest.json" in done.err
    manifest = json.loads((folder / "out" / "bench.jsonl.manifest.json").read_text(encoding="utf-8"))
    assert (manifest["set"], manifest["sha256"], manifest["split"], len(manifest["cells"])) == ("in-distribution", tiny, "benchmark", 6)
    assert command("benchmark", "make", "--set", "in-distribution", "-o", "again.jsonl", "--json").json == manifest
    assert (folder / "again.jsonl").read_bytes() == (folder / "out" / "bench.jsonl").read_bytes()


@pytest.mark.usefixtures("tiny")
def test_benchmark_make_writes_nothing_when_the_boards_are_not_the_pinned_ones(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(benchmark.DIGESTS, "in-distribution", "0" * 64)
    before = contents(folder)
    done = command("benchmark", "make", "--set", "in-distribution", "-o", "bench.jsonl")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "not the pinned 0000" in done.err
    assert contents(folder) == before


def test_benchmark_make_refuses_bad_arguments(command: Command) -> None:
    assert "--workers must be at least 1, got 0" in command("benchmark", "make", "-o", "x.jsonl", "--workers", "0").err
    assert "invalid choice: 'small'" in command("benchmark", "make", "-o", "x.jsonl", "--set", "small").err
    assert command("benchmark", "-o", "x.jsonl").code == command("benchmark", "make").code == 2
