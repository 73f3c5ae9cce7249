"""The plots of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from envwright.env.config import KNOBS
from envwright.env.statistics import wilson
from envwright.training.compare.tables import Row
from envwright.training.report.data import RunData, pick
from envwright.training.report.forest import Mark, forest
from envwright.training.report.look import BAND, INK, MUTED, NEUTRAL, Series, category, new_figure, ordinal
from envwright.training.report.plots import (
    Line,
    Plot,
    calibration_plot,
    draw_lines,
    finish,
    line_plot,
    outcome_bars,
    percent_axis,
    stage_axis,
)
from envwright.training.report.text import percent, size_name

__all__ = ["calibration", "failures", "heldout", "knobs", "signal", "size_looks", "training", "validation", "validation_by_size"]

_VALID, _OPTIMAL = category(0), Series("#00664a", "s")


def size_looks(sizes: Sequence[str]) -> dict[str, Series]:
    """Return the look of every map size."""
    return {size: ordinal(index, len(sizes)) for index, size in enumerate(sizes)}


def heldout(data: RunData) -> Plot | None:
    """Held-out boards before and after training, with intervals."""
    groups = []
    for row in data.heldout:
        if row.metric != "valid" or (row.dimension != "all" and row.decoding != "sampled"):
            continue
        marks = []
        for name, rates, look in (("before", row.before, Series(NEUTRAL)), ("after", row.after, category(0))):
            if rates is not None and rates[1] is not None and rates[2] is not None:
                marks.append(Mark(name, rates[0], rates[1], rates[2], look, hollow=name == "before"))
        groups.append((subset_name(row.decoding, row.dimension, row.value), marks))
    caption = "Share of plans that are valid on boards that no stage trained on; lines are 95 % Wilson intervals."
    return forest("heldout", "Valid plans on held-out boards", caption, groups, "valid plans", zero=False)


def subset_name(decoding: str, dimension: str, value: str) -> str:
    """Return the name of a row of the headline table."""
    names = {"all": "all boards", "size": size_name(value), "num_agents": f"{value} agents"}
    name = names.get(dimension) or ("must wait" if value == "required" else "no wait needed")
    return f"{name}, {decoding}"


def _lines(rows: Sequence[Row], metric: str, name: str, look: Series) -> Line:
    rows = sorted(rows, key=lambda row: int(row["stage"]))
    return Line(
        name,
        look,
        [row["stage"] for row in rows],
        [row[metric] for row in rows],
        [row[f"{metric}_low"] for row in rows],
        [row[f"{metric}_high"] for row in rows],
    )


def validation(data: RunData) -> Plot | None:
    """Validation rates by stage over all boards."""
    rows = data.rates(set="validation", decoding="sampled", dimension="all")
    greedy = data.rates(set="validation", decoding="greedy", dimension="all")
    lines = [_lines(rows, "valid", "valid", _VALID), _lines(rows, "optimal", "optimal", _OPTIMAL)]
    if greedy:
        lines.append(_lines(greedy, "valid", "valid, greedy", Series(NEUTRAL, "D", (0, (4, 1.6)))))
    caption = "Sampled plans on the fixed validation boards after each stage; bands are 95 % Wilson intervals."
    return line_plot("validation", "Validation by stage", caption, lines, "rate")


def validation_by_size(data: RunData) -> Plot | None:
    """Validation rates by stage, one panel per map size."""
    by_size = {
        size: rows for size in data.sizes if (rows := data.rates(set="validation", decoding="sampled", dimension="size", value=size))
    }
    if not by_size:
        return None
    stages = sorted({row["stage"] for rows in by_size.values() for row in rows})
    title = "Validation by stage and map size"
    caption = "Valid (round) and optimal (square) sampled plans, one panel per map size; bands are 95 % Wilson intervals."
    panel_rows = -(-len(by_size) // 2)
    columns = min(2, len(by_size))
    with new_figure(0.35 + 1.55 * panel_rows, panel_rows, columns, sharex=True, sharey=True) as (figure, panels):
        drawn = {}
        for axes, (size, rows) in zip(panels, by_size.items(), strict=False):
            drawn[size] = [_lines(rows, "valid", "valid", _VALID), _lines(rows, "optimal", "optimal", _OPTIMAL)]
            axes.set_title(size_name(size))
        ends = [end for lines in drawn.values() for line in lines for end in (*line.low, *line.high)]
        for index, (axes, lines) in enumerate(zip(panels, drawn.values(), strict=False)):
            stage_axis(axes, stages, label=index >= len(drawn) - columns)
            percent_axis(axes, ends)
            draw_lines(axes, lines, labels=False)
        for axes in panels[len(drawn) :]:
            axes.set_visible(False)
        gist = "; ".join(
            f"{size_name(size)}: valid {percent(lines[0].y[0])} after stage {stages[0]}, {percent(lines[0].y[-1])} after stage {lines[0].x[-1]}"
            for size, lines in drawn.items()
        )
        table = [
            (size_name(size), line.name, stage, line.y[index], line.low[index], line.high[index])
            for size, lines in drawn.items()
            for line in lines
            for index, stage in enumerate(line.x)
        ]
        return finish(
            figure, "validation-by-size", title, f"{title}. {gist}.", caption, ("size", "series", "stage", "rate", "low", "high"), table
        )


def training(data: RunData) -> Plot | None:
    """Reward and signal of every GRPO step, with a moving mean."""
    steps = data.tables["steps"]
    if not steps:
        return None
    x = [row["global_step"] for row in steps]
    width = max(1, min(20, len(steps) // 6))
    title = "Training, step by step"
    caption = f"Faint: every GRPO step. Line: the mean of the {width} steps up to it; band: 1.96 standard errors of that mean. Vertical lines part the stages."
    with new_figure(3.7, 2, 1, sharex=True) as (figure, panels):
        gists = []
        for axes, (column, name, look) in zip(
            panels, (("reward", "mean reward", category(0)), ("signal", "groups with signal", category(1))), strict=True
        ):
            y = [row[column] for row in steps]
            mean, spread = _moving(y, width)
            axes.plot(x, y, color=look.colour, alpha=0.3, linewidth=0.9)
            low, high = zip(*((m - s, m + s) for m, s in zip(mean, spread, strict=True)), strict=True)
            axes.fill_between(x[width - 1 :], low, high, color=look.colour, alpha=BAND, linewidth=0)
            axes.plot(x[width - 1 :], mean, color=look.colour)
            axes.set_title(name)
            for first in {row["stage"]: row["global_step"] for row in reversed(steps)}.values():
                if first > x[0]:
                    axes.axvline(first - 0.5, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)))
            gists.append(f"{name} {mean[0]:.3f} over the first {width} steps, {mean[-1]:.3f} over the last {width}")
        percent_axis(panels[1], [row["signal"] for row in steps])
        panels[1].set_xlabel("GRPO step")
        from matplotlib.ticker import MaxNLocator

        panels[1].xaxis.set_major_locator(MaxNLocator(6, integer=True))
        table = [(row["stage"], row["step"], row["reward"], row["signal"], row["tokens"], row["entropy"]) for row in steps]
        columns = ("stage", "step", "reward", "groups with signal", "tokens", "entropy")
        return finish(figure, "training", title, f"{title}: {'; '.join(gists)}.", caption, columns, table)


def _moving(values: Sequence[float], width: int) -> tuple[list[float], list[float]]:
    """Return the mean of `width` values at every place that has as many up to it, and 1.96 standard errors of it."""
    means, spreads = [], []
    for end in range(width, len(values) + 1):
        window = values[end - width : end]
        mean = sum(window) / len(window)
        variance = sum((value - mean) ** 2 for value in window) / max(1, len(window) - 1)
        means.append(mean)
        spreads.append(1.96 * math.sqrt(variance / len(window)))
    return means, spreads


def knobs(data: RunData) -> list[Plot]:
    """One plot per knob: its value at every stage, a line per map size."""
    sizes = list(dict.fromkeys(row["size"] for row in data.tables["knobs"]))
    looks = size_looks(sizes)
    plots = []
    for knob in KNOBS:
        lines = []
        for size in sizes:
            rows = pick(data.tables["knobs"], knob=knob, size=size)
            lines.append(Line(size_name(size), looks[size], [row["stage"] for row in rows], [row["value"] for row in rows]))
        title = knob.replace("_", " ").capitalize()
        plot = line_plot(
            f"knob-{knob.replace('_', '-')}", title, _KNOB_WORDS.get(knob, ""), lines, "value", height=2.6, least=0.1, layered=True
        )
        if plot is not None:
            plots.append(plot)
    return plots


_KNOB_WORDS = {
    "data_ratio": "Share of the stage's boards that have the size.",
    "hole_ratio": "Share of a board's cells that are holes.",
    "wait_ratio": "Share of the size's boards on which every optimal plan must wait.",
}


def failures(data: RunData) -> Plot | None:
    """What became of the completions, stage by stage."""
    named = [("before", "heldout_base", None)] + [(f"stage {stage}", "validation", stage) for stage in range(data.finished)]
    named.append(("after", "heldout_final", data.finished - 1))
    bars = []
    for label, of_set, stage in named:
        rows = pick(data.tables["failures"], set=of_set, decoding="sampled", stage=stage)
        place = "held-out, " if of_set != "validation" else ""
        bars.append((place + label, {row["outcome"]: row["count"] for row in rows}))
    caption = "Sampled plans by outcome, in per cent. Stages: the fixed validation boards; before and after: the held-out boards."
    return outcome_bars("failures", "What became of the plans", caption, bars)


def signal(data: RunData) -> Plot | None:
    """Share of the training groups with mixed outcomes."""
    sizes = [size for size in dict.fromkeys(row["size"] for row in data.tables["signal"]) if size != "all"]
    looks = size_looks(sizes)
    lines = []
    for size in (*sizes, "all"):
        rows = [row for row in pick(data.tables["signal"], size=size) if row["share"] is not None]
        look = Series(INK, "o", (0, (4, 1.6))) if size == "all" else looks[size]
        lines.append(
            Line("all" if size == "all" else size_name(size), look, [row["stage"] for row in rows], [row["share"] for row in rows])
        )
    caption = "Share of a stage's GRPO groups in which some plans are valid and some are not; a group without both teaches nothing."
    return line_plot("signal", "Groups with signal", caption, lines, "share")


def calibration(data: RunData) -> Plot | None:
    """What simulate_config predicted against what was measured in the next stage."""
    rows = calibration_rows(data.tables["calibration"])
    present = {row["size"] for row in rows}
    looks = {size_name(size): look for size, look in size_looks(data.sizes).items() if size in present}
    named: list[dict[str, Any]] = [{**row, "size": size_name(row["size"])} for row in rows]
    return calibration_plot("calibration", "Predicted against measured", CALIBRATION_WORDS, named, looks, "size")


CALIBRATION_WORDS = (
    "Valid rate of a size's boards as simulate_config predicted it for the config that was taken, against the first tenth of the next "
    "stage's steps, before the policy has moved much; vertical lines are 95 % Wilson intervals of the measured rate. On the dashed line both "
    "are equal."
)


def calibration_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the predictions held against the first tenth of the next stage's steps, with the interval of the measured rate."""
    result = []
    for row in rows:
        if row["measured_on"] != "train_first" or row["size"] == "all":
            continue
        n = row["measured_completions"]
        found = wilson(round(row["measured"] * n), n)
        result.append({**row, "low": found.low, "high": found.high})
    return result
