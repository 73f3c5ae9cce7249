"""Strict JSON in, deterministic JSON out, and files that are whole or absent.

Every JSON text that enters envwright, from a file, a person or a model, passes through here: repeated keys, NaN and
Infinity (also as `1e999`) are refused, and a text may be asked for its first whole value.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from envwright.env.errors import UserError

__all__ = [
    "dump_json",
    "first_json_value",
    "json_values",
    "parse_json",
    "read_json",
    "read_json_lines",
    "read_text",
    "write_atomic",
    "write_json",
    "write_json_lines",
]


class _RefusedJsonError(ValueError):
    """JSON that the standard parser would take and envwright does not."""


def _refuse_constant(name: str) -> NoReturn:
    raise _RefusedJsonError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedJsonError(f"the number {text[:20]} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > 400:
        raise _RefusedJsonError(f"an integer of {len(text)} digits is too large")
    return int(text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _RefusedJsonError(f"the key {key!r} is repeated")
        result[key] = value
    return result


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)


def parse_json(text: str, where: str = "JSON") -> Any:
    """Parse one JSON document.

    Raises:
        UserError: not JSON, a repeated key, NaN or Infinity, a number beyond a double's range, half a surrogate pair, nested
            too deeply.
    """
    try:
        value = _DECODER.decode(text)
        if _SURROGATE.search(text):
            dump_json(value).encode("utf-8")
        return value
    except UnicodeEncodeError:
        raise UserError(f"{where}: half a surrogate pair is no text") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not valid JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except _RefusedJsonError as error:
        raise UserError(f"{where}: {error}") from None
    except RecursionError:
        raise UserError(f"{where}: nested too deeply") from None


def json_values(text: str, openers: str = "{[") -> Iterator[Any]:
    """Yield the whole JSON objects and arrays in a text with prose around them, in order.

    A value that starts but never closes, or breaks JSON's grammar, counts as prose.

    Raises:
        UserError: a value that parses has a repeated key, NaN or Infinity.
    """
    end = 0
    for start, char in enumerate(text):
        if start < end or char not in openers:
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError:
            continue
        except _RefusedJsonError as error:
            raise UserError(str(error)) from None
        except RecursionError:
            raise UserError("nested too deeply") from None
        yield value


def first_json_value(text: str) -> Any | None:
    """Return the first of `json_values`, or None when there is none."""
    return next(json_values(text), None)


def dump_json(value: Any, indent: int | None = None) -> str:
    """Serialise with a fixed layout; NaN and Infinity raise ValueError, so they can never be written."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)


def read_text(path: Path) -> str:
    """Read a UTF-8 file.

    Raises:
        UserError: the file is missing, a folder, not readable, or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, expected a file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def read_json(path: Path) -> Any:
    """Read one JSON document from a file; raises `UserError` as `parse_json` and `read_text` do."""
    return parse_json(read_text(path), str(path))


def read_json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield `(place, value)` for every non-empty line, where `place` is "FILE line N" for error messages.

    Raises:
        UserError: a line is refused as `parse_json` says; the message names the line's id where it can be told.
    """
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            place = f"{path} line {number}"
            try:
                value = parse_json(line, place)
            except UserError:
                name = _id_in(line)
                if name is None:
                    raise
                value = parse_json(line, f"{place}: id {name!r}")
            yield place, value


def _id_in(line: str) -> str | None:
    """Return the id of a line that strict reading refuses (its own, or its instance's), to tell a person which record it is."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    for record in (value, value.get("instance")) if isinstance(value, dict) else ():
        if isinstance(record, dict) and isinstance(record.get("id"), str):
            return str(record["id"])
    return None


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name, sync it and rename it: readers see the old file or the new one. Text is UTF-8.

    A device or a pipe (`/dev/stdout`) is written to, never replaced.

    Raises:
        UserError: the folder cannot be written to (missing, read-only, disk full).
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8")
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def remove_temporary_files(folder: Path) -> None:
    """Remove what `write_atomic` left in a folder (not in those below it) when its process was killed."""
    for path in folder.glob(".*"):
        if path.is_file():
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable (a no-op where folders cannot be opened)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write one indented JSON document atomically."""
    write_atomic(path, dump_json(value, indent=2) + "\n")


def write_json_lines(path: Path, values: Iterable[Any]) -> None:
    """Write JSON Lines atomically."""
    write_atomic(path, "".join(dump_json(value) + "\n" for value in values))
