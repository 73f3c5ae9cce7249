"""Plots that runs and comparisons share: an axis of stages, lines with bands, bars of outcomes, predicted against measured.

A plot is drawn once and kept as SVG for the page and as PNG beside it, with its text alternative and the table of its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envwright.env.rules import Outcome
from envwright.training.report.look import (
    BAND,
    INK,
    NEUTRAL,
    PAPER,
    Series,
    label_ends,
    new_figure,
    outcome_look,
    outcome_text,
    png_bytes,
    svg_element,
)
from envwright.training.report.text import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Line", "Plot", "calibration_plot", "draw_lines", "finish", "line_plot", "outcome_bars", "percent_axis", "stage_axis"]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot as the page holds it."""

    name: str
    """Name of its PNG, without the suffix."""
    title: str
    """What it shows, in a few words."""
    svg: str
    """The `<svg>` element."""
    png: bytes
    """The PNG."""
    alt: str
    """The text alternative: the gist, with numbers."""
    caption: str
    """How to read it: what lines, bands and marks are."""
    columns: tuple[str, ...]
    """Heads of the table of its numbers."""
    rows: tuple[tuple[Any, ...], ...]
    """The table of its numbers; shares are 0 to 1."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series of rates."""

    name: str
    look: Series
    x: Sequence[float]
    y: Sequence[float]
    """Shares, 0 to 1."""
    low: Sequence[float] = field(default=())
    """Lower ends of the intervals; empty for no band."""
    high: Sequence[float] = field(default=())


def finish(figure: Figure, name: str, title: str, alt: str, caption: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Plot:
    """Return the figure as a plot."""
    svg = svg_element(figure, name, alt)
    figure.set_layout_engine("none")  # the layout is made: once is enough
    return Plot(name, title, svg, png_bytes(figure), alt, caption, tuple(columns), tuple(map(tuple, rows)))


def percent_axis(axes: Axes, values: Sequence[float], *, axis: str = "y", least: float = 0.2) -> None:
    """Give an axis of shares limits with room around the values, at least `least` apart, and ticks in per cent."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    low, high = min(values, default=0.0), max(values, default=1.0)
    pad = max(0.06 * (high - low), (least - (high - low)) / 2, 0.01)
    low, high = max(-0.02, low - pad), min(1.02, high + pad)
    (axes.set_ylim if axis == "y" else axes.set_xlim)(low, high)
    target = axes.yaxis if axis == "y" else axes.xaxis
    target.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], prune=None))
    target.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def stage_axis(axes: Axes, stages: Sequence[int], *, label: bool = True) -> None:
    """Give the x axis one tick per stage."""
    step = max(1, len(stages) // 10)
    axes.set_xticks(list(stages)[::step], [str(stage) for stage in list(stages)[::step]])
    if stages:
        axes.set_xlim(min(stages) - 0.15, max(stages) + 0.15)
    if label:
        axes.set_xlabel("stage")


def draw_lines(axes: Axes, lines: Sequence[Line], *, labels: bool = True, layered: bool = False) -> None:
    """Draw lines with markers and bands; the limits of the axes are set already where names are to stand behind the lines.

    Args:
        axes: where.
        lines: the series.
        labels: write their names behind their last points.
        layered: earlier lines are wider, so that those that lie on one another can be told apart.
    """
    for index, line in enumerate(lines):
        wider = min(1.3, 5.0 / len(lines)) * (len(lines) - 1 - index) if layered else 0.0
        if line.low:
            faint = BAND if len(lines) <= 2 else 0.5 * BAND
            axes.fill_between(line.x, line.low, line.high, color=line.look.colour, alpha=faint, linewidth=0)
            for edge in (line.low, line.high):
                axes.plot(line.x, edge, color=line.look.colour, linewidth=0.7, alpha=0.55, linestyle=line.look.dash)
            if len(line.x) == 1:
                axes.vlines(line.x, line.low, line.high, color=line.look.colour, alpha=0.5, linewidth=3)
        axes.plot(
            line.x,
            line.y,
            color=line.look.colour,
            marker=line.look.marker,
            linestyle=line.look.dash,
            linewidth=1.8 + wider,
            markersize=5 + wider,
            markeredgecolor=PAPER,
            markeredgewidth=0.7,
        )
    if labels:
        label_ends(axes, [(line.x[-1], line.y[-1], line.name, line.look.colour) for line in lines if len(line.x)])


def line_plot(
    name: str, title: str, caption: str, lines: Sequence[Line], what: str, *, height: float = 3.0, least: float = 0.2, layered: bool = False
) -> Plot | None:
    """Return lines of shares over the stages in one pair of axes; None without any.

    Args:
        name: name of the plot.
        title: its title.
        caption: how to read it.
        lines: the series.
        what: what the shares are, for the table and the text alternative.
        height: in inches.
        least: least range of the axis of shares.
        layered: see `draw_lines`.
    """
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return None
    stages = sorted({int(x) for line in lines for x in line.x})
    with new_figure(height) as (figure, (axes,)):
        stage_axis(axes, stages)
        percent_axis(axes, [value for line in lines for value in (*line.y, *line.low, *line.high)], least=least)
        draw_lines(axes, lines, layered=layered)
        alt = f"{title}. " + "; ".join(f"{line.name}: {_course(line)}" for line in lines) + "."
        return finish(figure, name, title, alt, caption, ("series", "stage", what, "low", "high"), _rows_of(lines))


def _rows_of(lines: Sequence[Line]) -> list[tuple[Any, ...]]:
    return [
        (line.name, int(x), y, line.low[index] if line.low else None, line.high[index] if line.high else None)
        for line in lines
        for index, (x, y) in enumerate(zip(line.x, line.y, strict=True))
    ]


def _course(line: Line) -> str:
    """Return a line's course in words: where it begins and ends."""
    if len(line.y) == 1:
        return f"{percent(line.y[0])} at stage {int(line.x[0])}"
    return f"from {percent(line.y[0])} at stage {int(line.x[0])} to {percent(line.y[-1])} at stage {int(line.x[-1])}"


def outcome_bars(name: str, title: str, caption: str, bars: Sequence[tuple[str, Mapping[str, int]]]) -> Plot | None:
    """Return stacked bars of outcome shares, one bar per entry from the top; None without any.

    Args:
        name: name of the plot.
        title: its title.
        caption: how to read it.
        bars: name of the bar, and outcome -> count.
    """
    bars = [(label, counts) for label, counts in bars if sum(counts.values())]
    if not bars:
        return None
    order = [outcome.value for outcome in (Outcome.OPTIMAL, Outcome.SUBOPTIMAL, *_FAILURES)]
    present = [outcome for outcome in order if any(counts.get(outcome) for _, counts in bars)]
    legend_rows = -(-len(present) // 3)
    with new_figure(0.75 + 0.36 * len(bars) + 0.2 * legend_rows) as (figure, (axes,)):
        for row, (_, counts) in enumerate(bars):
            left, total = 0.0, sum(counts.values())
            for outcome in present:
                share = counts.get(outcome, 0) / total
                axes.barh(row, share, left=left, color=outcome_look(outcome), edgecolor=PAPER, linewidth=0.8, height=0.76)
                if share >= 0.075:
                    colour = outcome_text(outcome)
                    axes.text(left + share / 2, row, f"{100 * share:.0f}", ha="center", va="center", color=colour, fontsize=9)
                left += share
        axes.set_yticks(range(len(bars)), [label for label, _ in bars])
        axes.invert_yaxis()
        axes.grid(visible=False)
        percent_axis(axes, [0.0, 1.0], axis="x")
        axes.set_xlim(0, 1)
        axes.spines["left"].set_visible(False)
        figure.legend(
            handles=[_patch(outcome) for outcome in present],
            loc="outside lower left",
            ncols=3,
            handlelength=1.0,
            columnspacing=1.2,
            labelcolor=INK,
        )
        words = "; ".join(f"{label}: {_shares(counts, present)}" for label, counts in bars)
        rows = [
            (label, outcome, counts.get(outcome, 0), counts.get(outcome, 0) / sum(counts.values()))
            for label, counts in bars
            for outcome in present
        ]
        return finish(figure, name, title, f"{title}. {words}.", caption, ("bar", "outcome", "completions", "share"), rows)


_FAILURES = (
    Outcome.VERTEX_CONFLICT,
    Outcome.SWAP_CONFLICT,
    Outcome.HOLE,
    Outcome.OUT_OF_BOUNDS,
    Outcome.ILLEGAL_MOVE,
    Outcome.GOAL_NOT_REACHED,
    Outcome.TRUNCATED,
    Outcome.PARSE_ERROR,
)


def _patch(outcome: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=outcome_look(outcome), label=outcome.replace("_", " "))


def _shares(counts: Mapping[str, int], present: Sequence[str]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{outcome.replace('_', ' ')} {percent(counts[outcome] / total, 0)}" for outcome in present if counts.get(outcome))


def calibration_plot(
    name: str, title: str, caption: str, rows: Sequence[Mapping[str, Any]], looks: Mapping[str, Series], key: str
) -> Plot | None:
    """Return predicted against measured shares; None without any.

    Args:
        name: name of the plot.
        title: its title.
        caption: how to read it.
        rows: with `predicted`, `measured`, `low`, `high` (of the measured one), `stage`, `size` and what `key` names.
        looks: value of `key` -> its look.
        key: what the colours are: a column of the rows.
    """
    if not rows:
        return None
    with new_figure(4.4) as (figure, (axes,)):
        values = [row[side] for row in rows for side in ("predicted", "measured", "low", "high") if row.get(side) is not None]
        axes.plot([-0.1, 1.1], [-0.1, 1.1], color=NEUTRAL, linewidth=1.0, linestyle=(0, (4, 2)))
        for row in rows:
            look = looks[str(row[key])]
            if row.get("low") is not None:
                axes.vlines(row["predicted"], row["low"], row["high"], color=look.colour, alpha=0.5, linewidth=1.4)
            axes.plot(
                [row["predicted"]], [row["measured"]], color=look.colour, marker=look.marker, markeredgecolor=PAPER, markersize=7, mew=0.7
            )
        percent_axis(axes, values, least=0.3)
        percent_axis(axes, values, axis="x", least=0.3)
        axes.set_xlim(axes.get_ylim())
        axes.set_aspect("equal")
        axes.grid(visible=True, axis="both")
        axes.set_xlabel("predicted by simulate_config")
        axes.set_ylabel("measured in the next stage")
        _look_legend(figure, looks)
        error = sum(abs(row["measured"] - row["predicted"]) for row in rows) / len(rows)
        bias = sum(row["measured"] - row["predicted"] for row in rows) / len(rows)
        alt = (
            f"{title}. {len(rows)} predictions; they miss the measured rate by {100 * error:.1f} points in the mean, "
            f"and what is measured is {100 * bias:+.1f} points from what was predicted."
        )
        columns = (
            ("stage", "size", key, "predicted", "measured", "low", "high")
            if key != "size"
            else ("stage", "size", "predicted", "measured", "low", "high")
        )
        table = [tuple(row.get(column) for column in columns) for row in rows]
        return finish(figure, name, title, alt, caption, columns, table)


def _look_legend(figure: Figure, looks: Mapping[str, Series]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=look.colour, marker=look.marker, linestyle="none", label=name) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower left", ncols=4, labelcolor=INK, handlelength=1.0)
