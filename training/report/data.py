"""What a page tells of a run, read from its folder: the tables of `run_tables`, and held-out boards before against after."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from envwright.env.errors import UserError
from envwright.env.jsonio import read_json
from envwright.env.statistics import wilson
from envwright.training.compare.completions import DIMENSIONS, Completion, read_completions
from envwright.training.compare.statistics import board_means, bootstrap_means, difference_of
from envwright.training.compare.tables import Row, run_tables
from envwright.training.runstore import RunStore
from envwright.training.settings import PRESETS, RunSettings, load_settings

__all__ = ["HeldoutRow", "RunData", "command_text", "pick", "run_command"]

_DECODINGS = ("greedy", "sampled")
_METRICS = ("valid", "optimal")


@dataclass(frozen=True, slots=True)
class HeldoutRow:
    """One line of the headline table: a rate on held-out boards before and after training."""

    decoding: str
    metric: str
    dimension: str
    value: str
    boards: int | None
    before: tuple[float, float | None, float | None]
    """Rate and its 95 % Wilson interval."""
    after: tuple[float, float | None, float | None] | None
    """The same after the last stage; None while the run goes on."""
    change: tuple[float, float | None, float | None] | None
    """Difference with its 95 % interval, from a bootstrap over boards that pairs before and after; no interval without the boards."""


class RunData:
    """A run's folder as its page needs it.

    Raises:
        UserError: there is no run, or a file of it is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.store = RunStore.open(path)
        self.settings: RunSettings = self.store.settings()
        self.finished = self.store.finished_stages()
        self.tables: dict[str, list[Row]] = run_tables(self.store)
        raw = read_json(path / "run.json")
        self.versions: dict[str, str] = raw.get("versions", {})
        self.command: str = command_text(raw["command"]) if raw.get("command") else run_command(self.settings)

    @property
    def sizes(self) -> list[str]:
        """Map sizes of the evaluation, in order."""
        return list(self.settings.evaluation.config.sizes)

    @property
    def whole(self) -> bool:
        """True when every stage is finished."""
        return self.finished == self.settings.num_stages

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """summary.json, None while there is none."""
        path = self.store.path / "summary.json"
        value: dict[str, Any] | None = read_json(path) if path.is_file() else None
        return value

    def rates(self, **where: Any) -> list[Row]:
        """Rows of the table `rates` that match."""
        return pick(self.tables["rates"], **where)

    @cached_property
    def heldout(self) -> list[HeldoutRow]:
        """The headline table: everything, then by size, wait label and number of agents; from summary.json where boards were not kept."""
        files = {
            (part, decoding): self.store.path / "heldout" / f"{part}_{decoding}.jsonl"
            for part in ("base", "final")
            for decoding in _DECODINGS
        }
        if not all(files["base", decoding].is_file() for decoding in _DECODINGS):
            return self._heldout_of_summary()
        final = self.whole and all(files["final", decoding].is_file() for decoding in _DECODINGS)
        parts = ("base", "final") if final else ("base",)
        sampled = {(part, decoding): read_completions(files[part, decoding]) for part in parts for decoding in _DECODINGS}
        return [row for dimension in DIMENSIONS for row in self._heldout_rows(sampled, dimension)]

    def _heldout_rows(self, completions: dict[tuple[str, str], list[Completion]], dimension: str) -> Iterator[HeldoutRow]:
        value_of = DIMENSIONS[dimension]
        values = sorted({value_of(completion) for completion in completions["base", "greedy"]}, key=lambda value: (len(value), value))
        for value in values if dimension == "all" or len(values) > 1 else ():
            chosen = {key: [completion for completion in of_key if value_of(completion) == value] for key, of_key in completions.items()}
            yield from self._of_subset(chosen, dimension, value)

    def _of_subset(self, chosen: dict[tuple[str, str], list[Completion]], dimension: str, value: str) -> Iterator[HeldoutRow]:
        """Yield the rows of one subset; all rates are resampled together, so that before and after stay paired."""
        samples = {"greedy": 1, "sampled": self.settings.evaluation.samples}
        keys = [(part, decoding, metric) for part, decoding in chosen for metric in _METRICS]
        good = {key: [_good(completion, key[2]) for completion in chosen[key[0], key[1]]] for key in keys}
        means = {key: board_means(good[key], samples[key[1]]) for key in keys}
        boards = len(next(iter(means.values())))
        final = ("final", "greedy") in chosen
        replicates = bootstrap_means(np.stack([means[key] for key in keys])[:, None, :]) if final else None
        for decoding in _DECODINGS:
            for metric in _METRICS:
                rates = {
                    part: wilson(sum(good[part, decoding, metric]), len(good[part, decoding, metric]))
                    for part, d in chosen
                    if d == decoding
                }
                after = change = None
                if replicates is not None:
                    one, two = ("final", decoding, metric), ("base", decoding, metric)
                    found = difference_of(means[one], means[two], replicates[:, keys.index(one)], replicates[:, keys.index(two)])
                    after = _triple(rates["final"])
                    change = (found.difference, found.low, found.high)
                yield HeldoutRow(decoding, metric, dimension, value, boards, _triple(rates["base"]), after, change)

    def _heldout_of_summary(self) -> list[HeldoutRow]:
        """Rates of summary.json, without intervals: a run of an older version kept no held-out completions."""
        rows: list[HeldoutRow] = []
        for decoding in _DECODINGS if self.summary is not None else ():
            for metric in _METRICS:
                before, after = (float(self.summary[part][decoding][metric]) for part in ("base", "final"))  # type: ignore[index]
                rows.append(
                    HeldoutRow(
                        decoding, metric, "all", "all", None, (before, None, None), (after, None, None), (after - before, None, None)
                    )
                )
        return rows


def pick(rows: Sequence[Row], **where: Any) -> list[Row]:
    """Return the rows whose columns have the values."""
    return [row for row in rows if all(row.get(column) == value for column, value in where.items())]


def _good(completion: Completion, metric: str) -> bool:
    return completion.outcome.valid if metric == "valid" else completion.outcome.value == "optimal"


def _triple(interval: Any) -> tuple[float, float, float]:
    return interval.rate or 0.0, interval.low, interval.high


def run_command(settings: RunSettings) -> str:
    """Return a command that gives a run with these settings: the nearest preset and what differs from it."""
    now = _flat(settings.to_json())
    found: list[tuple[int, str, list[str]]] = []
    for path in sorted(PRESETS.glob("*.json")):
        try:
            before = _flat(load_settings(path.stem, []).to_json())
        except UserError:
            continue
        differ = [key for key in now if now[key] != before.get(key) and key != "description"]
        found.append((len(differ) + len(before.keys() - now.keys()), path.stem, differ))
    _, preset, differ = min(found)
    words = ["envwright", "run", preset]
    for key in differ:
        value = now[key] if isinstance(now[key], str) else _json(now[key])
        words += ["--engineer", value] if key == "engineer" else ["--set", f"{key}={value}"]
    return command_text(words)


def command_text(words: Sequence[str]) -> str:
    """Return a command as a shell takes it, each option on a line of its own."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(word)
    return " \\\n  ".join(shlex.join(line) for line in lines)


def _json(value: Any) -> str:
    from envwright.env.jsonio import dump_json

    return dump_json(value)


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value, down to what `--set` takes."""
    if isinstance(value, dict):
        return {key: leaf for name, item in value.items() for key, leaf in _flat(item, f"{prefix}.{name}" if prefix else str(name)).items()}
    return {prefix: value}
