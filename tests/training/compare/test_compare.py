"""A real comparison at a tiny scale: shared first stages, failure, resume, pairing, budgets, files."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from envwright.env.errors import UserError
from envwright.env.jsonio import read_json, read_json_lines, write_json
from envwright.env.rollout import read_rollouts
from envwright.training.compare.comparison import COMPARISON_COLUMNS, build_comparison, read_comparison
from envwright.training.compare.plan import Arm, Plan
from envwright.training.compare.runner import _Runner, run_units, units_of
from envwright.training.policies.policy import run_policy
from envwright.training.runstore import RunStore
from envwright.training.stages import run_stages
from envwright.training.view.progress import Progress
from tests.training.compare.conftest import SIMULATED_BOARDS, Compare, Compared
from tests.training.conftest import TINY

TIMED = {"events.jsonl", "summary.json"}


def _bytes(folder: Path) -> dict[str, bytes]:
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: content for name, content in files.items() if name not in TIMED}


def test_a_failing_arm_stops_no_other_and_is_named_with_its_reason(broken: Compared) -> None:
    assert broken.code == 1
    document = broken.document
    assert document["status"] == "unfinished"
    assert {(cell["arm"], cell["status"]) for cell in document["cells"]} == {("keep", "done"), ("play", "failed")}
    reason = "the transcript ended with a patch of 1 edits (/sizes/4/wait_ratio) and its replay with a patch of 1 edits"
    assert len(document["unfinished"]) == 2
    assert all(reason in line for line in document["unfinished"])
    assert f"play-seed1 failed: {broken.session}: {reason}" in broken.errors
    assert {row["arm"] for row in document["headline"]} == {"keep"}
    assert document["differences"] == []
    assert "unfinished: 2 of 4 runs" in broken.lines


def test_a_comparison_that_is_continued_does_only_what_was_missing(broken: Compared, finished: Compared) -> None:
    assert (finished.code, finished.errors) == (0, "")
    assert "2 of 4 pieces of work are done already" in finished.lines
    assert "first-stage" not in finished.lines
    assert finished.document["status"] == "done"
    assert finished.document["unfinished"] == []
    for seed in (0, 1):
        assert _bytes(broken.out / f"runs/keep/seed{seed}") == _bytes(finished.out / f"runs/keep/seed{seed}")


def test_the_first_stage_is_trained_once_per_seed(finished: Compared) -> None:
    shared = sorted(path.name for path in (finished.out / "shared").iterdir())
    assert [name.split("-")[1] for name in shared] == ["seed0", "seed1"]
    for seed, name in enumerate(shared):
        weights = [
            (finished.out / f"runs/{arm}/seed{seed}/stages/00/checkpoint/model.safetensors").read_bytes() for arm in ("keep", "play")
        ]
        source = finished.out / "shared" / name
        assert weights == [(source / "stages/00/checkpoint/model.safetensors").read_bytes()] * 2
        trained = [event for _, event in read_json_lines(source / "events.jsonl") if event["event"] == "stage_trained"]
        assert len(trained) == 1
        for arm in ("keep", "play"):
            events = [event for _, event in read_json_lines(finished.out / f"runs/{arm}/seed{seed}/events.jsonl")]
            taken = [event for event in events if event["event"] == "stage_trained" and event["stage"] == 0]
            assert [(event["seconds"], event.get("shared")) for event in taken] == [(trained[0]["seconds"], True)]


def test_an_arm_s_run_is_the_one_that_stands_alone(finished: Compared, tmp_path: Path) -> None:
    settings = RunStore(finished.out / "runs/play/seed1").settings()
    assert (settings.seed, settings.engineer) == (1, f"replay:{finished.session}")
    store = RunStore.create(tmp_path / "alone", settings, run_policy(settings).provenance())
    run_stages(store, settings, Progress(lambda _: None))
    assert _bytes(tmp_path / "alone") == _bytes(finished.out / "runs/play/seed1")


def test_rates_and_differences_are_those_of_the_raw_rollouts(finished: Compared) -> None:
    document = finished.document
    raw: dict[tuple[str, str], list[float]] = {}
    for arm in ("keep", "play"):
        for decoding in ("greedy", "sampled"):
            for seed in (0, 1):
                rollouts = read_rollouts(finished.out / f"runs/{arm}/seed{seed}/heldout/final_{decoding}.jsonl")
                raw.setdefault((arm, decoding), []).append(sum(rollout.verdict.valid for rollout in rollouts) / len(rollouts))
    for row in document["headline"]:
        if row["metric"] == "valid":
            rates = raw[row["arm"], row["decoding"]]
            assert row["rate"] == pytest.approx(sum(rates) / 2, abs=1e-6)
            assert (row["boards"], row["seeds"]) == (16, 2)
            assert row["low"] <= row["rate"] <= row["high"]
    found = [row for row in document["differences"] if (row["metric"], row["subset"]) == ("valid", "all")]
    assert {(row["arm"], row["against"], row["decoding"]) for row in found} == {("play", "keep", "greedy"), ("play", "keep", "sampled")}
    for row in found:
        means = [sum(raw[arm, row["decoding"]]) / 2 for arm in ("play", "keep")]
        assert row["difference"] == pytest.approx(means[0] - means[1], abs=1e-6)
    assert {row["subset"] for row in document["differences"]} == {"all", *(f"size={n}" for n in range(3, 7)), "wait=free", "wait=required"}


def test_what_every_run_spent_is_measured_and_a_larger_spender_is_flagged(finished: Compared) -> None:
    for cell in finished.document["cells"]:
        budget = cell["budget"]
        assert (budget["boards"], budget["completions"]) == (16, 128)
        rollouts = [
            rollout
            for stage in ("00", "01")
            for rollout in read_rollouts(finished.out / cell["run"] / f"stages/{stage}/train_rollouts.jsonl")
        ]
        assert budget["completion_tokens"] == sum(rollout.tokens or 0 for rollout in rollouts)
        assert budget["training_seconds"] > 0
        simulated = 5 * SIMULATED_BOARDS * 8 if cell["arm"] == "play" else 0
        assert budget["simulated_completions"] == simulated
        words = f"sampled {simulated} completions in simulations beside training, {100 * simulated / 128:.1f} % of those trained on"
        assert cell["flags"] == ([words] if simulated else [])
    assert "play seed 0: sampled 160 completions in simulations" in finished.lines


def test_the_tables_are_there_as_csv_and_as_typed_parquet(finished: Compared) -> None:
    for name, columns in COMPARISON_COLUMNS.items():
        table = pq.read_table(finished.out / "tables" / f"{name}.parquet")
        assert tuple(table.column_names) == columns
        with (finished.out / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == table.num_rows > 0
        for row, typed in zip(rows, table.to_pylist(), strict=True):
            assert row == {column: "" if value is None else str(value) for column, value in typed.items()}
    differences = pq.read_table(finished.out / "tables/differences.parquet").to_pylist()
    assert differences == finished.document["differences"]


def test_the_folder_says_what_was_run(finished: Compared) -> None:
    plan = read_json(finished.out / "compare.json")
    assert plan["seeds"] == [0, 1]
    assert [(arm["name"], arm["engineer"]) for arm in plan["arms"]] == [("keep", "fixed"), ("play", f"replay:{finished.session}")]
    assert plan["settings"]["steps_per_stage"] == 1
    assert plan["command"][:3] == ["envwright", "compare", "demo"]
    assert "--resume" not in plan["command"]
    assert {"envwright", "python", "torch"} <= plan["versions"].keys()
    assert not [path for path in finished.out.rglob("*") if ":" in path.name]
    assert (finished.out / "logs/play-seed0.log").is_file()


def test_json_prints_the_comparison_and_nothing_else(finished: Compared, compare: Compare, tmp_path: Path) -> None:
    shutil.copytree(finished.out, tmp_path / "copy")
    arms = ("--arm", "keep:engineer=fixed", "--arm", f"play:engineer=replay:{finished.session}")
    code, out, err = compare(*arms, "--seeds", "0,1", "--out", str(tmp_path / "copy"), "--resume", "--json")
    assert code == 0
    document = json.loads(out)
    assert document.pop("command") != finished.document["command"]  # the folder's name
    assert document == {key: value for key, value in finished.document.items() if key != "command"}
    assert "4 of 4 pieces of work are done already" in err


def test_a_comparison_that_was_broken_off_can_be_read(finished: Compared, tmp_path: Path) -> None:
    shutil.copytree(finished.out, tmp_path / "copy")
    for name in ("comparison.json", "runs/play/seed1/summary.json"):
        (tmp_path / "copy" / name).unlink()
    document = read_comparison(tmp_path / "copy")
    assert document["status"] == "unfinished"
    assert document["unfinished"] == ["play seed 1: 2 stages are done"]
    pairs = {(row["arm"], row["seeds"]) for row in document["headline"]}
    assert pairs == {("keep", 2), ("play", 1)}
    assert {row["seeds"] for row in document["differences"]} == {1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "0"), "seeds 1 are missing"),
        (("--seeds", "0,1", "--set", "grpo.learning_rate=0.5"), "grpo.learning_rate was 0.0008 and is 0.5"),
    ],
)
def test_a_comparison_is_not_continued_with_other_settings(
    finished: Compared, compare: Compare, arguments: tuple[str, ...], message: str
) -> None:
    arms = ("--arm", "keep:engineer=fixed", "--arm", f"play:engineer=replay:{finished.session}")
    before = _bytes(finished.out)
    code, out, err = compare(*arms, *arguments, "--out", str(finished.out), "--resume")
    assert (code, out) == (2, "")
    assert f"was started otherwise: {message}" in err
    assert err.count("\n") == 1
    assert _bytes(finished.out) == before


def test_a_run_of_other_settings_in_the_folder_is_named(finished: Compared, compare: Compare, tmp_path: Path) -> None:
    shutil.copytree(finished.out, tmp_path / "copy")
    path = tmp_path / "copy/runs/keep/seed1/run.json"
    run = read_json(path)
    run["settings"]["gate_tolerance"] = 0.5
    write_json(path, run)
    arms = ("--arm", "keep:engineer=fixed", "--arm", f"play:engineer=replay:{finished.session}")
    code, _, err = compare(*arms, "--seeds", "0,1", "--out", str(tmp_path / "copy"), "--resume")
    assert code == 2
    assert "runs/keep/seed1 was started with other settings: gate_tolerance was 0.5 and is 0.05" in err


def test_runs_on_other_boards_are_not_compared(finished: Compared, tmp_path: Path) -> None:
    shutil.copytree(finished.out, tmp_path / "copy")
    for decoding in ("greedy", "sampled"):
        path = tmp_path / f"copy/runs/play/seed0/heldout/final_{decoding}.jsonl"
        path.write_text("\n".join(reversed(path.read_text(encoding="utf-8").splitlines())) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match="runs/play/seed0: measured on other boards than runs/keep/seed0"):
        build_comparison(tmp_path / "copy")


def _plan(*more: str) -> Plan:
    return Plan("demo", [Arm("keep", ("engineer=fixed",)), Arm("draw", ("engineer=random",))], [0], [*TINY, "steps_per_stage=1", *more])


def test_an_interrupted_comparison_ends_its_processes_and_can_be_continued(tmp_path: Path) -> None:
    plan, said = _plan(), list[str]()

    def interrupt(line: str) -> None:
        if "first-stage" in line and "done" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_units(units_of(plan, tmp_path), tmp_path / "logs", 1, interrupt)
    units = units_of(plan, tmp_path)
    assert [(unit.name.split("-")[0], unit.done) for unit in units] == [("first", True), ("keep", False), ("draw", False)]
    assert run_units(units, tmp_path / "logs", 2, said.append) == {}
    assert all(unit.done for unit in units)
    assert said[0] == "1 of 3 pieces of work are done already"


def test_a_process_ends_when_the_one_that_started_it_is_gone(tmp_path: Path) -> None:
    units = units_of(_plan("steps_per_stage=500"), tmp_path)
    (tmp_path / "logs").mkdir()
    runner = _Runner(units, tmp_path / "logs", 1, lambda _: None)
    runner._start(units[0])
    (entry,) = runner.running
    entry.alive.close()
    entry.process.join(60)
    assert entry.process.exitcode == 1
    assert not units[0].done


def test_runs_whose_first_stage_failed_say_so(tmp_path: Path) -> None:
    plan = _plan("policy=/nowhere")
    failed = run_units(units_of(plan, tmp_path), tmp_path / "logs", 1, lambda _: None)
    assert len(failed) == 3
    assert failed["draw-seed0"].startswith("its first stage failed: ")
    assert "/nowhere" in failed["draw-seed0"]


def test_a_policy_that_is_not_there_is_named_before_any_work(compare: Compare, tmp_path: Path) -> None:
    code, out, err = compare("--engineers", "fixed,random", "--seeds", "0", "--set", "policy=nowhere", "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert "arm 'fixed': policy 'nowhere': no such folder" in err
    assert not (tmp_path / "out").exists()


def test_numbers_on_the_screen_are_those_of_the_file(finished: Compared) -> None:
    row: dict[str, Any] = next(row for row in finished.document["headline"] if (row["arm"], row["decoding"]) == ("play", "sampled"))
    assert f"{100 * row['rate']:5.1f} % [{100 * row['low']:.1f}, {100 * row['high']:.1f}]" in finished.lines
    assert "== differences in valid plans" in finished.lines
