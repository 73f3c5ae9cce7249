"""Folders of maps and of JSON Lines: what goes into them, and that they are whole or absent."""

from pathlib import Path

import pytest

from envwright.env.canonical import Split
from envwright.env.errors import UserError
from envwright.env.formats.exports import export_json_lines, export_movingai
from envwright.env.formats.folder import new_folder
from envwright.env.formats.selection import canonical_instance, select_by_split
from envwright.env.instance import board_split, read_instances
from tests.env.boards import instance_of

BOARDS = [instance_of("a.b #.# d.c", "ab", "cd"), instance_of("ab ..", "ab", "ba"), instance_of("a..# .... ...b ....", "ab")]


def test_an_export_is_split_by_the_boards_content_and_keeps_file_order() -> None:
    by_split = select_by_split(BOARDS)
    assert [instance for split in Split for instance in BOARDS if board_split(instance) is split] == [
        instance for members in by_split.values() for instance in members
    ]
    assert all(board_split(instance) is split for split, members in by_split.items() for instance in members)


def test_an_export_can_take_one_split_or_some_sizes() -> None:
    own = board_split(BOARDS[1])
    assert BOARDS[1] in select_by_split(BOARDS, own)[own]
    assert set(select_by_split(BOARDS, own)) == {own}
    assert sorted(instance.size for members in select_by_split(BOARDS, sizes=[2, 4]).values() for instance in members) == [2, 4]


def test_an_export_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="no instance has size 5, 6; choose another --split or --size"):
        select_by_split(BOARDS, sizes=[5, 6])


def test_equal_boards_give_equal_lines_whatever_the_order_of_their_holes() -> None:
    board = BOARDS[0]
    shuffled = board.model_copy(update={"holes": board.holes[::-1]})
    assert shuffled.to_json() != board.to_json()
    assert canonical_instance(shuffled).to_json() == canonical_instance(board).to_json()


def test_json_lines_are_read_back_as_they_were(tmp_path: Path) -> None:
    by_split = select_by_split(BOARDS)
    export_json_lines(by_split, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{split}.jsonl" for split in by_split}
    for split, members in by_split.items():
        assert read_instances(tmp_path / "out" / f"{split}.jsonl") == members


def test_file_names_are_unique_and_safe_whatever_the_ids(tmp_path: Path) -> None:
    odd = [board.model_copy(update={"id": "../up: same"}) for board in BOARDS]
    names = export_movingai(select_by_split(odd), tmp_path / "out")
    assert names == ["1-.._up__same", "2-.._up__same", "3-.._up__same"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{name}.{end}" for name in names for end in ("map", "scen")}


def test_a_folder_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with new_folder(tmp_path / "out") as folder:
            (folder / "half.txt").write_text("half", encoding="utf-8")
            raise UserError("stop")

    with pytest.raises(UserError, match="stop"):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled_and_a_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    export_json_lines(select_by_split(BOARDS), tmp_path / "empty")
    assert any((tmp_path / "empty").iterdir())
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError):
            export_json_lines(select_by_split(BOARDS), out)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
