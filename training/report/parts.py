"""What a page is made of: cells, tables and sections that a template can write without knowing what they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envwright.training.report.plots import Plot
from envwright.training.report.text import interval, percent, plain, points, points_interval

__all__ = ["Cell", "Link", "Page", "Section", "Table", "change_cell", "plot_table", "rate_cell", "table_of"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    """What is read first."""
    note: str = ""
    """What follows in smaller type, such as an interval."""
    value: Any = None
    """The number behind the text, for machines."""
    href: str = ""
    """Where the text leads, relative to the page."""
    flag: bool = False
    """True for what the reader should be warned of."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first cell of a row is its head."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: str = ""
    """What opens the table; empty for one that is open."""


@dataclass(frozen=True, slots=True)
class Link:
    """A file beside the page."""

    href: str
    text: str
    what: str


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the page: words, plots and tables; `kind` names the macro for what else it holds."""

    id: str
    title: str
    words: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()
    kind: str = ""
    items: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page."""

    title: str
    kind: str
    """run or comparison."""
    lead: tuple[str, ...]
    """What was found, in plain sentences; the first is the headline."""
    warnings: tuple[str, ...]
    """What is missing or must be known before the numbers are believed."""
    sections: tuple[Section, ...]

    @property
    def plots(self) -> tuple[Plot, ...]:
        """All plots of the page."""
        return tuple(plot for section in self.sections for plot in section.plots)


def rate_cell(rate: float | None, low: float | None, high: float | None) -> Cell:
    """Return a share with its interval."""
    return Cell(percent(rate), interval(low, high), rate)


def change_cell(difference: float | None, low: float | None, high: float | None) -> Cell:
    """Return a difference in points with its interval."""
    return Cell(points(difference), points_interval(low, high), difference)


def table_of(caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]], folded: str = "") -> Table:
    """Return a table; values that are no cells yet become cells."""
    cells = tuple(tuple(value if isinstance(value, Cell) else _cell(value) for value in row) for row in rows)
    return Table(caption, tuple(head), cells, folded)


def plot_table(plot: Plot) -> Table:
    """Return the table of a plot's numbers."""
    return table_of(f"The numbers of this plot: {plot.title}", plot.columns, plot.rows)


def _cell(value: Any) -> Cell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(plain(value), value=value if number else None)
