"""The page of a run: from its tables and files to sections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envwright.training.compare.budget import total_budget
from envwright.training.report import run_plots
from envwright.training.report.boards import sample_boards
from envwright.training.report.data import HeldoutRow, RunData
from envwright.training.report.parts import Cell, Link, Page, Section, Table, change_cell, rate_cell, table_of
from envwright.training.report.patches import decisions
from envwright.training.report.plots import Plot
from envwright.training.report.text import apart, interval, percent, points, points_interval, seconds, size_name

__all__ = ["BUDGET_HEAD", "budget_cells", "run_page"]


def run_page(data: RunData) -> Page:
    """Return the page of a run, finished or not."""
    settings = data.settings
    sections = (
        Section("result", "Before and after", _RESULT_WORDS, _plots(run_plots.heldout(data)), _headline_tables(data)),
        Section(
            "curves",
            "Learning curves",
            (),
            _plots(run_plots.validation(data), run_plots.training(data), run_plots.validation_by_size(data)),
            _validation_tables(data),
        ),
        Section("knobs", "What the stages trained on", _KNOB_WORDS, tuple(run_plots.knobs(data)), _reward_tables(data)),
        Section("failures", "What fails", (), _plots(run_plots.failures(data), run_plots.signal(data))),
        Section("patches", "Patch by patch", _PATCH_WORDS, kind="decisions", items=tuple(decisions(data))),
        _boards_section(data),
        _calibration_section(data),
        Section("budget", "What it cost", (), (), _budget_tables(data)),
        _origin_section(data),
    )
    title = f"envwright run: {settings.engineer} as engineer, seed {settings.seed}"
    return Page(title, "run", tuple(_lead(data)), tuple(_warnings(data)), tuple(section for section in sections if _holds(section)))


_RESULT_WORDS = (
    "Rates are shares of completions. Each has its 95 % Wilson interval; the change has the 95 % interval of a bootstrap over boards that "
    "pairs before with after on the same boards. One run has one seed: these intervals say nothing of other seeds.",
)
_KNOB_WORDS = ("The three knobs of every map size, stage by stage. The engineer sets nothing else.",)
_PATCH_WORDS = (
    "What the engineer changed after each stage, why, on what evidence, and what validation said after the next stage. Validation moves "
    "with training too: one run cannot tell what a patch did from what the stage did.",
)


def _plots(*plots: Plot | None) -> tuple[Plot, ...]:
    return tuple(plot for plot in plots if plot is not None)


def _holds(section: Section) -> bool:
    return bool(section.plots or section.tables or section.items)


def _lead(data: RunData) -> Iterator[str]:
    settings = data.settings
    greedy, sampled = (_headline(data, decoding) for decoding in ("greedy", "sampled"))
    if greedy is None or sampled is None or sampled.after is None or sampled.change is None:
        yield f"This run is not finished: {data.finished} of {settings.num_stages} stages are there, so there is no result yet."
        yield from _validation_sentence(data)
        return
    for row, how in ((sampled, "sampled"), (greedy, "decoded greedily")):
        assert row.after is not None
        assert row.change is not None
        change, low, high = row.change
        gain = f"{points(change)} points"
        if low is not None:
            gain += f" {points_interval(low, high)}; {apart(low, high)}"
        rates = (
            f"{percent(row.after[0])} {interval(*row.after[1:])}".strip(),
            f"{percent(row.before[0])} {interval(*row.before[1:])}".strip(),
        )
        if how == "sampled":
            boards = f"{settings.evaluation.heldout_instances} held-out boards"
            yield f"After {settings.num_stages} stages, {rates[0]} of the policy's sampled plans on {boards} are valid, against {rates[1]} before: {gain}."
        else:
            yield f"With greedy decoding it is {rates[0]} against {rates[1]}: {gain}."
    accepted = [row for row in data.tables["patches"] if row["path"] is not None]
    patched = sorted({row["stage"] for row in accepted})
    steps = settings.num_stages * settings.steps_per_stage
    what = f"changed {len(accepted)} knobs after {_listed('stage', patched)}" if patched else "kept the config as it was"
    yield f"The engineer {settings.engineer} {what}; the policy trained for {steps} GRPO steps of {settings.grpo.boards_per_step} boards."


def _validation_sentence(data: RunData) -> Iterator[str]:
    rows = data.rates(set="validation", decoding="sampled", dimension="all")
    if rows:
        last = rows[-1]
        rate = f"{percent(last['valid'])} {interval(last['valid_low'], last['valid_high'])}"
        yield f"After stage {last['stage']}, {rate} of the sampled validation plans are valid."


def _listed(word: str, numbers: list[int]) -> str:
    texts = [str(value) for value in numbers]
    return f"{word} {texts[0]}" if len(texts) == 1 else f"{word}s {', '.join(texts[:-1])} and {texts[-1]}"


def _headline(data: RunData, decoding: str) -> HeldoutRow | None:
    return next((row for row in data.heldout if (row.decoding, row.metric, row.dimension) == (decoding, "valid", "all")), None)


def _warnings(data: RunData) -> Iterator[str]:
    settings = data.settings
    if not data.whole:
        there = "none" if not data.finished else _listed("stage", list(range(data.finished)))
        yield f"Unfinished: {there} of stages 0 to {settings.num_stages - 1} {'is' if data.finished == 1 else 'are'} whole; envwright run ... --resume goes on."
    elif any(row.before[1] is None for row in data.heldout):
        yield "This run kept no held-out completions: its rates before and after have no intervals, and no subsets."
    if any(row["stop_reason"] == "gate" for row in data.tables["patches"]):
        yield "The gate acted: validation fell by more than the tolerance, and the run went back to an earlier config."


def _headline_tables(data: RunData) -> tuple[Table, ...]:
    main: list[tuple[Any, ...]] = []
    others: list[tuple[Any, ...]] = []
    for metric in ("valid", "optimal"):
        for row in (row for row in data.heldout if row.metric == metric):
            after = Cell("–", "not finished") if row.after is None else rate_cell(*row.after)
            change = Cell("–") if row.change is None else change_cell(*row.change)
            name = Cell(f"{metric}: {run_plots.subset_name(row.decoding, row.dimension, row.value)}")
            first = row.dimension == "all" or (metric == "valid" and row.decoding == "sampled")
            (main if first else others).append((name, row.boards, rate_cell(*row.before), after, change))
    head = ("share of plans", "boards", "before", "after", "change in points")
    tables = [table_of("Plans on held-out boards, which belong to no training or validation set", head, main)] if main else []
    if others:
        tables.append(table_of("The same, greedy and optimal, by subset", head, others, folded="Every subset, greedy and optimal"))
    return tuple(tables)


def _validation_tables(data: RunData) -> tuple[Table, ...]:
    stages = list(range(data.finished))
    rows = []
    for dimension, value, name in (
        ("all", "all", "all boards"),
        *(("size", size, size_name(size)) for size in data.sizes),
        ("wait_required", "free", "no wait needed"),
        ("wait_required", "required", "must wait"),
    ):
        cells = []
        for stage in stages:
            found = data.rates(stage=stage, set="validation", decoding="sampled", dimension=dimension, value=value)
            cells.append(rate_cell(found[0]["valid"], found[0]["valid_low"], found[0]["valid_high"]) if found else Cell("–"))
        if any(cell.value is not None for cell in cells):
            rows.append((name, *cells))
    if not rows:
        return ()
    return (table_of("Valid sampled plans on validation boards", ("boards", *(f"stage {stage}" for stage in stages)), rows),)


def _reward_tables(data: RunData) -> tuple[Table, ...]:
    """What a valid plan earned, stage by stage: an adaptive weight of efficiency waits for validity."""
    outcomes = [data.store.stage(stage).outcome() for stage in range(data.finished)]
    if not outcomes:
        return ()
    rows = [(f"stage {stage}", entry.get("efficiency_weight", 0.0), entry["train_reward"]) for stage, entry in enumerate(outcomes)]
    caption = (
        f"Reward of a valid plan: 1 + weight x optimum / cost, by the {data.settings.grpo.efficiency_schedule} schedule; other plans earn 0"
    )
    return (table_of(caption, ("", "weight of efficiency", "mean reward"), rows),)


def _boards_section(data: RunData) -> Section:
    if not data.finished:
        return Section("boards", "Sample boards")
    stage = data.finished - 1
    place = f"stages/{stage:02d}/validation.jsonl"
    samples = sample_boards(data.store.stage(stage).read_rollouts("validation"))
    words = (
        f"From {place}, chosen by rule: per size the first plan that ends in the most frequent failure, and the first optimal one, on a board "
        "where waiting is needed if there is one. Agents are discs, goals squares with the same number, holes dark and hatched.",
    )
    return Section("boards", "Sample boards", words, kind="samples", items=tuple((place, sample) for sample in samples))


def _calibration_section(data: RunData) -> Section:
    rows = data.tables["calibration"]
    words = (
        "Before it patches, an engineer may ask simulate_config how the policy would do under other knobs. Here those predictions stand "
        "against what the next stage measured; an error above 0 means that too much was hoped for.",
    )
    head = ("after stage", "size", "measured on", "predicted", "measured", "error in points", "completions")
    names = {"train_first": "first tenth of training", "train": "all training", "validation": "validation boards"}
    table = table_of(
        "Predicted and measured valid rate",
        head,
        [
            (
                row["stage"],
                row["size"] if row["size"] == "all" else size_name(row["size"]),
                names.get(row["measured_on"], row["measured_on"]),
                Cell(percent(row["predicted"]), "", row["predicted"]),
                Cell(percent(row["measured"]), "", row["measured"]),
                change_cell(row["error"], None, None),
                row["measured_completions"],
            )
            for row in rows
        ],
    )
    if not rows:
        return Section("calibration", "Calibration of simulate_config")
    return Section("calibration", "Calibration of simulate_config", words, _plots(run_plots.calibration(data)), (table,))


BUDGET_HEAD = ("boards", "completions", "tokens", "training", "wall", "engineer", "tool calls", "engineer tokens", "simulated completions")
"""Heads of a budget's columns."""


def budget_cells(budget: dict[str, object]) -> tuple[object, ...]:
    """Return a budget's cells, in the order of `BUDGET_HEAD`."""

    def time(name: str) -> Cell:
        value = budget.get(name)
        return Cell(seconds(value if isinstance(value, int | float) else None), value=value)

    return (
        budget.get("boards"),
        budget.get("completions"),
        budget.get("completion_tokens"),
        time("training_seconds"),
        time("wall_seconds"),
        time("engineer_seconds"),
        budget.get("engineer_tool_calls"),
        budget.get("engineer_tokens"),
        budget.get("simulated_completions"),
    )


def _budget_tables(data: RunData) -> tuple[Table, ...]:
    rows = data.tables["budget"]
    if not rows:
        return ()
    body = [(f"stage {row['stage']}", *budget_cells(row)) for row in rows]
    body.append(("all stages", *budget_cells(total_budget(rows))))
    caption = "What every stage spent, as measured; completions of the policy inside simulate_config are counted apart"
    return (table_of(caption, ("", *BUDGET_HEAD), body),)


_FILES = (
    ("summary.json", "the figures of the run in one document"),
    ("run.json", "resolved settings and versions"),
    ("events.jsonl", "what happened when, a line each"),
    ("benchmark.json", "counts on the held-out boards"),
    ("heldout/base_sampled.jsonl", "held-out plans before training, sampled"),
    ("heldout/base_greedy.jsonl", "held-out plans before training, greedy"),
    ("heldout/final_sampled.jsonl", "held-out plans after training, sampled"),
    ("heldout/final_greedy.jsonl", "held-out plans after training, greedy"),
)
_STAGE_FILES = (
    ("config.json", "the knobs"),
    ("instances.jsonl", "the boards"),
    ("metrics.jsonl", "a line per GRPO step"),
    ("train_rollouts.jsonl", "every training completion"),
    ("validation.jsonl", "validation plans, sampled"),
    ("engineer/transcript.jsonl", "the engineer's conversation"),
    ("engineer/patch.json", "the patch"),
    ("checkpoint", "the policy's weights"),
)


def _origin_section(data: RunData) -> Section:
    settings, root = data.settings, data.store.path
    links = [Link(name, name, what) for name, what in _FILES if (root / name).is_file()]
    for stage in range(data.finished):
        folder = f"stages/{stage:02d}"
        links += [Link(f"{folder}/{name}", f"{folder}/{name}", what) for name, what in _STAGE_FILES if (root / folder / name).exists()]
    facts = [
        ("policy", settings.policy),
        ("engineer", settings.engineer),
        ("context", settings.context),
        ("seed", str(settings.seed)),
        ("stages x steps", f"{settings.num_stages} x {settings.steps_per_stage}"),
        ("boards per step x completions per board", f"{settings.grpo.boards_per_step} x {settings.grpo.num_generations}"),
        ("learning rate", str(settings.grpo.learning_rate)),
        ("validation, held-out boards", f"{settings.evaluation.validation_instances}, {settings.evaluation.heldout_instances}"),
        ("completions sampled per board", str(settings.evaluation.samples)),
        ("threads", str(settings.threads)),
    ]
    tables = (
        table_of("Settings", ("setting", "value"), facts),
        table_of("Versions", ("package", "version"), sorted(data.versions.items())),
    )
    return Section("origin", "Command, versions, files", (), (), tables, "origin", (data.command, tuple(links)))
