"""The page of a comparison: paired differences, every arm named, and the way to each run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from envwright.env.jsonio import write_json
from envwright.training.report.comparison_data import ComparisonData, seed_mean
from envwright.training.report.page import write_report
from tests.training.report.reading import Reading, read_page


@pytest.fixture
def document(comparison_folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((comparison_folder / "comparison.json").read_text(encoding="utf-8"))
    return value


def _rows(rows: list[dict[str, Any]], **where: Any) -> list[dict[str, Any]]:
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def test_the_headline_table_says_what_comparison_json_says(document: dict[str, Any], comparison_page: Reading) -> None:
    table = comparison_page.table("Plans on held-out boards")
    kinds = [("valid", "sampled"), ("valid", "greedy"), ("optimal", "sampled"), ("optimal", "greedy")]
    for name, arm in (("rule", "rule"), ("fixed baseline", "fixed")):
        found = [cell.value for cell in table[name]]
        rows = [_rows(document["headline"], arm=arm, metric=metric, decoding=decoding)[0] for metric, decoding in kinds]
        assert found == [2, *(row["rate"] for row in rows)]
    base = [_rows(document["base"], metric=metric, decoding=decoding)[0]["rate"] for metric, decoding in kinds]
    assert [cell.value for cell in table["before training"]][1:] == base


def test_a_rate_is_the_mean_over_the_runs_held_out_completions(comparison_folder: Path, comparison_page: Reading) -> None:
    valid = []
    for seed in (0, 1):
        lines = (comparison_folder / f"runs/rule/seed{seed}/heldout/final_sampled.jsonl").read_text(encoding="utf-8").splitlines()
        valid += [json.loads(line)["outcome"] in ("optimal", "suboptimal") for line in lines]
    assert comparison_page.table("Plans on held-out boards")["rule"][1].value == pytest.approx(sum(valid) / len(valid), abs=1e-6)


def test_the_lead_gives_the_paired_difference_with_its_interval(document: dict[str, Any], comparison_page: Reading) -> None:
    (row,) = _rows(document["differences"], arm="rule", against="fixed", decoding="sampled", metric="valid", subset="all")
    text = comparison_page.text.replace("\u00a0", " ").replace("−", "-")
    assert f"{100 * row['difference']:+.1f} points [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}] over 2 seeds" in text.replace(
        "[0.0", "[+0.0"
    ).replace(" 0.0]", " +0.0]")


def test_an_arm_that_is_not_finished_is_named(comparison_page: Reading) -> None:
    assert "random-2 seed 0: not begun; random-2 seed 1: not begun" in comparison_page.text
    assert comparison_page.table("Plans on held-out boards")["random-2"][1].text == "– no run is finished"


def test_every_run_leads_to_its_own_page_or_else_to_its_folder(comparison_folder: Path, comparison_page: Reading) -> None:
    links = {element.attributes["href"] for element in comparison_page.tagged("a") if element.attributes["href"].startswith("runs/")}
    assert {"runs/rule/seed0/report.html", "runs/rule/seed1", "runs/fixed/seed0", "runs/fixed/seed1"} <= links
    assert all((comparison_folder / unquote(link)).exists() for link in links)


def test_links_follow_a_page_that_is_written_elsewhere(comparison_folder: Path, tmp_path: Path) -> None:
    shutil.copy(comparison_folder / "compare.json", tmp_path / "compare.json")  # no run is finished: a page without plots
    (tmp_path / "runs" / "rule" / "seed0").mkdir(parents=True)
    page = write_report(tmp_path, tmp_path / "deep" / "er" / "page.html").page
    links = [e.attributes["href"] for e in read_page(page).tagged("a") if "seed0" in e.attributes["href"]]
    assert links == ["../../runs/rule/seed0"]


def test_the_same_comparison_gives_the_same_bytes(comparison_folder: Path) -> None:
    again = write_report(comparison_folder, comparison_folder / "again.html")
    assert again.page.read_bytes() == (comparison_folder / "report.html").read_bytes()
    for path in again.pictures:
        assert path.read_bytes() == (comparison_folder / "report" / path.name).read_bytes()


def test_every_plot_of_a_comparison_has_words_and_numbers(comparison_page: Reading) -> None:
    plots = [element for element in comparison_page.tagged("svg") if element.attributes.get("class") == "plot"]
    names = {figure.attributes["id"] for figure in comparison_page.tagged("figure")}
    assert {"plot-differences", "plot-rates", "plot-curves", "plot-signal", "plot-knob-wait-ratio", "plot-failures"} <= names
    assert all(re.search(r"\d", plot.attributes["aria-label"]) for plot in plots)


def test_reasons_in_a_comparison_stay_text(comparison_folder: Path, document: dict[str, Any], tmp_path: Path) -> None:
    shutil.copytree(comparison_folder / "tables", tmp_path / "c" / "tables")
    for name in ("rates", "failures", "signal", "knobs", "calibration"):  # without plots: they are tested elsewhere
        table = pq.read_table(tmp_path / "c" / "tables" / f"{name}.parquet")
        pq.write_table(table.slice(0, 0), tmp_path / "c" / "tables" / f"{name}.parquet")
    shutil.copy(comparison_folder / "compare.json", tmp_path / "c" / "compare.json")
    hostile = "<script>alert(1)</script>"
    arms = [{**arm, "overrides": {"policy": hostile}} for arm in document["arms"]]
    write_json(tmp_path / "c" / "comparison.json", {**document, "arms": arms, "unfinished": [hostile], "command": [hostile]})
    page = read_page(write_report(tmp_path / "c").page)
    assert not page.tagged("script")
    assert page.text.count(hostile) >= 4


def test_a_comparison_without_a_finished_run_says_so(comparison_folder: Path, tmp_path: Path) -> None:
    shutil.copy(comparison_folder / "compare.json", tmp_path / "compare.json")
    report = write_report(tmp_path)
    assert report.headline == "No run of this comparison is finished yet: 6 runs of 3 arms are planned."


def test_a_difference_asked_the_other_way_round_changes_its_sign(comparison_folder: Path) -> None:
    data = ComparisonData(comparison_folder)
    one, two = data.difference("rule", "fixed"), data.difference("fixed", "rule")
    assert one is not None
    assert two is not None
    assert (two["difference"], two["low"], two["high"]) == (-one["difference"], -one["high"], -one["low"])
    assert two["probability_better"] == pytest.approx(1 - one["probability_better"])


def test_a_mean_over_seeds_has_student_s_interval() -> None:
    found = seed_mean([0.50, 0.54, 0.58])  # s = 0.04, t(2) = 4.303
    assert found.low is not None
    assert found.high is not None
    assert found.mean == pytest.approx(0.54)
    assert found.seeds == 3
    assert found.high - found.mean == pytest.approx(4.303 * 0.04 / 3**0.5, abs=1e-6)
    alone = seed_mean([0.5], (0.4, 0.6))
    assert (alone.mean, alone.low, alone.high) == (0.5, 0.4, 0.6)
