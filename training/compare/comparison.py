"""The outcome of a comparison: comparison.json and the tables, made anew from the run folders whenever it is asked for.

Finished runs count, others are named. A difference between two arms is taken over the seeds that both have finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from envwright.env.errors import UserError
from envwright.env.jsonio import read_json, write_json
from envwright.env.rules import Outcome
from envwright.training.compare.budget import budget_flags, total_budget
from envwright.training.compare.completions import DIMENSIONS, Completion, read_completions
from envwright.training.compare.files import write_tables
from envwright.training.compare.statistics import Floats, board_means, bootstrap_means, difference_of, mean_of
from envwright.training.compare.tables import COLUMNS, Row, run_tables
from envwright.training.runstore import RunStore

__all__ = ["COMPARISON_COLUMNS", "build_comparison", "read_comparison"]

KINDS = tuple((decoding, metric) for decoding in ("greedy", "sampled") for metric in ("valid", "optimal"))
"""What is measured on every board: decoding and metric."""
_ARM_COLUMNS = ("arm", "seed")
HEADLINE = ("arm", "decoding", "metric", "subset", "rate", "low", "high", "boards", "seeds")
DIFFERENCES = ("arm", "against", "decoding", "metric", "subset", "difference", "low", "high", "probability_better", "boards", "seeds")
COMPARISON_COLUMNS: dict[str, tuple[str, ...]] = {
    **{name: (*_ARM_COLUMNS, *columns) for name, columns in COLUMNS.items()},
    "headline": HEADLINE,
    "differences": DIFFERENCES,
}
"""Table of a comparison -> its columns: those of every run after `arm` and `seed`, and two over all runs."""


def read_comparison(out: Path) -> dict[str, Any]:
    """Return the content of a comparison's comparison.json; a comparison that was broken off is put together from what it has.

    Raises:
        UserError: the folder holds no comparison, or a file is damaged.
    """
    if (out / "comparison.json").is_file():
        document: dict[str, Any] = read_json(out / "comparison.json")
        return document
    return build_comparison(out)


def build_comparison(out: Path, reasons: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Put a comparison's finished runs together, and write comparison.json and tables/.

    Args:
        out: the comparison's folder, with its compare.json.
        reasons: name of a run that failed (`ARM-seedN`) -> why.

    Returns:
        The content of comparison.json.

    Raises:
        UserError: the folder holds no comparison, a file is damaged, or a run was measured on other boards.
    """
    if not (out / "compare.json").is_file():
        raise UserError(f"{out}: no comparison here (no compare.json); give the folder that `envwright compare --out` wrote")
    plan = read_json(out / "compare.json")
    arms = [arm["name"] for arm in plan["arms"]]
    cells = [_cell(out, arm, seed, reasons or {}) for arm in arms for seed in plan["seeds"]]
    done = [cell for cell in cells if cell["status"] == "done"]
    tables = _joined_tables(out, done)
    _add_budgets(done, tables["budget"])
    measured = _Measured.read(out, done)
    headline = list(_headline(measured, arms))
    tables["headline"], tables["differences"] = headline, list(_differences(measured, arms, plan["baseline"]))
    document = {
        "schema_version": 1,
        "status": "done" if len(done) == len(cells) else "unfinished",
        "command": plan["command"],
        "versions": plan["versions"],
        "preset": plan["preset"],
        "baseline": plan["baseline"],
        "seeds": plan["seeds"],
        "arms": plan["arms"],
        "cells": cells,
        "base": list(_base(out, done)),
        "headline": [row for row in headline if row["subset"] == "all"],
        "differences": tables["differences"],
        "calibration": list(_calibration(tables["calibration"])),
        "unfinished": [f"{cell['arm']} seed {cell['seed']}: {cell['reason']}" for cell in cells if cell["status"] != "done"],
    }
    write_tables(out / "tables", tables, COMPARISON_COLUMNS)
    write_json(out / "comparison.json", document)
    return document


def _cell(out: Path, arm: str, seed: int, reasons: Mapping[str, str]) -> Row:
    """One run and how far it is."""
    run = f"runs/{arm}/seed{seed}"
    store, reason = RunStore(out / run), reasons.get(f"{arm}-seed{seed}")
    summary = store.path / "summary.json"
    if summary.is_file() and read_json(summary).get("status") == "done":
        return {"arm": arm, "seed": seed, "run": run, "status": "done", "reason": None, "budget": None, "flags": []}
    if reason is None:
        finished = store.finished_stages()
        reason = f"{finished} stages are done" if finished or store.path.is_dir() else "not begun"
    status = "failed" if f"{arm}-seed{seed}" in reasons else "unfinished"
    return {"arm": arm, "seed": seed, "run": run, "status": status, "reason": reason, "budget": None, "flags": []}


def _joined_tables(out: Path, cells: Sequence[Row]) -> dict[str, list[Row]]:
    tables: dict[str, list[Row]] = {name: [] for name in COLUMNS}
    for cell in cells:
        for name, rows in run_tables(RunStore.open(out / cell["run"])).items():
            tables[name] += [{"arm": cell["arm"], "seed": cell["seed"], **row} for row in rows]
    return tables


def _add_budgets(cells: Sequence[Row], stages: Sequence[Row]) -> None:
    """Give every run its total and its flags, held against the runs of its seed."""
    for cell in cells:
        own = [row for row in stages if (row["arm"], row["seed"]) == (cell["arm"], cell["seed"])]
        cell["budget"] = total_budget([{key: value for key, value in row.items() if key not in _ARM_COLUMNS} for row in own])
    for seed in {cell["seed"] for cell in cells}:
        of_seed = {cell["arm"]: cell for cell in cells if cell["seed"] == seed}
        for arm, flags in budget_flags({arm: cell["budget"] for arm, cell in of_seed.items()}).items():
            of_seed[arm]["flags"] = flags


class _Measured:
    """Held-out values of the finished runs, board by board.

    Args:
        boards: one completion per board, which tells the board's kind.
        values: `(arm, seed)` -> values, shape [KINDS, boards].
    """

    def __init__(self, boards: Sequence[Completion], values: Mapping[tuple[str, int], Floats]) -> None:
        self.boards, self.values = boards, values
        self._drawn: dict[tuple[tuple[int, ...], str], dict[str, tuple[Floats, Floats]]] = {}

    @classmethod
    def read(cls, out: Path, cells: Sequence[Row]) -> _Measured:
        boards: list[Completion] = []
        values = {}
        for cell in cells:
            own, measured = _board_values(RunStore(out / cell["run"]), "final")
            boards = boards or own
            if [board.board for board in own] != [board.board for board in boards]:
                raise UserError(f"{out / cell['run']}: measured on other boards than {cells[0]['run']}; make the comparison anew")
            values[cell["arm"], cell["seed"]] = measured
        return cls(boards, values)

    def seeds_of(self, arm: str) -> tuple[int, ...]:
        """Seeds that an arm has finished."""
        return tuple(sorted(seed for name, seed in self.values if name == arm))

    def subsets(self) -> dict[str, list[int]]:
        """Kinds of boards -> indices of their boards: all, per size, per wait label, and per number of agents where it varies."""
        found: dict[str, list[int]] = {}
        for dimension, value_of in DIMENSIONS.items():
            name = {"wait_required": "wait", "num_agents": "agents"}.get(dimension, dimension)
            for index, board in enumerate(self.boards):
                found.setdefault("all" if dimension == "all" else f"{name}={value_of(board)}", []).append(index)
        return {name: found[name] for name in found if not name.startswith("agents=") or len(found[name]) < len(self.boards)}

    def drawn(self, arms: Sequence[str], seeds: tuple[int, ...], subset: str) -> dict[str, tuple[Floats, Floats]]:
        """Values [KINDS, seeds, boards] and bootstrap replicates [replicates, KINDS] of every arm that has the seeds."""
        key = (seeds, subset)
        if key not in self._drawn:
            able = [arm for arm in arms if set(seeds) <= set(self.seeds_of(arm))]
            chosen = self.subsets()[subset]
            values = [np.stack([self.values[arm, seed] for seed in seeds], axis=1)[:, :, chosen] for arm in able]
            replicates = bootstrap_means(np.concatenate(values))
            parts = np.split(replicates, len(able), axis=1)
            self._drawn[key] = dict(zip(able, zip(values, parts, strict=True), strict=True))
        return self._drawn[key]


def _board_values(store: RunStore, part: str) -> tuple[list[Completion], Floats]:
    """The boards of a run's held-out rollouts, and per kind the share of each board's completions that count."""
    rows, boards = [], list[Completion]()
    for decoding in ("greedy", "sampled"):
        completions = read_completions(store.heldout / f"{part}_{decoding}.jsonl")
        boards = boards or completions
        samples = len(completions) // len(boards)
        if [completion.board for completion in completions] != [board.board for board in boards for _ in range(samples)]:
            raise UserError(f"{store.heldout / f'{part}_{decoding}.jsonl'}: not {samples} completions for every board; make the run again")
        rows.append(board_means([completion.outcome.valid for completion in completions], samples))
        rows.append(board_means([completion.outcome is Outcome.OPTIMAL for completion in completions], samples))
    return boards, np.stack(rows)


def _headline(measured: _Measured, arms: Sequence[str]) -> Iterator[Row]:
    for subset, boards in measured.subsets().items():
        for arm in arms:
            if not (seeds := measured.seeds_of(arm)):
                continue
            values, replicates = measured.drawn(arms, seeds, subset)[arm]
            for index, (decoding, metric) in enumerate(KINDS):
                mean = mean_of(values[index], replicates[:, index])
                about = {"arm": arm, "decoding": decoding, "metric": metric, "subset": subset}
                yield {**about, "rate": mean.rate, "low": mean.low, "high": mean.high, "boards": len(boards), "seeds": len(seeds)}


def _differences(measured: _Measured, arms: Sequence[str], baseline: str) -> Iterator[Row]:
    """Every pair once: against the baseline, else against the arm that was named first."""
    ordered = [baseline, *(arm for arm in arms if arm != baseline)]
    for against, arm in combinations(ordered, 2):
        seeds = tuple(sorted(set(measured.seeds_of(arm)) & set(measured.seeds_of(against))))
        for subset, boards in measured.subsets().items() if seeds else ():
            drawn = measured.drawn(arms, seeds, subset)
            (values, replicates), (other, other_replicates) = drawn[arm], drawn[against]
            for index, (decoding, metric) in enumerate(KINDS):
                found = difference_of(values[index], other[index], replicates[:, index], other_replicates[:, index])
                yield {
                    "arm": arm,
                    "against": against,
                    "decoding": decoding,
                    "metric": metric,
                    "subset": subset,
                    "difference": found.difference,
                    "low": found.low,
                    "high": found.high,
                    "probability_better": found.probability_better,
                    "boards": len(boards),
                    "seeds": len(seeds),
                }


def _base(out: Path, cells: Sequence[Row]) -> Iterator[Row]:
    """The policies before training: a row per policy, decoding and metric, over the seeds of the first arm that starts from it."""
    by_policy: dict[str, dict[str, list[Row]]] = {}
    for cell in cells:
        policy = RunStore(out / cell["run"]).settings().policy
        by_policy.setdefault(policy, {}).setdefault(cell["arm"], []).append(cell)
    for policy, by_arm in by_policy.items():
        runs = next(iter(by_arm.values()))
        values = np.stack([_board_values(RunStore(out / cell["run"]), "base")[1] for cell in runs], axis=1)
        replicates = bootstrap_means(values)
        for index, (decoding, metric) in enumerate(KINDS):
            mean = mean_of(values[index], replicates[:, index])
            about = {"policy": policy, "decoding": decoding, "metric": metric}
            yield {**about, "rate": mean.rate, "low": mean.low, "high": mean.high, "boards": values.shape[2], "seeds": len(runs)}


def _calibration(rows: Sequence[Row]) -> Iterator[Row]:
    """Errors of `simulate_config` per arm and per what they were measured on, over all sizes and stages."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["size"] != "all":
            groups.setdefault((row["arm"], row["measured_on"]), []).append(row["error"])
    for (arm, measured_on), errors in groups.items():
        yield {
            "arm": arm,
            "measured_on": measured_on,
            "predictions": len(errors),
            "mean_error": round(sum(errors) / len(errors), 6),
            "mean_absolute_error": round(sum(map(abs, errors)) / len(errors), 6),
        }
