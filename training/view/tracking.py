"""Trackers: a run's figures in TensorBoard, trackio or Weights & Biases, through accelerate's own trackers.

A run is one run there, over all of its stages. Steps are the run's optimizer steps: those of a warm start, then those of every
stage. A resumed run goes on in the same one. metrics.jsonl stays the record; trackers get the same figures and, besides, times
and rates.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envwright.env.config import KNOBS, GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, read_json, write_json
from envwright.env.summary import RolloutSummary, Tally
from envwright.training.settings import RunSettings

if TYPE_CHECKING:
    from envwright.training.grpo import StepReport
    from envwright.training.warm_start import WarmStep

__all__ = ["TRACKERS", "Tracking", "check_trackers"]

TRACKERS = ("tensorboard", "trackio", "wandb")
"""Trackers that `report_to` may name; each needs the package of its name."""
_PROJECT = "envwright"


def check_trackers(names: Sequence[str]) -> None:
    """Refuse trackers that cannot work here, before any work is done.

    Raises:
        UserError: an unknown tracker, one whose package is missing, or one that would ask for a login.
    """
    for name in names:
        if name not in TRACKERS:
            raise UserError(f"report_to: {name!r} is no tracker; those are {', '.join(TRACKERS)}")
        if importlib.util.find_spec(name) is None:
            raise UserError(f"report_to {name} needs {name!r}, which is not installed: pip install {name}, or take it out of report_to")
    asks = "wandb" in names and "WANDB_MODE" not in os.environ
    if asks and not importlib.import_module("wandb").login(prompt=False, verify=False):
        raise UserError("report_to wandb: nobody is logged in: run `wandb login`, or set WANDB_MODE=offline")


class Tracking:
    """Hands a run's figures to trackers; `envwright.training.progress.Progress` calls it, one method per event.

    Args:
        names: trackers, as in `report_to`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        check_trackers(names)
        self._names = tuple(names)
        self._trackers: list[Any] | None = None
        self._waiting: list[tuple[dict[str, Any], int]] = []
        self._stage_start = self._first = self._step = 0
        self._goes_on = False

    def begin(self, settings: RunSettings, folder: Path) -> None:
        """A run starts, or goes on when the folder says that it was tracked before."""
        self._settings, self._folder = settings, folder / "tracking"
        record = self._folder / "run.json"
        self._warm_steps = 0 if settings.warm_start is None else settings.warm_start.max_steps
        self._goes_on = record.is_file()
        if not self._goes_on:
            write_json(record, {"project": _PROJECT, "name": folder.resolve().name, "id": uuid.uuid4().hex[:12]})
        self._run = read_json(record)

    def warm_step(self, step: WarmStep) -> None:
        """An optimizer step of the warm start is done."""
        self._first = self._first or step.step
        self._step = step.step
        self._log({f"warm_start/{key}": value for key, value in _numbers(step).items()}, self._step)

    def stage(self, number: int, config: GeneratorConfig) -> None:
        """A stage begins: its knobs."""
        self._stage_start = self._step = self._warm_steps + number * self._settings.steps_per_stage
        self._first = self._stage_start + 1
        knobs = {f"knobs/{bucket}x{bucket}/{knob}": getattr(values, knob) for bucket, values in config.buckets() for knob in KNOBS}
        self._waiting.append(({"stage": number, **knobs}, self._first))

    def resumed(self, step: int) -> None:
        """The stage goes on after one of its steps."""
        self._step = self._stage_start + step
        self._first = self._step + 1
        last = self._stage_start + self._settings.steps_per_stage
        self._waiting = [(values, min(max(at, self._first), last)) for values, at in self._waiting]

    def step(self, report: StepReport, tokens_per_second: float) -> None:
        """An optimizer step is done."""
        self._step = self._stage_start + report.step
        figures = {**_numbers(report), "tokens_per_second": tokens_per_second}
        self._log({f"train/{key}": value for key, value in figures.items()}, self._step)

    def validated(self, greedy: RolloutSummary, sampled: RolloutSummary) -> None:
        """A stage is validated: rates over all boards and per size, at the stage's last step."""
        self._log(_rates("validation", greedy, sampled), self._step)

    def finish(
        self, base_greedy: RolloutSummary, base_sampled: RolloutSummary, final_greedy: RolloutSummary, final_sampled: RolloutSummary
    ) -> None:
        """The run is done: held-out rates before and after, at its last step."""
        last = self._warm_steps + self._settings.num_stages * self._settings.steps_per_stage
        self._log({**_rates("heldout_before", base_greedy, base_sampled), **_rates("heldout", final_greedy, final_sampled)}, last)

    def close(self) -> None:
        """Hand over what is left, and end."""
        for tracker in self._trackers or ():
            tracker.finish()
        self._trackers = None

    def _log(self, values: dict[str, Any], step: int) -> None:
        """Log what waited, and some values at a step of the run."""
        if self._trackers is None:
            self._trackers = [self._started(name) for name in self._names]
        for waiting, at in [*self._waiting, (values, step)]:
            for tracker in self._trackers:
                tracker.log(waiting, step=at)
        self._waiting = []

    def _started(self, name: str) -> Any:
        """Return a tracker that goes on where the run does.

        It starts with the first figures and not before: accelerate's trackers need accelerate's state, which is the trainer's to make.
        """
        from accelerate import PartialState
        from accelerate.tracking import TensorBoardTracker, TrackioTracker, WandBTracker

        if not PartialState._shared_state:  # a run that was trained before: no trainer comes any more
            PartialState()
        settings, resume = self._settings.to_json(), "allow" if self._goes_on else "never"
        match name:
            case "tensorboard":
                repeats = self._goes_on and self._step >= self._first  # steps that a killed run had taken beyond its checkpoint
                purge = {"purge_step": self._first} if repeats else {}
                tracker = TensorBoardTracker("tensorboard", str(self._folder), **purge)
            case "trackio":
                run = f"{self._run['name']}-{self._run['id']}"
                tracker = TrackioTracker(self._run["project"], name=run, config=settings, resume=resume, embed=False)
            case _:
                identity = {"name": self._run["name"], "id": self._run["id"], "resume": "allow", "dir": str(self._folder)}
                tracker = WandBTracker(self._run["project"], config=settings, **identity)
        tracker.main_process_only = False  # Tracking itself exists in the main process alone
        tracker.start()
        if name == "tensorboard" and not self._goes_on:
            tracker.log({"settings": f"```json\n{dump_json(settings, indent=2)}\n```"}, step=0)
        return tracker


def _numbers(report: StepReport | WarmStep) -> dict[str, float]:
    """Return the figures of a step, without its number."""
    return {key: value for key, value in asdict(report).items() if key != "step" and isinstance(value, int | float)}


def _rates(what: str, greedy: RolloutSummary, sampled: RolloutSummary) -> dict[str, float]:
    """Return valid and optimal rates, overall and per size; `greedy_` before those of greedy decoding."""
    tallies: list[tuple[str, Tally, str]] = []
    for prefix, summary in (("", sampled), ("greedy_", greedy)):
        tallies.append((prefix, summary, ""))
        tallies += [(prefix, tally, f"/{bucket}x{bucket}") for bucket, tally in summary.by_size.items()]
    return {
        f"{what}/{prefix}{name}{size}": interval.rate or 0.0
        for prefix, tally, size in tallies
        for name, interval in (("valid", tally.valid), ("optimal", tally.optimal))
    }
