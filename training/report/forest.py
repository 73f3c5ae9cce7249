"""Forest plots: rates or differences with their intervals, one row per subset or arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envwright.training.report.look import INK, MUTED, PAPER, Series, new_figure
from envwright.training.report.plots import Plot, finish, percent_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Mark", "forest"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark of a forest plot."""

    name: str
    value: float
    low: float
    high: float
    look: Series
    hollow: bool = False


def forest(name: str, title: str, caption: str, groups: Sequence[tuple[str, Sequence[Mark]]], xlabel: str, *, zero: bool) -> Plot | None:
    """Return marks with their intervals, one row per group; None without any.

    Args:
        name: name of the plot.
        title: its title.
        caption: how to read it.
        groups: name of each row, from the top, and its marks.
        xlabel: what the x axis is.
        zero: True for differences (in percentage points, with a line at 0); False for shares.
    """
    groups = [(label, marks) for label, marks in groups if marks]
    if not groups:
        return None
    most = max(len(marks) for _, marks in groups)
    with new_figure(0.85 + len(groups) * (0.2 + 0.15 * most)) as (figure, (axes,)):
        scale = 100.0 if zero else 1.0
        for row, (_, marks) in enumerate(groups):
            for index, mark in enumerate(marks):
                y = row + (index - (len(marks) - 1) / 2) * 0.3
                axes.hlines(y, scale * mark.low, scale * mark.high, color=mark.look.colour, linewidth=2.0)
                fill = PAPER if mark.hollow else mark.look.colour
                axes.plot(
                    [scale * mark.value],
                    [y],
                    marker=mark.look.marker,
                    color=fill,
                    markeredgecolor=mark.look.colour,
                    markersize=6.5,
                    mew=1.5,
                )
        if zero:
            axes.axvline(0.0, color=INK, linewidth=1.0)
            axes.margins(x=0.08)
        else:
            percent_axis(axes, [end for _, marks in groups for mark in marks for end in (mark.low, mark.high)], axis="x")
        axes.set_yticks(range(len(groups)), [label for label, _ in groups])
        axes.set_ylim(len(groups) - 0.45, -0.55)
        axes.tick_params(axis="y", labelcolor=INK)
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(xlabel)
        unit = " points" if zero else " %"
        words = "; ".join(
            f"{label}, {mark.name}: {100 * mark.value:{'+' if zero else ''}.1f}{unit} [{100 * mark.low:.1f}, {100 * mark.high:.1f}]"
            for label, marks in groups
            for mark in marks
        )
        rows = [(label, mark.name, mark.value, mark.low, mark.high) for label, marks in groups for mark in marks]
        _forest_legend(figure, groups)
        return finish(figure, name, title, f"{title}. {words}.", caption, ("row", "series", "value", "low", "high"), rows)


def _forest_legend(figure: Figure, groups: Sequence[tuple[str, Sequence[Mark]]]) -> None:
    """Name the series where a row has more than one."""
    from matplotlib.lines import Line2D

    names = {mark.name: mark for _, marks in groups for mark in marks}
    if len(names) < 2 or max(len(marks) for _, marks in groups) < 2:
        return
    handles = [
        Line2D(
            [],
            [],
            color=mark.look.colour if len({m.look.colour for m in names.values()}) > 1 or len(groups) == 1 else MUTED,
            marker=mark.look.marker,
            markerfacecolor=PAPER if mark.hollow else None,
            label=name,
        )
        for name, mark in names.items()
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=3, labelcolor=INK, handlelength=1.6)
