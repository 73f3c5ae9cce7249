"""The page of a run: its numbers are the files', it is whole in itself, and what others wrote stays text."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from envwright.env.errors import UserError
from envwright.env.jsonio import write_json, write_json_lines
from envwright.training.report.data import run_command
from envwright.training.report.page import write_report
from envwright.training.settings import RunSettings, load_settings
from tests.training.report.reading import Reading, read_page

HOSTILE = '</svg><script>alert("x")</script><img src=x onerror=alert(1)>'


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _share(lines: list[dict[str, Any]], *outcomes: str) -> float:
    return sum(line["outcome"] in outcomes for line in lines) / len(lines)


def test_the_headline_table_says_what_the_held_out_completions_say(run_folder: Path, run_page: Reading) -> None:
    table = run_page.table("Plans on held-out boards")
    for decoding in ("greedy", "sampled"):
        base, final = (_lines(run_folder / "heldout" / f"{part}_{decoding}.jsonl") for part in ("base", "final"))
        for metric, outcomes in (("valid", ("optimal", "suboptimal")), ("optimal", ("optimal",))):
            boards, before, after, change = table[f"{metric}: all boards, {decoding}"]
            assert boards.value == len({line["instance"]["id"] for line in final})
            assert before.value == pytest.approx(_share(base, *outcomes), abs=1e-9)
            assert after.value == pytest.approx(_share(final, *outcomes), abs=1e-9)
            assert change.value == pytest.approx(_share(final, *outcomes) - _share(base, *outcomes), abs=1e-6)
    for size in (3, 4, 5, 6):
        final = [line for line in _lines(run_folder / "heldout" / "final_sampled.jsonl") if line["instance"]["size"] == size]
        assert table[f"valid: {size}x{size}, sampled"][2].value == pytest.approx(_share(final, "optimal", "suboptimal"))


def test_a_cell_shows_the_number_behind_it(run_page: Reading) -> None:
    for cells in run_page.table("Plans on held-out boards").values():
        for cell in cells[1:3]:
            assert cell.value is not None
            assert cell.text.startswith(f"{100 * cell.value:.1f}\u00a0% [")


def test_the_weight_of_efficiency_and_the_mean_reward_are_told_stage_by_stage(run_folder: Path, run_page: Reading) -> None:
    table = run_page.table("Reward of a valid plan")
    for stage in (0, 1):
        outcome = json.loads((run_folder / "stages" / f"{stage:02d}" / "engineer" / "outcome.json").read_text(encoding="utf-8"))
        weight, reward = table[f"stage {stage}"]
        assert weight.value == outcome["efficiency_weight"]
        assert reward.value == pytest.approx(outcome["train_reward"])


def test_the_validation_table_says_what_the_validation_completions_say(run_folder: Path, run_page: Reading) -> None:
    table = run_page.table("Valid sampled plans on validation boards")
    for stage in (0, 1):
        lines = _lines(run_folder / "stages" / f"{stage:02d}" / "validation.jsonl")
        assert table["all boards"][stage].value == pytest.approx(_share(lines, "optimal", "suboptimal"))
        waiting = [line for line in lines if line["instance"]["wait_required"]]
        assert table["must wait"][stage].value == pytest.approx(_share(waiting, "optimal", "suboptimal"))


def test_the_budget_counts_the_files(run_folder: Path, run_page: Reading) -> None:
    table = run_page.table("What every stage spent")
    for stage in (0, 1):
        completions = _lines(run_folder / "stages" / f"{stage:02d}" / "train_rollouts.jsonl")
        boards = _lines(run_folder / "stages" / f"{stage:02d}" / "instances.jsonl")
        found = [cell.value for cell in table[f"stage {stage}"][:3]]
        assert found == [len(boards), len(completions), sum(line["tokens"] for line in completions)]


def test_the_patch_is_shown_with_its_reason_and_what_it_cites(run_folder: Path, run_page: Reading) -> None:
    patch = json.loads((run_folder / "stages" / "00" / "engineer" / "patch.json").read_text(encoding="utf-8"))
    for edit in patch["edits"]:
        assert edit["path"] in run_page.text
        assert edit["reason"] in run_page.text
        assert f"Evidence {edit['evidence'][0]}" in run_page.text
    assert "What happened next" in run_page.text


def test_the_same_folder_gives_the_same_bytes(run_folder: Path, tmp_path: Path) -> None:
    again = write_report(run_folder, tmp_path / "page.html")
    assert again.page.read_bytes() == (run_folder / "report.html").read_bytes()
    for path in again.pictures:
        assert path.read_bytes() == (run_folder / "report" / path.name).read_bytes()


def test_the_page_needs_nothing_from_elsewhere(run_folder: Path, run_page: Reading) -> None:
    text = (run_folder / "report.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 3_000_000
    assert not run_page.tagged("script")
    assert not run_page.tagged("img")
    assert "default-src 'none'" in next(e.attributes["content"] for e in run_page.tagged("meta") if "http-equiv" in e.attributes)
    assert not re.search(r"@import|url\((?!#)", text)
    addresses = {e.attributes[name] for e in run_page.elements for name in ("href", "src") if name in e.attributes}
    assert not [address for address in addresses if re.match(r"(?!data:)[a-z]+:|//", address)]


def test_every_link_leads_somewhere_and_every_id_is_there_once(run_folder: Path, run_page: Reading) -> None:
    ids = [element.attributes["id"] for element in run_page.elements if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for element in run_page.elements:
        target = element.attributes.get("href", "data:")
        if target.startswith("#"):
            assert target[1:] in ids
        elif not target.startswith("data:"):
            assert (run_folder / unquote(target)).exists()


def test_every_plot_has_a_text_alternative_a_table_and_a_png(run_folder: Path, run_page: Reading) -> None:
    plots = [element for element in run_page.tagged("svg") if element.attributes.get("class") == "plot"]
    figures = run_page.tagged("figure")
    assert len(plots) == len(figures) >= 9
    for plot in plots:
        assert plot.attributes["role"] == "img"
        assert re.search(r"\d", plot.attributes["aria-label"])
    tables = [name for name in run_page.tables if name.startswith("The numbers of this plot")]
    assert len(tables) == len(figures)
    assert all(run_page.tables[name] for name in tables)
    names = {figure.attributes["id"].removeprefix("plot-") for figure in figures}
    assert {path.stem for path in (run_folder / "report").glob("*.png")} == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in (run_folder / "report").iterdir())


def test_headings_descend_one_level_at_a_time(run_page: Reading) -> None:
    levels = [int(element.tag[1]) for element in run_page.elements if re.fullmatch("h[1-6]", element.tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@pytest.fixture(scope="module")
def changed_run(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose completions, reasons, notes and versions are hostile, and which kept no held-out completions; its page is made."""
    folder = tmp_path_factory.mktemp("changed") / "run"
    shutil.copytree(run_folder, folder, ignore=shutil.ignore_patterns("report*", "checkpoint", "heldout"))
    stage, engineer = folder / "stages" / "01", folder / "stages" / "00" / "engineer"
    lines = _lines(stage / "validation.jsonl")
    write_json_lines(stage / "validation.jsonl", ({**line, "completion": HOSTILE, "outcome": "parse_error"} for line in lines))
    patch = json.loads((engineer / "patch.json").read_text(encoding="utf-8"))
    hostile = {**patch, "edits": [{**edit, "reason": HOSTILE, "evidence": [HOSTILE]} for edit in patch["edits"]]}
    write_json(engineer / "patch.json", hostile)
    for path, change in ((engineer / "outcome.json", {"note": HOSTILE}), (folder / "run.json", {"versions": {HOSTILE: HOSTILE}})):
        write_json(path, {**json.loads(path.read_text(encoding="utf-8")), **change})
    write_report(folder)
    return folder


def test_what_a_policy_or_an_engineer_wrote_stays_text(changed_run: Path) -> None:
    page = read_page(changed_run / "report.html")
    assert not page.tagged("script")
    assert not page.tagged("img")
    assert page.text.count(HOSTILE) >= 5


def test_a_run_that_kept_no_held_out_completions_shows_its_summary(changed_run: Path) -> None:
    page, summary = read_page(changed_run / "report.html"), json.loads((changed_run / "summary.json").read_text(encoding="utf-8"))
    before, after, _ = page.table("Plans on held-out boards")["valid: all boards, sampled"][1:]
    assert (before.value, after.value) == (summary["base"]["sampled"]["valid"], summary["final"]["sampled"]["valid"])
    assert "its rates before and after have no intervals" in page.text


def test_an_unfinished_run_says_which_stages_are_there(run_copy: Path) -> None:
    (run_copy / "stages" / "01" / "DONE").unlink()
    (run_copy / "summary.json").unlink()
    for path in (run_copy / "heldout").glob("final*"):
        path.unlink()
    report = write_report(run_copy)
    page = read_page(report.page)
    assert report.headline == "This run is not finished: 1 of 2 stages are there, so there is no result yet."
    assert report.warnings[0].startswith("Unfinished: stage 0 of stages 0 to 1 is whole")
    assert [cell.text for cell in page.table("Plans on held-out boards")["valid: all boards, sampled"][2:]] == ["– not finished", "–"]


def test_a_run_without_any_finished_stage_still_has_a_page(run_copy: Path) -> None:
    for path in (run_copy / "stages").glob("*/DONE"):
        path.unlink()
    (run_copy / "summary.json").unlink()
    assert write_report(run_copy).warnings[0].startswith("Unfinished: none of stages 0 to 1 are whole")


def test_a_damaged_rollout_file_is_named(run_copy: Path) -> None:
    path = run_copy / "heldout" / "final_sampled.jsonl"
    path.write_text(path.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    with pytest.raises(UserError, match=r"final_sampled\.jsonl line 64"):
        write_report(run_copy)


def test_the_command_of_a_page_gives_the_run_s_settings(run_settings: RunSettings) -> None:
    words = run_command(run_settings).replace("\\\n", " ").split()
    assert words[:3] == ["envwright", "run", "demo"]
    overrides = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    assert load_settings(words[2], overrides) == run_settings
