"""The page of a comparison: from comparison.json and its tables to sections."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from envwright.training.compare.budget import total_budget
from envwright.training.report import comparison_plots as plots
from envwright.training.report.comparison_data import ComparisonData
from envwright.training.report.data import pick
from envwright.training.report.parts import Cell, Link, Page, Section, Table, change_cell, rate_cell, table_of
from envwright.training.report.plots import Plot
from envwright.training.report.run_page import BUDGET_HEAD, budget_cells
from envwright.training.report.text import apart, interval, percent, points, points_interval, size_name

__all__ = ["comparison_page"]


def comparison_page(folder: Path, place: Path) -> Page:
    """Return the page of a comparison, finished or not.

    Args:
        folder: the comparison's folder.
        place: where the page will be; links are relative to it.
    """
    data = ComparisonData(folder)
    sections = (
        Section("result", "Which arm is better", _RESULT_WORDS, _plots(plots.differences(data), plots.rates(data)), _result_tables(data)),
        Section("curves", "Learning curves and signal", (), _plots(plots.curves(data), plots.signal(data)), _signal_tables(data)),
        Section("knobs", "What the arms trained on", (), tuple(plots.knobs(data))),
        Section("failures", "What fails", (), _plots(plots.failures(data))),
        Section("calibration", "Calibration of simulate_config", (), _plots(plots.calibration(data)), _calibration_tables(data)),
        Section("budget", "What every run cost", _BUDGET_WORDS, (), _budget_tables(data, place)),
        _origin_section(data, place),
    )
    title = f"envwright compare: {', '.join(data.arms)}"
    kept = tuple(section for section in sections if section.plots or section.tables or section.items)
    return Page(title, "comparison", tuple(_lead(data)), tuple(_warnings(data)), kept)


_RESULT_WORDS = (
    "Arms are paired: the same base policy, seeds, boards and, where their settings agree, the same first stage. Intervals are 95 % intervals "
    "of a bootstrap that draws seeds and boards with replacement, the same draws for both arms. They are not corrected for the number of "
    "pairs looked at: the more pairs, the likelier one interval excludes 0 by chance.",
)
_BUDGET_WORDS = (
    "Boards and completions are those trained on; a first stage that arms share counts for each. Completions that simulate_config sampled are "
    "counted apart. Times depend on what else the machine did.",
)


def _plots(*made: Plot | None) -> tuple[Plot, ...]:
    return tuple(plot for plot in made if plot is not None)


def _lead(data: ComparisonData) -> Iterator[str]:
    ranked = sorted(
        (row for arm in data.arms if (row := data.headline(arm)) is not None), key=lambda row: (-row["rate"], data.arms.index(row["arm"]))
    )
    if not ranked:
        yield f"No run of this comparison is finished yet: {len(data.cells)} runs of {len(data.arms)} arms are planned."
        return
    others = [row for row in ranked if row["arm"] != data.baseline]
    base = data.headline(data.baseline)
    if base is None or not others:
        yield f"There is nothing to compare yet: of the arms, {', '.join(row['arm'] for row in ranked)} alone has finished runs."
    else:
        yield _best_sentence(data, others[0], base)
        yield from _other_sentences(data, [row["arm"] for row in others[1:]])
    for row in data.base():
        policy = "" if len(data.base()) == 1 else f" ({row['policy']})"
        yield f"Before training the policy{policy} solved {_rate(row)} of the sampled plans."
    first = ranked[0]
    yield f"Measured on {first['boards']} held-out boards that no arm trained on; {len(data.seeds)} seeds planned, {_seed_counts(data)}."


def _rate(row: dict[str, Any]) -> str:
    return f"{percent(row['rate'])} {interval(row['low'], row['high'])}"


def _best_sentence(data: ComparisonData, best: dict[str, Any], base: dict[str, Any]) -> str:
    found = data.difference(best["arm"], data.baseline)
    ends = f"{best['arm']} ends with {_rate(best)} valid sampled plans on held-out boards, the baseline {data.baseline} with {_rate(base)}"
    if found is None:
        return f"{ends}; no seed has both, so there is no difference to give."
    seeds = f"{found['seeds']} seed{'s' if found['seeds'] != 1 else ''}"
    gain = f"{points(found['difference'])} points {points_interval(found['low'], found['high'])} over {seeds}"
    return f"{ends}: {gain}; {apart(found['low'], found['high'])}."


def _other_sentences(data: ComparisonData, arms: list[str]) -> Iterator[str]:
    parts = []
    for arm in arms:
        found = data.difference(arm, data.baseline)
        if found is not None:
            zero = "excludes" if found["low"] > 0 or found["high"] < 0 else "includes"
            parts.append(f"{arm} {points(found['difference'])} {points_interval(found['low'], found['high'])}, which {zero} 0")
    if parts:
        yield f"The others against {data.baseline}, in points: {'; '.join(parts)}."


def _seed_counts(data: ComparisonData) -> str:
    counts = {arm: len(pick(data.done, arm=arm)) for arm in data.arms}
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values()))} finished by every arm"
    return "finished: " + ", ".join(f"{arm} {count}" for arm, count in counts.items())


def _warnings(data: ComparisonData) -> Iterator[str]:
    unfinished = data.document.get("unfinished") or []
    if unfinished:
        yield f"Unfinished, left out of every number here: {'; '.join(unfinished)}. envwright compare ... --resume goes on."
    if data.done and max(len(pick(data.done, arm=arm)) for arm in data.arms) < 3:
        yield "Fewer than three seeds: the intervals say little or nothing of other seeds."
    spent: dict[str, int] = {}
    for cell in data.done:
        if any(flag.startswith("trained on") for flag in cell["flags"]):
            spent[cell["arm"]] = spent.get(cell["arm"], 0) + 1
    for arm, runs in spent.items():
        yield f"{arm} trained on more than the arm that spent least in {runs} of its runs: see the budget."


def _result_tables(data: ComparisonData) -> tuple[Table, ...]:
    kinds = (("valid", "sampled"), ("valid", "greedy"), ("optimal", "sampled"), ("optimal", "greedy"))
    rows: list[tuple[Any, ...]] = []
    for row in data.base():
        same = {key: pick(data.base(*reversed(key)), policy=row["policy"]) for key in kinds}
        name = Cell("before training", row["policy"] if len(data.base()) > 1 else "")
        rows.append((name, row["seeds"], *(rate_cell(found[0]["rate"], found[0]["low"], found[0]["high"]) for found in same.values())))
    for arm in data.arms:
        found_rows = [data.headline(arm, decoding, metric) for metric, decoding in kinds]
        cells = [Cell("–", "no run is finished") if row is None else rate_cell(row["rate"], row["low"], row["high"]) for row in found_rows]
        seeds = next((row["seeds"] for row in found_rows if row is not None), 0)
        rows.append((Cell(arm, "baseline" if arm == data.baseline else ""), seeds, *cells))
    head = ("arm", "seeds", *(f"{metric}, {decoding}" for metric, decoding in kinds))
    tables = [table_of("Plans on held-out boards after the last stage, mean over seeds", head, rows)]
    tables += _difference_tables(data)
    subsets = data.subsets()
    by_subset = []
    for arm in data.arms:
        found_rows = [data.headline(arm, "sampled", "valid", subset) for subset in subsets]
        if any(row is not None for row in found_rows):
            cells = [Cell("–") if row is None else rate_cell(row["rate"], row["low"], row["high"]) for row in found_rows]
            by_subset.append((arm, *cells))
    if by_subset:
        kinds_head = ("arm", *map(_subset_name, subsets))
        tables.append(table_of("Valid sampled plans by kind of held-out board", kinds_head, by_subset, folded="Rates by map size and wait"))
    return tuple(tables)


def _difference_tables(data: ComparisonData) -> Iterator[Table]:
    """Yield every pair over all boards, and folded every pair by kind of board."""
    head = ("arm", "against", "seeds", "valid, sampled", "P(better)", "valid, greedy", "optimal, sampled")
    rows = []
    pairs = list(dict.fromkeys((row["arm"], row["against"]) for row in data.document["differences"]))
    for arm, against in pairs:
        main = data.difference(arm, against)
        if main is None:
            continue
        others = (data.difference(arm, against, "greedy"), data.difference(arm, against, "sampled", "optimal"))
        cells = [Cell("–") if row is None else change_cell(row["difference"], row["low"], row["high"]) for row in (main, *others)]
        better = Cell(f"{main['probability_better']:.3f}", value=main["probability_better"])
        rows.append((arm, against, main["seeds"], cells[0], better, *cells[1:]))
    if rows:
        caption = "Paired differences in points, every pair; P(better) is the share of bootstrap replicates above 0"
        yield table_of(caption, head, rows)
    subsets = [subset for subset in data.subsets() if subset != "all"]
    detail = []
    for arm, against in pairs:
        found = [data.difference(arm, against, "sampled", "valid", subset) for subset in subsets]
        cells = [Cell("–") if row is None else change_cell(row["difference"], row["low"], row["high"]) for row in found]
        detail.append((arm, against, *cells))
    if detail and subsets:
        detail_head = ("arm", "against", *map(_subset_name, subsets))
        caption = "Paired differences of valid sampled plans in points, by kind of held-out board"
        yield table_of(caption, detail_head, detail, folded="Differences by map size and wait")


def _subset_name(subset: str) -> str:
    kind, _, value = subset.partition("=")
    names = {"size": size_name(value), "agents": f"{value} agents", "wait": "must wait" if value == "required" else "no wait needed"}
    return names.get(kind, "all boards" if subset == "all" else subset)


def _signal_tables(data: ComparisonData) -> tuple[Table, ...]:
    rows = []
    stages = sorted({row["stage"] for row in data.tables["signal"]})
    for arm in data.arms:
        means = data.over_seeds(pick(data.tables["signal"], arm=arm, size="all"), "share")
        if means:
            rows.append((arm, *(rate_cell(means[s].mean, means[s].low, means[s].high) if s in means else Cell("–") for s in stages)))
    if not rows:
        return ()
    caption = "Training groups with mixed outcomes, mean over seeds with its 95 % t interval"
    return (table_of(caption, ("arm", *(f"stage {stage}" for stage in stages)), rows),)


def _calibration_tables(data: ComparisonData) -> tuple[Table, ...]:
    names = {"train_first": "first tenth of the next stage's training", "train": "all of it", "validation": "validation after it"}
    rows = [
        (
            row["arm"],
            names.get(row["measured_on"], row["measured_on"]),
            row["predictions"],
            change_cell(row["mean_error"], None, None),
            Cell(points(row["mean_absolute_error"]).removeprefix("+"), value=row["mean_absolute_error"]),
        )
        for row in data.document.get("calibration") or []
    ]
    if not rows:
        return ()
    head = ("arm", "measured on", "predictions", "mean error, points", "mean absolute error, points")
    return (table_of("Predicted minus measured valid rate, over sizes, stages and seeds", head, rows),)


def _budget_tables(data: ComparisonData, place: Path) -> tuple[Table, ...]:
    rows, known = [], []
    for cell in data.cells:
        name = Cell(f"{cell['arm']}, seed {cell['seed']}", href=_href(data.folder / cell["run"], place))
        flags = cell["flags"] if cell["status"] == "done" else [f"{cell['status']}: {cell['reason']}"]
        known += [(f"{cell['arm']}, seed {cell['seed']}", Cell(flag, flag=True)) for flag in flags]
        rows.append((name, Cell("see below" if flags else "done", flag=bool(flags)), *budget_cells(cell["budget"] or {})))
    by_arm = []
    for arm in data.arms:
        budgets = [cell["budget"] for cell in pick(data.done, arm=arm)]
        by_arm.append((arm, len(budgets), *budget_cells(total_budget(budgets))))
    tables = [table_of("All finished runs of an arm together", ("arm", "runs", *BUDGET_HEAD), by_arm)]
    caption = "Every run; its name leads to its own page, or to its folder where there is no page yet"
    tables.append(table_of(caption, ("run", "state", *BUDGET_HEAD), rows))
    if known:
        tables.append(table_of("What to know of single runs", ("run", "what"), known))
    return tuple(tables)


def _href(run: Path, place: Path) -> str:
    """Return where a run's name leads, relative to the page; empty for a run without a folder."""
    target = run / "report.html"
    if not target.is_file():
        target = run
    if not target.exists():
        return ""
    return quote(Path(os.path.relpath(target, place.parent)).as_posix())


def _origin_section(data: ComparisonData, place: Path) -> Section:
    document = data.document
    arms = [(arm["name"], arm["engineer"], _overrides(arm["overrides"])) for arm in document["arms"]]
    tables = (
        table_of("Arms", ("arm", "engineer", "differs from the common settings in"), arms),
        table_of("Versions", ("package", "version"), sorted(document.get("versions", {}).items())),
    )
    files = (
        ("comparison.json", "the figures of this page in one document"),
        ("compare.json", "the plan: settings, arms, seeds"),
        ("tables", "every table as CSV and Parquet"),
        ("runs", "the run folders, one per arm and seed"),
        ("logs", "what every run printed"),
    )
    links = tuple(Link(_href_of(data.folder / name, place), name, what) for name, what in files if (data.folder / name).exists())
    return Section("origin", "Command, versions, files", (), (), tables, "origin", (data.command, links))


def _href_of(path: Path, place: Path) -> str:
    return quote(Path(os.path.relpath(path, place.parent)).as_posix())


def _overrides(overrides: Any) -> str:
    if not overrides:
        return "–"
    pairs = overrides.items() if isinstance(overrides, dict) else [str(pair).partition("=")[::2] for pair in overrides]
    return ", ".join(f"{key}={value}" for key, value in pairs)
