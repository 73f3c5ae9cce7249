"""Tables as files: CSV for people and spreadsheets, Parquet with types for data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envwright.env.errors import MissingExtraError
from envwright.env.jsonio import write_atomic

__all__ = ["write_tables"]

_TEXT = (
    *("arm", "against", "set", "decoding", "dimension", "value", "outcome", "size", "knob", "path", "reason", "evidence", "engineer"),
    *("stop_reason", "note", "metric", "subset", "measured_on"),
)
_WHOLE = (
    *("seed", "seeds", "boards", "stage", "n", "count", "groups", "mixed", "step", "global_step", "completions", "completion_tokens"),
    *("engineer_requests", "engineer_tool_calls", "engineer_tokens", "simulated_completions", "predicted_boards", "measured_completions"),
)
_NUMERIC_VALUES = ("knobs",)
"""Tables whose column `value` is a number."""


def write_tables(folder: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]], columns: Mapping[str, Sequence[str]]) -> None:
    """Write every table as NAME.csv and NAME.parquet.

    Args:
        folder: where to.
        tables: name -> rows.
        columns: name -> columns, in order; also of tables without a row.

    Raises:
        UserError: the folder cannot be written to, or pyarrow is missing.
    """
    for name, rows in tables.items():
        write_atomic(folder / f"{name}.csv", _csv(rows, columns[name]))
        write_atomic(folder / f"{name}.parquet", _parquet(name, rows, columns[name]))


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _parquet(name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow", "train", "writing Parquet tables") from None

    def kind(column: str) -> Any:
        if column in _WHOLE:
            return pa.int64()
        is_text = column in _TEXT and not (column == "value" and name in _NUMERIC_VALUES)
        return pa.string() if is_text else pa.float64()

    schema = pa.schema([(column, kind(column)) for column in columns])
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), buffer)
    data: bytes = buffer.getvalue().to_pybytes()
    return data
