"""The results table as plain text: at most 100 columns, nothing but ASCII, rates in percent with their intervals below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envwright.env.benchmark import BENCHMARK_SIZES
from envwright.env.reported import REPORTED, SOURCE
from envwright.env.rules import Outcome
from envwright.env.statistics import Interval
from envwright.env.table import Rates, Report, TableRow, TableSet

__all__ = ["reported_lines", "table_lines"]

_LABEL = 23
_COLUMN = 8
_SUM = 12
_COLUMNS = 8
"""Sizes side by side; more of them go below each other."""
_TITLES = {"all": "all boards", "free": "boards on which no wait is required", "required": "boards on which a wait is required"}


def table_lines(report: Report) -> Iterator[str]:
    """Yield the lines of the table: per set of boards a row per number of agents, then how the other completions ended."""
    yield f"{report.n} completions; plans in %, 95 % Wilson intervals below; Sum = plain mean over the sizes"
    for block in report.table:
        yield ""
        yield from _set_lines(block)
    yield ""
    yield from _failure_lines(report)


def _set_lines(block: TableSet) -> Iterator[str]:
    sizes = sorted({int(size) for row in block.rows for size in row.by_size})
    title = _TITLES.get(block.wait, f"wait ratio {block.wait}")
    alike = {rates.n for row in block.rows for rates in row.by_size.values()}
    note = f", {min(alike)} per cell" if len(alike) == 1 else ""
    for start in range(0, len(sizes), _COLUMNS):
        shown = [str(size) for size in sizes[start : start + _COLUMNS]]
        last = start + _COLUMNS >= len(sizes)
        yield title + note
        yield _line("", [f"{size}x{size}" for size in shown], "Sum" if last else "")
        for row in block.rows:
            yield from _row_lines(row, shown, last, with_counts=not note)


def _row_lines(row: TableRow, sizes: Sequence[str], last: bool, *, with_counts: bool) -> Iterator[str]:
    cells = [row.by_size.get(size) for size in sizes]
    name = f"  {row.num_agents} agent{'s' if row.num_agents > 1 else ''}"
    if with_counts:
        yield _line(f"{name:<12}n", [str(cell.n) if cell else "-" for cell in cells], str(row.sum.n) if last else "")
        name = ""
    for what in ("valid", "optimal"):
        intervals = [_pick(cell, what) for cell in cells]
        total = _pick(row.sum, what) if last else None
        yield _line(f"{name:<12}{what}", [_percent(interval, 1) for interval in intervals], _percent(total, 2) if last else "")
        yield _line("", [_bounds(interval, 0) for interval in intervals], _bounds(total, 1))
        name = ""


def _failure_lines(report: Report) -> Iterator[str]:
    names = [outcome.value for outcome in Outcome if not outcome.valid and outcome.value in report.outcomes]
    sizes = list(report.by_size)
    for start in range(0, len(sizes) if names else 0, _COLUMNS):
        shown = sizes[start : start + _COLUMNS]
        last = start + _COLUMNS >= len(sizes)
        yield "completions without a valid plan, by how they ended"
        yield _line("", [f"{size}x{size}" for size in shown], "all" if last else "")
        for name in names:
            counts = [str(report.by_size[size].outcomes.get(name, 0)) for size in shown]
            yield _line(f"  {name}", counts, str(report.outcomes[name]) if last else "")


def reported_lines(report: Report) -> Iterator[str]:
    """Yield the Sum column of these completions, and the paper's figures below it."""
    rows = report.table[0].rows
    own = {row.num_agents: (_pick(row.sum, "valid"), _pick(row.sum, "optimal")) for row in rows}
    agents = sorted({*own, *(number for figures in REPORTED.values() for number in figures)})
    yield "Sum, valid / optimal in %"
    yield _reported_line("", {number: f"{number} agents" for number in agents}, agents)
    figures = {number: f"{_percent(valid, 2)} / {_percent(optimal, 2)}" for number, (valid, optimal) in own.items()}
    yield _reported_line("  these completions", figures, agents)
    yield f"reported in {SOURCE}, on its own boards, which are not these and not published"
    for name, known in REPORTED.items():
        yield _reported_line(f"  {name}", {number: f"{valid:.2f} / {optimal:.2f}" for number, (valid, optimal) in known.items()}, agents)
    for row in rows:
        wanted, sizes = BENCHMARK_SIZES.get(row.num_agents), [int(size) for size in row.by_size]
        if wanted is not None and tuple(sizes) != wanted:
            paper, ours = (f"{len(some)} ({min(some)} to {max(some)})" for some in (wanted, sizes))
            yield f"note: with {row.num_agents} agents the paper's Sum is over {paper} sizes, this one over {ours}"


def _reported_line(name: str, figures: Mapping[int, str], agents: Sequence[int]) -> str:
    return (f"{name:<40}" + "".join(f"{figures.get(number, '-'):>15}" for number in agents)).rstrip()


def _line(label: str, cells: Sequence[str], total: str) -> str:
    return (f"{label:<{_LABEL}}" + "".join(f"{cell:>{_COLUMN}}" for cell in cells) + f"{total:>{_SUM}}").rstrip()


def _pick(rates: Rates | None, what: str) -> Interval | None:
    return None if rates is None else rates.valid if what == "valid" else rates.optimal


def _percent(interval: Interval | None, digits: int) -> str:
    return "-" if interval is None or interval.rate is None else f"{100 * interval.rate:.{digits}f}"


def _bounds(interval: Interval | None, digits: int) -> str:
    return "" if interval is None or interval.rate is None else f"{100 * interval.low:.{digits}f}-{100 * interval.high:.{digits}f}"
