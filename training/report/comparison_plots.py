"""The plots of a comparison."""

from __future__ import annotations

from typing import Any

from envwright.env.config import KNOBS
from envwright.training.report.comparison_data import ComparisonData, SeedMean
from envwright.training.report.data import pick
from envwright.training.report.forest import Mark, forest
from envwright.training.report.look import NEUTRAL, Series, new_figure
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
from envwright.training.report.run_plots import CALIBRATION_WORDS, calibration_rows, size_looks
from envwright.training.report.text import number, size_name

__all__ = ["calibration", "curves", "differences", "failures", "knobs", "rates", "signal"]

_BAND_WORDS = "bands are 95 % t intervals of the mean over seeds, or of one seed alone its Wilson interval."


def differences(data: ComparisonData) -> Plot | None:
    """Paired differences of every arm from the baseline."""
    groups = []
    for arm in data.arms:
        marks = []
        for decoding in ("sampled", "greedy"):
            row = data.difference(arm, data.baseline, decoding) if arm != data.baseline else None
            if row is not None:
                marks.append(Mark(decoding, row["difference"], row["low"], row["high"], data.looks[arm], hollow=decoding == "greedy"))
        groups.append((arm, marks))
    title = f"Valid plans on held-out boards: difference from {data.baseline}"
    caption = (
        "Paired by seed and board; lines are 95 % intervals of a bootstrap over seeds and boards. Right of 0: better than the baseline. "
        "Filled: sampled plans; hollow: greedy ones."
    )
    return forest("differences", title, caption, groups, f"points above {data.baseline}", zero=True)


def rates(data: ComparisonData) -> Plot | None:
    """Every arm's valid rate on held-out boards, and the policy's before training."""
    groups = []
    for row in data.base():
        name = "before training" if len(data.base()) == 1 else f"before: {row['policy']}"
        groups.append((name, [Mark("sampled", row["rate"], row["low"], row["high"], Series(NEUTRAL, "|"))]))
    for arm in data.arms:
        marks = []
        for decoding in ("sampled", "greedy"):
            found = data.headline(arm, decoding)
            if found is not None:
                marks.append(Mark(decoding, found["rate"], found["low"], found["high"], data.looks[arm], hollow=decoding == "greedy"))
        groups.append((arm, marks))
    caption = (
        "Share of valid plans after the last stage; lines are 95 % intervals over seeds and boards. Arms share boards and seeds, so these lines "
        "may overlap where the paired difference is clear."
    )
    return forest("rates", "Valid plans on held-out boards, by arm", caption, groups, "valid plans", zero=False)


def _line(arm: str, look: Series, means: dict[Any, SeedMean]) -> Line:
    known = all(mean.low is not None for mean in means.values())
    low = [mean.low or 0.0 for mean in means.values()] if known else []
    high = [1.0 if mean.high is None else mean.high for mean in means.values()] if known else []
    return Line(arm, look, list(means), [mean.mean for mean in means.values()], low, high)


def curves(data: ComparisonData) -> Plot | None:
    """Validation by stage, a line per arm."""
    lines = []
    for arm in data.arms:
        rows = pick(data.tables["rates"], arm=arm, set="validation", decoding="sampled", dimension="all")
        lines.append(_line(arm, data.looks[arm], data.over_seeds(rows, "valid")))
    caption = f"Valid share of the sampled plans on the fixed validation boards, mean over seeds; {_BAND_WORDS}"
    return line_plot("curves", "Validation by stage", caption, lines, "valid", least=0.1)


def signal(data: ComparisonData) -> Plot | None:
    """Groups with mixed outcomes by stage, a line per arm."""
    lines = []
    for arm in data.arms:
        rows = pick(data.tables["signal"], arm=arm, size="all")
        lines.append(_line(arm, data.looks[arm], data.over_seeds(rows, "share")))
    caption = (
        "Share of a stage's GRPO groups in which some plans are valid and some are not, mean over seeds; a group without both teaches nothing. "
        "Bands are 95 % t intervals of the mean over seeds."
    )
    return line_plot("signal", "Groups with signal", caption, lines, "share", least=0.1)


def knobs(data: ComparisonData) -> list[Plot]:
    """One plot per knob: a panel per arm, a line per map size, means over seeds."""
    sizes = sorted({row["size"] for row in data.tables["knobs"]}, key=int)
    looks, plots = size_looks(sizes), []
    for knob in KNOBS:
        panels_of = {arm: rows for arm in data.arms if (rows := pick(data.tables["knobs"], arm=arm, knob=knob))}
        if not panels_of:
            continue
        title = f"{knob.replace('_', ' ').capitalize()}, by arm"
        caption = "Mean over seeds, a panel per arm and a line per map size; in an arm that trains on a fixed config the lines are level."
        columns, panel_rows = min(2, len(panels_of)), -(-len(panels_of) // 2)
        with new_figure(0.45 + 1.5 * panel_rows, panel_rows, columns, sharex=True, sharey=True) as (figure, panels):
            stages = sorted({row["stage"] for rows in panels_of.values() for row in rows})
            drawn: dict[str, list[Line]] = {}
            for arm, rows in panels_of.items():
                means = {size: data.over_seeds(pick(rows, size=size), "value") for size in sizes}
                drawn[arm] = [
                    Line(size_name(size), looks[size], list(of_size), [mean.mean for mean in of_size.values()])
                    for size, of_size in means.items()
                ]
            values = [value for lines in drawn.values() for line in lines for value in line.y]
            for index, (axes, (arm, lines)) in enumerate(zip(panels, drawn.items(), strict=False)):
                axes.set_title(_short(arm))
                stage_axis(axes, stages, label=index >= len(drawn) - columns)
                percent_axis(axes, values, least=0.1)
                draw_lines(axes, [line for line in lines if line.x], labels=False, layered=True)
            for axes in panels[len(drawn) :]:
                axes.set_visible(False)
            _size_legend(figure, {size_name(size): looks[size] for size in sizes})
            gist = "; ".join(
                f"{arm}: " + ", ".join(f"{line.name} {_ends(line)}" for line in lines if line.y) for arm, lines in drawn.items()
            )
            table = [(arm, line.name, x, y) for arm, lines in drawn.items() for line in lines for x, y in zip(line.x, line.y, strict=True)]
            name = f"knob-{knob.replace('_', '-')}"
            plots.append(finish(figure, name, title, f"{title}. {gist}.", caption, ("arm", "size", "stage", "mean"), table))
    return plots


def _ends(line: Line) -> str:
    first, last = number(line.y[0], 3), number(line.y[-1], 3)
    return first if first == last else f"{first} to {last}"


def _short(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:20]}..."


def _size_legend(figure: Any, looks: dict[str, Series]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=look.colour, marker=look.marker, label=name) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower left", ncols=4, handlelength=1.4, columnspacing=1.2)


def failures(data: ComparisonData) -> Plot | None:
    """What became of the sampled held-out plans, a bar per arm."""
    bars = []
    for label, of_set, arms in (("before training", "heldout_base", data.arms[:1]), *((arm, "heldout_final", [arm]) for arm in data.arms)):
        counts: dict[str, int] = {}
        for row in data.tables["failures"]:
            if row["set"] == of_set and row["decoding"] == "sampled" and row["arm"] in arms:
                counts[row["outcome"]] = counts.get(row["outcome"], 0) + row["count"]
        bars.append((_short(label), counts))
    caption = "Sampled plans on the held-out boards by outcome, in per cent, all seeds together."
    return outcome_bars("failures", "What became of the plans, by arm", caption, bars)


def calibration(data: ComparisonData) -> Plot | None:
    """Predicted against measured, coloured by arm."""
    rows = [{**row, "size": size_name(row["size"])} for row in calibration_rows(data.tables["calibration"])]
    looks = {arm: data.looks[arm] for arm in data.arms if any(row["arm"] == arm for row in rows)}
    return calibration_plot("calibration", "Predicted against measured", CALIBRATION_WORDS, rows, looks, "arm")
