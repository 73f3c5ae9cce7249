"""The datasets folder: read back by the library it is made for, one split per board."""

import sys
from pathlib import Path
from typing import Any

import pytest

from envwright.env.cells import board_words
from envwright.env.chat import chat_prompt
from envwright.env.errors import UserError
from envwright.env.formats.huggingface import COLUMNS, dataset_row, export_dataset
from envwright.env.formats.selection import select_by_split
from envwright.env.instance import Instance, board_split, label_board
from tests.env.boards import board_of, instance_of

LARGE = label_board(board_of("a.......... " + "........... " * 9 + "b..........", "ab"), "large")


def some_instances() -> list[Instance]:
    """Boards of every split, one of them too large for the cell notation."""
    found = [LARGE]
    for col in range(4):
        for hole in range(12):
            rows = ["".join("a" if index == col else "c" if index == (col + 1) % 4 else "." for index in range(4)), "....", "....", ".bd."]
            rows[1 + hole % 2] = "".join("#" if index == hole // 3 else "." for index in range(4))
            found.append(instance_of(" ".join(rows), "ab", "cd"))
    return found


@pytest.fixture(scope="module")
def read_back(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[Instance]], Any]:
    datasets = pytest.importorskip("datasets")
    folder = tmp_path_factory.mktemp("hf")
    by_split = select_by_split(some_instances())
    export_dataset(by_split, folder / "out")
    datasets.disable_progress_bars()
    loaded = datasets.load_dataset(str(folder / "out"), cache_dir=str(folder / "cache"))
    return {str(split): list(members) for split, members in by_split.items()}, loaded


def test_load_dataset_gives_the_instances_back_in_their_splits(read_back: tuple[dict[str, list[Instance]], Any]) -> None:
    by_split, loaded = read_back
    assert set(loaded) == set(by_split) == {"train", "validation", "benchmark"}
    for split, members in by_split.items():
        keys = list(members[0].to_json())
        rows = [{key: row[key] for key in keys} for row in loaded[split]]
        assert [Instance.parse(row, split) for row in rows] == members
        assert {str(board_split(member)) for member in members} == {split}


def test_the_rows_hold_the_prompts_that_policies_are_given(read_back: tuple[dict[str, list[Instance]], Any]) -> None:
    by_split, loaded = read_back
    for split, members in by_split.items():
        assert loaded[split].column_names == list(COLUMNS)
        for row, member in zip(loaded[split], members, strict=True):
            assert row["prompt"] == chat_prompt(member)
            words = None if member.size > 10 else board_words(member.size, member.holes, member.starts, member.goals)
            assert row["cell_prompt"] == words


def test_a_board_beyond_the_cell_notation_has_no_cell_prompt() -> None:
    assert dataset_row(LARGE)["cell_prompt"] is None


def test_the_card_names_every_column_and_how_many_boards_a_split_has(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    by_split = select_by_split(some_instances())
    export_dataset(by_split, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` | " in card for name in COLUMNS)
    assert all(f"| {split} | {len(members)} |" in card for split, members in by_split.items())


def test_a_folder_that_exists_is_not_touched(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="exists already; choose another folder with --out"):
        export_dataset(select_by_split([LARGE]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_missing_library_is_told_with_the_extra_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"needs 'datasets', which is not installed: pip install 'envwright\[train\]'"):
        export_dataset(select_by_split([LARGE]), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
