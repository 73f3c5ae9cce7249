"""The tidy tables of one run: plain rows of a finished stage each, for CSV, Parquet, plots and reports.

Every row can be recomputed from the run folder. `run_tables` says what the tables and their columns are; a comparison has the
same tables with the columns `arm` and `seed` before them. Rates are 0 to 1, intervals are 95 % Wilson intervals over completions
(those of one board are not independent, so they are somewhat narrow; differences between arms are resampled by board instead).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from envwright.env.config import KNOBS
from envwright.env.jsonio import read_json_lines
from envwright.env.patch import apply_patch, diff_configs
from envwright.env.rules import Outcome
from envwright.env.summary import tally_of
from envwright.training.compare.budget import stage_budget
from envwright.training.compare.calibration import calibration_rows
from envwright.training.compare.completions import (
    DIMENSIONS,
    Completion,
    by_dimension,
    count_outcomes,
    read_completions,
    validity_groups,
)
from envwright.training.runstore import RunStore, StageFolder
from envwright.training.settings import RunSettings

__all__ = ["COLUMNS", "Row", "run_tables"]

Row = dict[str, Any]

COLUMNS: dict[str, tuple[str, ...]] = {
    "rates": (
        *("stage", "set", "decoding", "dimension", "value", "n"),
        *("valid", "valid_low", "valid_high", "optimal", "optimal_low", "optimal_high"),
    ),
    "failures": ("stage", "set", "decoding", "outcome", "count", "share"),
    "signal": ("stage", "size", "groups", "mixed", "share"),
    "knobs": ("stage", "size", "knob", "value"),
    "steps": ("stage", "step", "global_step", "reward", "signal", "tokens", "truncated", "loss", "entropy", "grad_norm"),
    "patches": ("stage", "path", "before", "after", "reason", "evidence", "engineer", "stop_reason", "note"),
    "budget": (
        *("stage", "boards", "completions", "completion_tokens", "training_seconds", "wall_seconds"),
        *("engineer_requests", "engineer_tool_calls", "engineer_tokens", "engineer_seconds", "simulated_completions"),
    ),
    "calibration": (
        *("stage", "size", "measured_on", "predicted", "predicted_boards", "measured", "measured_completions", "error"),
        *("predicted_signal", "measured_signal"),
    ),
}
"""Table -> its columns, in order."""

_HELDOUT = (("heldout_base", "base"), ("heldout_final", "final"))


def run_tables(store: RunStore) -> dict[str, list[Row]]:
    """Return a run's tables, each a list of rows with the keys of `COLUMNS`; a run that goes on gives its finished stages.

    - `rates`: validity and optimality by `set` (`validation` after a stage; `heldout_base`, whose `stage` is None, before
      training; `heldout_final` after it), `decoding` (`greedy`, `sampled`) and `dimension` with its `value` (`all`; `size`;
      `num_agents`; `wait_required`: `required` or `free`); `n` completions.
    - `failures`: of the same completions, how many ended in each outcome, valid ones and those that did not occur included.
    - `signal`: GRPO groups of the stage's training by size and for `all`, and how many had mixed outcomes.
    - `knobs`: what the stage trained on.
    - `steps`: metrics.jsonl; `step` counts from 1 in each stage, `global_step` over the run.
    - `patches`: a row for every knob that changed after the stage, or one with `path` None when the config was kept; `evidence`
      holds ids of tool results, joined by ", ".
    - `budget`: what the stage spent; see `envwright.training.compare.budget`.
    - `calibration`: what `simulate_config` predicted after the stage and what came; see `envwright.training.compare.calibration`.

    Raises:
        UserError: a file of the run is missing or damaged.
    """
    settings = store.settings()
    tables: dict[str, list[Row]] = {name: [] for name in COLUMNS}
    for name, part in _HELDOUT[:1]:
        _add_heldout(tables, store, name, part, None)
    finished = store.finished_stages()
    trained: list[list[Completion]] = []
    for number in range(finished):
        folder = store.stage(number)
        trained.append(read_completions(folder.path / "train_rollouts.jsonl"))
        _add_stage(tables, store, settings, number, folder, trained[-1])
        if number:
            tables["calibration"] += calibration_rows(store, settings, number - 1, trained[-1])
            trained[-2] = []
    if finished == settings.num_stages:
        for name, part in _HELDOUT[1:]:
            _add_heldout(tables, store, name, part, finished - 1)
    return {name: [{column: row.get(column) for column in columns} for row in tables[name]] for name, columns in COLUMNS.items()}


def _add_heldout(tables: dict[str, list[Row]], store: RunStore, name: str, part: str, stage: int | None) -> None:
    for decoding in ("greedy", "sampled"):
        path = store.heldout / f"{part}_{decoding}.jsonl"
        if path.is_file():
            _add_rates(tables, {"stage": stage, "set": name, "decoding": decoding}, read_completions(path))


def _add_stage(
    tables: dict[str, list[Row]], store: RunStore, settings: RunSettings, number: int, folder: StageFolder, trained: Sequence[Completion]
) -> None:
    for decoding, name in (("greedy", "validation_greedy"), ("sampled", "validation")):
        path = folder.path / f"{name}.jsonl"
        if path.is_file():
            _add_rates(tables, {"stage": number, "set": "validation", "decoding": decoding}, read_completions(path))
    tables["signal"] += _signal_rows(number, trained, settings.grpo.num_generations)
    for bucket, knobs in folder.config().buckets():
        tables["knobs"] += [{"stage": number, "size": bucket, "knob": knob, "value": getattr(knobs, knob)} for knob in KNOBS]
    for _, line in read_json_lines(folder.path / "metrics.jsonl"):
        tables["steps"].append({"stage": number, "global_step": number * settings.steps_per_stage + line["step"], **line})
    tables["patches"] += _patch_rows(number, settings, folder)
    tables["budget"].append({"stage": number, **stage_budget(store, settings, number, trained)})


def _add_rates(tables: dict[str, list[Row]], where: Row, completions: Sequence[Completion]) -> None:
    for dimension in DIMENSIONS:
        for value, group in by_dimension(completions, dimension).items():
            tally = tally_of(count_outcomes(group))
            rates: Row = {}
            for metric, interval in (("valid", tally.valid), ("optimal", tally.optimal)):
                rates |= {metric: interval.rate, f"{metric}_low": interval.low, f"{metric}_high": interval.high}
            tables["rates"].append({**where, "dimension": dimension, "value": value, "n": tally.n, **rates})
    counts = count_outcomes(completions)
    for outcome in Outcome:
        tables["failures"].append(
            {**where, "outcome": outcome.value, "count": counts[outcome], "share": counts[outcome] / max(1, len(completions))}
        )


def _signal_rows(stage: int, trained: Sequence[Completion], num_generations: int) -> Iterator[Row]:
    groups: dict[str, list[bool]] = {"all": []}
    for completion, valid in validity_groups(trained, num_generations):
        is_mixed = 0 < valid < num_generations
        groups["all"].append(is_mixed)
        groups.setdefault(completion.size, []).append(is_mixed)
    for size in sorted(groups, key=lambda size: (size == "all", len(size), size)):
        mixed, n = sum(groups[size]), len(groups[size])
        yield {"stage": stage, "size": size, "groups": n, "mixed": mixed, "share": mixed / n if n else None}


def _patch_rows(stage: int, settings: RunSettings, folder: StageFolder) -> Iterator[Row]:
    outcome, patch, config = folder.outcome(), folder.patch(), folder.config()
    reason = str(outcome["stop_reason"])
    common = {
        "stage": stage,
        "engineer": "gate" if reason == "gate" else settings.engineer,
        "stop_reason": reason,
        "note": outcome.get("note"),
    }
    if patch is None:
        yield common
        return
    edits = {edit.path: edit for edit in patch.edits}
    for change in diff_configs(config, apply_patch(config, patch)):
        edit = edits.get(change.path)
        words = {"reason": "scaled so that the shares sum to 1", "evidence": ""}
        if edit is not None:
            words = {"reason": edit.reason, "evidence": ", ".join(edit.evidence)}
        yield {**common, "path": change.path, "before": change.before, "after": change.after, **words}
