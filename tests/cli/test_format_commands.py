"""`envwright import` and `envwright export`, as a person calls them."""

import json
from pathlib import Path

import pytest

from envwright.env.instance import read_instances
from tests.cli.commands import Command, contents

MAP = "type octile\nheight 3\nwidth 4\nmap\n....\n.@@.\n....\n"
SCEN = "version 1\n" + "".join(
    f"0\t{line}\n"
    for line in ("m.map\t4\t3\t0\t0\t3\t0\t3", "m.map\t4\t3\t3\t0\t0\t0\t3", "m.map\t4\t3\t0\t2\t3\t2\t3", "m.map\t4\t3\t3\t2\t0\t2\t3")
)


@pytest.fixture
def movingai(folder: Path) -> None:
    (folder / "m.map").write_text(MAP, encoding="utf-8")
    (folder / "m.scen").write_text(SCEN, encoding="utf-8")


@pytest.mark.usefixtures("movingai")
def test_a_scenario_is_imported_with_exact_labels(command: Command, folder: Path) -> None:
    done = command("import", "--map", "m.map", "--scen", "m.scen", "--agents", "2", "-n", "2", "-o", "made.jsonl")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == ["m.map: 4 wide and 3 high, made 4x4 with 4 holes", "2 instances of 2 agents in made.jsonl"]
    first, second = read_instances(folder / "made.jsonl")
    assert (first.starts, first.goals) == (((0, 0), (0, 3)), ((0, 3), (0, 0)))
    assert set(first.holes) == {(1, 1), (1, 2), (3, 0), (3, 1), (3, 2), (3, 3)}
    assert (first.optimal_cost, second.optimal_cost) == (3 + 7, 3 + 7)
    assert command("solve", "made.jsonl", "--check").out == "2 boards, 6 labels: all exact\n"


@pytest.mark.usefixtures("movingai")
def test_a_map_under_another_name_is_taken_and_said(command: Command, folder: Path) -> None:
    (folder / "m.map").rename(folder / "other.map")
    done = command("import", "--map", "other.map", "--scen", "m.scen", "--agents", "1", "-o", "made.jsonl")
    assert done.code == 0
    assert done.err.startswith("note: m.scen is about 'm.map'; taken with other.map")


def test_an_exported_folder_is_imported_as_the_same_instances(command: Command, folder: Path) -> None:
    command("generate", "--config", "config.json", "-n", "12", "-o", "made.jsonl")
    assert command("export", "made.jsonl", "--format", "movingai", "--out", "maps").err == "12 instances (train 12) in maps\n"
    read = []
    for path in sorted((folder / "maps").glob("*.map")):
        assert command("import", "--map", str(path), "--scen", str(path.with_suffix(".scen")), "-o", "one.jsonl").code == 0
        read += read_instances(folder / "one.jsonl")
    assert read == read_instances(folder / "made.jsonl")


def test_json_lines_are_exported_by_split_and_size(command: Command, folder: Path) -> None:
    command("generate", "--config", "config.json", "-n", "12", "--split", "validation", "-o", "made.jsonl")
    assert command("export", "made.jsonl", "--format", "jsonl", "--size", "4", "--out", "out").code == 0
    assert set(contents(folder / "out")) == {"validation.jsonl"}
    lines = (folder / "out" / "validation.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines == [line for line in (folder / "made.jsonl").read_text(encoding="utf-8").splitlines() if json.loads(line)["size"] == 4]


def test_boards_without_labels_are_labelled_on_the_way_out(command: Command, folder: Path) -> None:
    pytest.importorskip("datasets")
    assert command("export", "boards.jsonl", "--format", "hf", "--out", "out").code == 0
    assert "README.md" in contents(folder / "out")
    assert any(name.startswith("data/") for name in contents(folder / "out"))


@pytest.mark.usefixtures("movingai")
def test_a_board_that_cannot_be_labelled_is_named_and_nothing_is_written(command: Command, folder: Path) -> None:
    (folder / "m.map").write_text(MAP.replace(".@@.\n....", ".@@.\n@@@@"), encoding="utf-8")
    before = contents(folder)
    done = command("import", "--map", "m.map", "--scen", "m.scen", "--agents", "2", "-o", "made.jsonl")
    assert (done.code, done.err.splitlines()[-1]) == (
        2,
        "envwright import: m.scen line 2: board 1 of 1: the board is unsolvable; every instance must have a plan",
    )
    assert contents(folder) == before


@pytest.mark.usefixtures("movingai")
def test_a_board_beyond_the_time_limit_is_named_and_nothing_is_written(command: Command, folder: Path) -> None:
    before = contents(folder)
    done = command("import", "--map", "m.map", "--scen", "m.scen", "--agents", "2", "--time-limit", "1e-9", "-o", "made.jsonl")
    assert (done.code, done.err.splitlines()[-1]) == (
        2,
        "envwright import: m.scen line 2: board 1 of 1: the solver's budget ran out before the labels were exact; "
        "raise the time limit of 1e-09 s, or use fewer agents or a smaller board",
    )
    assert contents(folder) == before
