"""A run's tables hold what its files hold."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from envwright.env.errors import UserError
from envwright.env.jsonio import read_json
from envwright.env.rollout import read_rollouts
from envwright.training.compare.completions import Completion, read_completions
from envwright.training.compare.tables import COLUMNS, Row, run_tables
from envwright.training.runstore import RunStore
from tests.training.compare.conftest import EDIT, SIMULATED_BOARDS, Compared


@pytest.fixture(scope="module")
def run(finished: Compared) -> RunStore:
    return RunStore.open(finished.out / "runs/play/seed0")


@pytest.fixture(scope="module")
def tables(run: RunStore) -> dict[str, list[Row]]:
    return run_tables(run)


def _where(rows: list[Row], **wanted: object) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def test_every_table_has_its_columns_in_order(tables: dict[str, list[Row]]) -> None:
    assert tuple(tables) == tuple(COLUMNS)
    for name, rows in tables.items():
        assert rows
        assert {tuple(row) for row in rows} == {COLUMNS[name]}


def test_rates_are_counted_over_sizes_agents_and_wait_labels(run: RunStore, tables: dict[str, list[Row]]) -> None:
    rollouts = run.stage(1).read_rollouts("validation")
    rows = _where(tables["rates"], stage=1, set="validation", decoding="sampled")
    assert {(row["dimension"], row["value"]) for row in rows} == {
        ("all", "all"),
        *(("size", str(size)) for size in range(3, 7)),
        ("num_agents", "2"),
        ("wait_required", "free"),
        ("wait_required", "required"),
    }
    (row,) = _where(rows, dimension="wait_required", value="free")
    free = [rollout for rollout in rollouts if not rollout.instance.wait_required]
    assert (row["n"], row["valid"]) == (len(free), sum(rollout.verdict.valid for rollout in free) / len(free))
    assert row["valid_low"] < row["valid"] < row["valid_high"]


def test_rates_agree_with_the_summary(run: RunStore, tables: dict[str, list[Row]]) -> None:
    summary = read_json(run.path / "summary.json")
    overall = _where(tables["rates"], dimension="all")
    for name, part, stage in (("heldout_base", "base", None), ("heldout_final", "final", 1)):
        for decoding in ("greedy", "sampled"):
            (row,) = _where(overall, set=name, decoding=decoding, stage=stage)
            figures = summary[part][decoding]
            assert (row["valid"], row["optimal"]) == pytest.approx((figures["valid"], figures["optimal"]), abs=1e-6)
    for entry in summary["stages"]:
        (row,) = _where(overall, set="validation", decoding="greedy", stage=entry["stage"])
        assert row["valid"] == pytest.approx(entry["validation"]["greedy"]["valid"], abs=1e-6)


def test_failures_sum_to_one_and_signal_is_that_of_the_steps(run: RunStore, tables: dict[str, list[Row]]) -> None:
    rows = _where(tables["failures"], stage=0, set="validation", decoding="sampled")
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    counts = Counter(rollout.verdict.value for rollout in run.stage(0).read_rollouts("validation"))
    assert {row["outcome"]: row["count"] for row in rows if row["count"]} == counts
    (signal,) = _where(tables["signal"], stage=0, size="all")
    assert signal["share"] == pytest.approx(tables["steps"][0]["signal"])
    assert signal["groups"] == sum(row["groups"] for row in _where(tables["signal"], stage=0) if row["size"] != "all") == 8


def test_a_patch_is_told_knob_by_knob_and_knobs_follow_it(tables: dict[str, list[Row]]) -> None:
    (patch,) = _where(tables["patches"], stage=0)
    assert (patch["path"], patch["before"], patch["after"]) == (EDIT["path"], 0.1, 0.5)
    assert (patch["reason"], patch["evidence"], patch["stop_reason"]) == ("practise waiting", "simulate_config#1", "patch_accepted")
    (last,) = _where(tables["patches"], stage=1)
    assert (last["path"], last["stop_reason"]) == (None, "last_stage")
    knobs = _where(tables["knobs"], size="4", knob="wait_ratio")
    assert [(row["stage"], row["value"]) for row in knobs] == [(0, 0.1), (1, 0.5)]


def test_predictions_are_held_against_the_stage_that_they_spoke_of(run: RunStore, tables: dict[str, list[Row]]) -> None:
    rows = tables["calibration"]
    assert {row["measured_on"] for row in rows} == {"train_first", "train", "validation"}
    assert {row["size"] for row in rows} == {"3", "4", "5", "6", "all"}
    (row,) = _where(rows, size="4", measured_on="train")
    assert row["predicted_boards"] == SIMULATED_BOARDS
    trained = [rollout for rollout in read_rollouts(run.stage(1).path / "train_rollouts.jsonl") if rollout.instance.size == 4]
    measured = sum(rollout.verdict.valid for rollout in trained) / len(trained)
    assert (row["measured"], row["measured_completions"]) == (measured, len(trained))
    assert row["error"] == pytest.approx(row["predicted"] - measured)
    (overall,) = _where(rows, size="all", measured_on="train")
    of_sizes = [row["predicted"] for row in _where(rows, measured_on="train") if row["size"] != "all"]
    assert overall["predicted"] == pytest.approx(sum(of_sizes) / 4)


def test_a_run_that_goes_on_gives_its_finished_stages(run: RunStore, tables: dict[str, list[Row]], tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/stages/01")
    (tmp_path / "run/summary.json").unlink()
    found = run_tables(RunStore.open(tmp_path / "run"))
    assert found["rates"] == [row for row in tables["rates"] if row["stage"] in (None, 0)]
    assert found["budget"] == tables["budget"][:1]
    assert found["calibration"] == []


def test_the_fast_reader_reads_what_the_strict_one_reads(run: RunStore) -> None:
    path = run.stage(0).path / "validation.jsonl"
    assert read_completions(path) == [
        Completion(rollout.instance.id, rollout.instance.bucket, 2, rollout.instance.wait_required, rollout.verdict, rollout.tokens or 0)
        for rollout in read_rollouts(path)
    ]


def test_a_damaged_file_is_named_with_its_line(run: RunStore, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    path = tmp_path / "run/stages/00/validation.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    with pytest.raises(UserError, match=r"validation\.jsonl line 80: not a graded rollout"):
        run_tables(RunStore.open(tmp_path / "run"))
