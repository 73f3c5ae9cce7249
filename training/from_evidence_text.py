"""What `envwright compare --from-evidence` prints: patches side by side, what they are predicted to do, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envwright.agent.visible import visible

__all__ = ["evidence_lines"]

_LABEL = 24
_COLUMN = 13
_SIDE_BY_SIDE = 6
"""Engineers beside each other; more of them go below."""
_Z = 1.96


def evidence_lines(compared: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for what `compare_from_evidence` returned: 102 columns at most, ASCII but for what engineers wrote."""
    for entry in compared["runs"]:
        yield f"{visible(entry['run'])}: evidence of stage {entry['stage']}, seed {entry['seed']}"
        rows = entry["engineers"]
        for start in range(0, len(rows), _SIDE_BY_SIDE):
            yield from _block(entry, rows[start : start + _SIDE_BY_SIDE])
        yield ""
        for row in rows:
            yield f"  {visible(row['engineer'])}: {row['stop_reason']}: {_short(visible(row['note']))}"
        yield ""
    if len(compared["runs"]) > 1:
        yield from _overall(compared)
    for path in compared["skipped"]:
        yield f"skipped, no stage is finished: {visible(path)}"
    boards = compared["boards_per_size"]
    yield f"Simulated on {boards} boards per size; a share of one size is known to within {_Z * math.sqrt(0.25 / boards):.2f} at worst (95 %)."
    yield "Mixed: groups with valid and invalid completions, which alone teach. What the policy would learn is not simulated."


def _block(entry: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the knobs that somebody changes, the forecasts and the costs of some engineers."""
    yield ""
    yield _line("knob", "kept", [row["engineer"] for row in rows])
    changed = {change["path"] for row in rows for change in row["diff"]}
    for bucket, knobs in entry["config"]["sizes"].items():
        for knob, value in knobs.items():
            path = f"/sizes/{bucket}/{knob}"
            if path in changed:
                yield _line(path, f"{value:.3f}", [_after(row["diff"], path) for row in rows])
    if not changed:
        yield "  nobody changes a knob"
    kept = entry["kept"]
    for figure, title in (("valid", "predicted valid"), ("mixed", "mixed groups")):
        yield _line(title, _percent(kept[figure]), [_percent(row["forecast"][figure]) for row in rows])
        if any(row["gain"][figure] is not None for row in rows):
            yield _line("  against kept", "", [_points(row["gain"][figure]) for row in rows])
        for bucket in kept["by_size"]:
            cells = [_percent(row["forecast"]["by_size"].get(bucket, {}).get(figure)) for row in rows]
            yield _line(f"  {bucket}x{bucket}", _percent(kept["by_size"][bucket][figure]), cells)
    for row in rows:
        for bucket, size in row["forecast"]["by_size"].items():
            if size["reason"] is not None:
                yield f"  {visible(row['engineer'])}: the generator cannot fill {bucket}x{bucket}: {_short(size['reason'])}"
    for name, title in (("requests", "requests"), ("tokens", "tokens"), ("policy_completions", "policy completions")):
        yield _line(title, "", [f"{row['cost'][name]:,}" for row in rows])
    yield _line("seconds", "", [f"{row['cost']['seconds']:.1f}" for row in rows])


def _overall(compared: Mapping[str, Any]) -> Iterator[str]:
    """Yield the means over all runs and seeds."""
    yield f"all {len(compared['runs'])} decisions of each engineer, means"
    heads = ("patches", "edits", "valid", "gain", "mixed", "gain", "seconds")
    yield f"  {'engineer':<22}" + "".join(f"{head:>10}" for head in heads)
    for row in compared["overall"]:
        cells = [
            f"{row['patches']}/{row['decisions']}",
            f"{row['edits']:.1f}",
            _percent(row["forecast"]["valid"]),
            _points(row["gain"]["valid"]),
            _percent(row["forecast"]["mixed"]),
            _points(row["gain"]["mixed"]),
            f"{row['cost']['seconds']:.1f}",
        ]
        yield f"  {_cut(visible(row['engineer']), 22):<22}" + "".join(f"{cell:>10}" for cell in cells)
    yield ""


def _line(label: str, kept: str, cells: Sequence[str]) -> str:
    return (
        f"  {label:<{_LABEL - 2}}{kept:>{_COLUMN - 5}}" + "".join(f"{_cut(visible(cell), _COLUMN - 1):>{_COLUMN}}" for cell in cells)
    ).rstrip()


def _after(diff: Sequence[Mapping[str, Any]], path: str) -> str:
    found = next((change["after"] for change in diff if change["path"] == path), None)
    return "." if found is None else f"{found:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _points(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 2]}.."


def _short(text: str, width: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else f"{flat[: width - 3]}..."
