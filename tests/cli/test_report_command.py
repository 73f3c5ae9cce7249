"""`envwright report`: what it refuses, and what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from envwright.env.jsonio import write_json
from envwright.training.settings import load_settings
from tests.cli.commands import Command


@pytest.fixture
def begun(folder: Path) -> Path:
    """A run that has only begun."""
    write_json(folder / "run" / "run.json", {"settings": load_settings("demo", []).to_json(), "versions": {"envwright": "0"}})
    return folder / "run"


def test_a_folder_that_is_neither_run_nor_comparison_is_refused(command: Command, folder: Path) -> None:
    (folder / "empty").mkdir()
    for name in ("empty", "missing"):
        done = command("report", name)
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            f"envwright report: {name}: neither a run (run.json) nor a comparison (compare.json); give the folder that `envwright run` or "
            "`compare` wrote\n"
        )


def test_a_page_that_is_no_html_is_refused(command: Command, begun: Path) -> None:
    done = command("report", str(begun), "--out", "page.pdf")
    assert done.code == 2
    assert done.err == "envwright report: page.pdf: a report is an HTML page; give --out a name that ends in .html\n"


def test_a_run_that_has_only_begun_has_a_page(command: Command, begun: Path) -> None:
    done = command("report", str(begun))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "This run is not finished: 0 of 3 stages are there, so there is no result yet."
    assert "envwright run ... --resume goes on" in done.out
    assert f"the page is {begun / 'report.html'}" in done.out
    assert (begun / "report.html").is_file()


def test_json_names_the_page_and_its_plots(command: Command, begun: Path) -> None:
    done = command("report", str(begun), "--out", "elsewhere/page.html", "--json")
    assert done.json["kind"] == "run"
    assert Path(done.json["report"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert done.json["bytes"] == Path(done.json["report"]).stat().st_size
    assert done.json["pictures"] == []
    assert not (begun / "report.html").exists()


def test_a_report_needs_no_torch(begun: Path) -> None:
    code = "import sys; from envwright.training.cli import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "report", str(begun), "--json"], capture_output=True, text=True, check=True)
    document, torch = done.stdout.splitlines()
    assert json.loads(document)["kind"] == "run"
    assert torch == "False"
