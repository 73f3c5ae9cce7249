"""Many engineers on the same recorded evidence: patches side by side, what they are predicted to do, and what they cost."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envwright.env.errors import UserError
from envwright.training.from_evidence import compare_from_evidence, run
from envwright.training.from_evidence_text import evidence_lines
from envwright.training.runstore import RunStore
from envwright.training.settings import RunSettings
from envwright.training.stages import run_stages
from envwright.training.view.progress import Progress

ENGINEERS = ["rule", "fixed", "random", "learnability", "uniform"]


@pytest.fixture(scope="module")
def recorded(tiny_settings: RunSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    settings = tiny_settings.model_copy(update={"num_stages": 1})
    run_stages(RunStore.create(folder, settings), settings, Progress(lambda _: None))
    return folder


@pytest.fixture(scope="module")
def compared(recorded: Path) -> dict[str, Any]:
    return compare_from_evidence(recorded, ENGINEERS, boards=6)


def without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_seconds(item) for key, item in value.items() if key != "seconds"}
    return [without_seconds(item) for item in value] if isinstance(value, list) else value


def by_name(compared: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["engineer"]: row for row in compared["runs"][0]["engineers"]}


def test_every_engineer_decides_on_the_same_evidence_and_is_held_against_the_kept_config(compared: dict[str, Any]) -> None:
    (entry,), rows = compared["runs"], by_name(compared)
    assert list(rows) == ENGINEERS
    assert rows["fixed"]["forecast"] == entry["kept"]
    assert rows["fixed"]["gain"] == {"valid": 0.0, "mixed": 0.0}
    assert {change["before"] for row in rows.values() for change in row["diff"]} <= {0.25, 0.2, 0.1}
    for row in rows.values():
        assert set(row["forecast"]["by_size"]) == {"3", "4", "5", "6"}
        assert 0 <= row["forecast"]["valid"] <= 1
        assert row["gain"]["mixed"] == pytest.approx(row["forecast"]["mixed"] - entry["kept"]["mixed"], abs=1e-4)
    assert rows["rule"]["cost"]["requests"] >= 2
    assert rows["random"]["cost"]["policy_completions"] == 0


def test_sizes_with_the_same_knobs_get_the_same_boards_and_the_same_noise(compared: dict[str, Any]) -> None:
    kept, seen = compared["runs"][0], 0
    for row in by_name(compared).values():
        for bucket, knobs in row["config"]["sizes"].items():
            before = kept["config"]["sizes"][bucket]
            if (knobs["hole_ratio"], knobs["wait_ratio"]) == (before["hole_ratio"], before["wait_ratio"]):
                seen += 1
                assert {**row["forecast"]["by_size"][bucket], "share": 0} == {**kept["kept"]["by_size"][bucket], "share": 0}
    assert seen > 4


def test_the_comparison_is_the_same_again_but_for_its_seconds(recorded: Path, compared: dict[str, Any]) -> None:
    again = compare_from_evidence(recorded, ENGINEERS, boards=6)
    assert without_seconds(again) == without_seconds(compared)


def test_a_folder_of_runs_is_compared_run_by_run_and_unfinished_ones_are_named(recorded: Path, tmp_path: Path) -> None:
    for name in ("runs/a/seed0", "runs/b/seed0", "shared/first"):
        shutil.copytree(recorded, tmp_path / name)
    (tmp_path / "shared" / "first" / "stages" / "00" / "DONE").unlink()
    compared = compare_from_evidence(tmp_path, ["fixed", "random"], seeds=[0, 1], boards=1)
    assert [(Path(entry["run"]).parent.name, entry["seed"]) for entry in compared["runs"]] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert compared["skipped"] == [str(tmp_path / "shared" / "first")]
    patches = [entry["engineers"][1]["patch"] for entry in compared["runs"]]
    assert patches[0] == patches[2] != patches[1]
    assert [(row["decisions"], row["patches"]) for row in compared["overall"]] == [(4, 0), (4, 4)]
    text = "\n".join(evidence_lines(compared))
    assert "all 4 decisions of each engineer" in text
    assert "skipped, no stage is finished" in text


def test_the_text_has_knobs_as_rows_and_engineers_as_columns(compared: dict[str, Any]) -> None:
    lines = list(evidence_lines(compared))
    assert max(map(len, lines)) <= 200
    head = next(line for line in lines if line.split()[:1] == ["knob"])
    assert head.split() == ["knob", "kept", *ENGINEERS]
    cells = next(line for line in lines if "/sizes/4/hole_ratio" in line).split()
    drawn = by_name(compared)["random"]["config"]["sizes"]["4"]["hole_ratio"]
    assert cells == ["/sizes/4/hole_ratio", "0.200", ".", ".", f"{drawn:.3f}", ".", "0.175"]


def test_the_command_prints_one_json_document_or_a_table(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def called(**options: Any) -> str:
        given = {"from_evidence": str(recorded), "engineers": "fixed", "json": False, "seeds": None, "boards": 1, **options}
        assert run(argparse.Namespace(**given)) == 0
        return capsys.readouterr().out

    assert json.loads(called(json=True))["overall"][0]["engineer"] == "fixed"
    assert "nobody changes a knob" in called(seeds="3")


def refusals(recorded: Path, empty: Path) -> Iterator[tuple[dict[str, Any], str]]:
    yield {"engineers": "rule,ruel"}, "did you mean 'rule'"
    yield {"engineers": "rule,fixed,rule"}, "'rule' is named twice"
    yield {"engineers": None}, "name the engineers"
    yield {"engineers": "policy"}, "the pocket policy"
    yield {"seeds": "0,x"}, "whole numbers with commas"
    yield {"seeds": "1,1"}, "named twice"
    yield {"from_evidence": str(empty)}, "holds no run"
    yield {"from_evidence": str(empty / "none")}, "no such folder"


def test_bad_input_is_one_line(recorded: Path, tmp_path: Path) -> None:
    for options, words in refusals(recorded, tmp_path):
        given = {"from_evidence": str(recorded), "engineers": "fixed", "json": False, "seeds": None, **options}
        with pytest.raises(UserError, match=words) as caught:
            run(argparse.Namespace(**given))
        assert "\n" not in str(caught.value)
