"""Strict JSON in, and files that are whole or absent."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.errors import UserError
from envwright.env.jsonio import (
    dump_json,
    first_json_value,
    json_values,
    parse_json,
    read_json,
    read_json_lines,
    read_text,
    write_atomic,
    write_json,
    write_json_lines,
)
from tests.env.boards import FEW

REFUSED = {
    "NaN": ('{"a": NaN}', "NaN is not a JSON number"),
    "Infinity": ("[Infinity]", "Infinity is not a JSON number"),
    "minus Infinity": ("-Infinity", "-Infinity is not a JSON number"),
    "beyond a double": ('{"a": 1e999}', "the number 1e999 is too large"),
    "very many digits": ("9" * 5000, "an integer of 5000 digits is too large"),
    "repeated key": ('{"a": {"b": 1, "b": 1}}', "the key 'b' is repeated"),
    "deep nesting": ("[" * 100_000, "nested too deeply"),
    "deep nesting that closes": ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
    "two documents": ("{} {}", "not valid JSON: Extra data at line 1 column 4"),
    "trailing comma": ("[1,]", "not valid JSON"),
    "nothing": ("", "not valid JSON: Expecting value at line 1 column 1"),
    "comment": ("{} // none", "not valid JSON: Extra data"),
    "Python": ("{'a': True}", "not valid JSON"),
    "half a surrogate pair": ('{"a": "\\uD83D"}', "half a surrogate pair is no text"),
    "half a surrogate pair in a key": ('{"\\ude00": 1}', "half a surrogate pair is no text"),
    "a byte that is no text": ('"\udcff"', "half a surrogate pair is no text"),
    "line break in a string": ('"a\nb"', "not valid JSON: Invalid control character"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_loose_json_is_refused_in_one_line_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_json(text, "patch.json")
    assert str(caught.value).startswith("patch.json: ")
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_whole_surrogate_pair_is_read() -> None:
    assert parse_json('"\\ud83d\\ude00"') == "😀"


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@FEW
@given(DATA)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert parse_json(dump_json(value)) == value
    assert parse_json(dump_json(value, indent=2)) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_numbers_that_are_not_finite_cannot_be_written(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_json(value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"a":1}. Note [1].', [{"a": 1}, [1]]),
        ('say {x} then {"a": "}"} end', [{"a": "}"}]),
        ('{"a": [1]', [[1]]),
        ("no value", []),
        ("", []),
    ],
)
def test_whole_values_are_found_in_prose_in_order(text: str, values: list[Any]) -> None:
    assert list(json_values(text)) == values
    assert first_json_value(text) == (values[0] if values else None)


@pytest.mark.parametrize("text", ['x {"a": NaN}', 'x {"a": 1, "a": 2}', "x " + "[" * 100_000])
def test_a_value_in_prose_is_read_as_strictly_as_a_file(text: str) -> None:
    with pytest.raises(UserError):
        first_json_value(text)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes('\ufeff{"a": "é"}\r\n\r\n[2]\r\n'.encode())
    assert list(read_json_lines(path)) == [(f"{path} line 1", {"a": "é"}), (f"{path} line 3", [2])]


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{}\n{"a": \n', encoding="utf-8")
    with pytest.raises(UserError, match=r"lines\.jsonl line 2: not valid JSON: Expecting value"):
        list(read_json_lines(path))


def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    latin = tmp_path / "latin.json"
    latin.write_bytes(b'{"a": "\xe9"}')
    for path, message in (
        (tmp_path / "none.json", "no such file"),
        (tmp_path, "is a folder, expected a file"),
        (latin, "not UTF-8 text (byte 7): save it as UTF-8"),
        (latin / "inside.json", "cannot be read"),
    ):
        with pytest.raises(UserError) as caught:
            read_json(path)
        assert str(caught.value).startswith(f"{path}: {message}")


def test_documents_and_lines_are_written_with_a_fixed_layout(tmp_path: Path) -> None:
    write_json(tmp_path / "deep" / "a.json", {"b": [1.0, None], "a": "é"})
    write_json_lines(tmp_path / "a.jsonl", [{"b": 1}, [2]])
    assert (tmp_path / "deep" / "a.json").read_bytes() == '{\n  "b": [\n    1.0,\n    null\n  ],\n  "a": "é"\n}\n'.encode()
    assert (tmp_path / "a.jsonl").read_bytes() == b'{"b":1}\n[2]\n'


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_json(path, "old")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, float("nan"))
    with pytest.raises(TypeError):
        write_json_lines(path, [1, object()])
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "half a pair \ud800")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"a\.json: cannot be written: No space left on device"):
        write_json(path, "new")
    assert [(entry.name, entry.read_text(encoding="utf-8")) for entry in tmp_path.iterdir()] == [("a.json", '"old"\n')]


def test_a_folder_that_is_a_file_cannot_be_written_into(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(UserError, match=r"cannot be written"):
        write_json(tmp_path / "a.json" / "b.json", 2)
    with pytest.raises(UserError, match=r"cannot be written"):
        write_json(tmp_path, 2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(read_text(pipe)), daemon=True)
    reader.start()
    write_atomic(pipe, "text\n")
    reader.join(timeout=10)
    assert (got, pipe.is_fifo()) == (["text\n"], True)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"id": "a", "size": NaN}', "line 1: id 'a': NaN is not a JSON number"),
        ('{"id": "a", "size": 1, "size": 2}', "line 1: id 'a': the key 'size' is repeated"),
        ('{"size": 1e999, "instance": {"id": "b"}}', "line 1: id 'b': the number 1e999 is too large"),
        ('{"id": 7, "size": NaN}', "line 1: NaN is not a JSON number"),
        ("[NaN]", "line 1: NaN is not a JSON number"),
        ('{"id": "a"', "line 1: not valid JSON: Expecting"),
    ],
)
def test_a_refused_line_is_named_by_its_id_where_that_can_be_told(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        list(read_json_lines(path))
    assert str(caught.value).startswith(f"{path} {told}")
