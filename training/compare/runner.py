"""Does a comparison's work: first stages that are shared, then the runs, several processes at a time.

What is finished is skipped, what was begun goes on, and what fails stops nothing else. The order is seed by seed; a run waits
for nothing but its own first stage, so that all processes are busy until the last runs.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from envwright.env.jsonio import read_json, read_text
from envwright.training.compare.plan import Plan, first_stage
from envwright.training.compare.worker import PRELOADED, Unit, run_unit

__all__ = ["run_units", "units_of"]

Say = Callable[[str], None]


@dataclass(slots=True)
class _Running:
    """A process at work."""

    unit: Unit
    process: BaseProcess
    alive: Connection
    begin: float = field(default_factory=time.monotonic)


def units_of(plan: Plan, out: Path) -> list[Unit]:
    """Return a plan's work in order: seed by seed, the first stages before the runs. A first stage that no run needs is left out."""
    return [unit for seed in plan.seeds for unit in _units_of_seed(plan, out, seed)]


def _units_of_seed(plan: Plan, out: Path, seed: int) -> Iterator[Unit]:
    runs = []
    for cell in plan.cells:
        if cell.seed == seed:
            runs.append(Unit(cell.name, out / cell.run, cell.settings, out / cell.shared if cell.shared else None))
    firsts = {run.source: first_stage(run.settings) for run in runs if run.source is not None and not run.begun}
    for folder, settings in firsts.items():
        yield Unit(f"first-stage-{folder.name}", folder, settings, is_shared=True)
    yield from runs


def run_units(units: Sequence[Unit], logs: Path, jobs: int, say: Say) -> dict[str, str]:
    """Carry out all units that are not done.

    Args:
        units: the work, see `units_of`.
        logs: folder of their log files.
        jobs: processes at a time.
        say: told what begins and ends.

    Returns:
        Name of each unit that failed, or whose first stage did -> why, from the log's last line.

    Raises:
        KeyboardInterrupt: the processes are ended first; every folder can be continued.
    """
    waiting = [unit for unit in units if not unit.done]
    if len(waiting) < len(units):
        say(f"{len(units) - len(waiting)} of {len(units)} pieces of work are done already")
    if not waiting:
        return {}
    logs.mkdir(parents=True, exist_ok=True)
    return _Runner(waiting, logs, jobs, say).run()


class _Runner:
    """The processes of a comparison, and what is left for them."""

    def __init__(self, waiting: list[Unit], logs: Path, jobs: int, say: Say) -> None:
        self.waiting, self.logs, self.jobs, self.say = waiting, logs, jobs, say
        self.context = _context()
        self.running: list[_Running] = []
        self.failed: dict[str, str] = {}
        self.ended, self.seconds = 0, 0.0

    def run(self) -> dict[str, str]:
        """Keep all processes busy until nothing is left."""
        begin = time.monotonic()
        try:
            while self.waiting or self.running:
                while len(self.running) < self.jobs and (unit := self._ready()) is not None:
                    self._start(unit)
                wait([entry.process.sentinel for entry in self.running])
                for entry in [entry for entry in self.running if not entry.process.is_alive()]:
                    self._end(entry)
        finally:
            for entry in self.running:
                entry.process.kill()
                entry.process.join()
        elapsed = time.monotonic() - begin
        self.say(f"   {self.ended} pieces of work in {elapsed:.0f} s; their own times add up to {self.seconds:.0f} s")
        return self.failed

    def _ready(self) -> Unit | None:
        """The first unit that waits for no other."""
        ahead = {unit.folder for unit in self.waiting} | {entry.unit.folder for entry in self.running}
        return next((unit for unit in self.waiting if unit.source not in ahead), None)

    def _start(self, unit: Unit) -> None:
        self.waiting.remove(unit)
        self.say(f"   {unit.name} {'goes on' if unit.begun else 'begins'}")
        reader, writer = self.context.Pipe(duplex=False)
        process = self.context.Process(target=run_unit, args=(unit, self._log(unit), reader), name=unit.name)
        process.start()
        reader.close()
        self.running.append(_Running(unit, process, writer))

    def _end(self, entry: _Running) -> None:
        """Say what became of a process, and of the runs that waited for it."""
        unit, seconds = entry.unit, time.monotonic() - entry.begin
        self.running.remove(entry)
        entry.process.join()
        self.ended, self.seconds = self.ended + 1, self.seconds + seconds
        if entry.process.exitcode == 0 and unit.done:
            self.say(f"   {unit.name} done in {seconds:.0f} s{_result(unit)}; {self._left()}")
            return
        self.failed[unit.name] = self._reason(entry)
        self.say(f"   {unit.name} FAILED after {seconds:.0f} s: {self.failed[unit.name]}")
        for blocked in [other for other in self.waiting if other.source == unit.folder]:
            self.waiting.remove(blocked)
            self.failed[blocked.name] = f"its first stage failed: {self.failed[unit.name]}"

    def _reason(self, entry: _Running) -> str:
        log, code = self._log(entry.unit), entry.process.exitcode
        lines = [line.strip() for line in read_text(log).splitlines() if line.strip()] if log.is_file() else []
        last = lines[-1] if lines else f"ended with exit code {code} and wrote nothing"
        return f"killed by signal {-code}, after: {last}" if code is not None and code < 0 else last

    def _left(self) -> str:
        """A guess at how long the rest takes, from what has ended."""
        left = len(self.waiting) + len(self.running)
        minutes = left * self.seconds / self.ended / min(self.jobs, max(left, 1)) / 60
        return f"{left} left, about {minutes:.0f} min" if left else "none left"

    def _log(self, unit: Unit) -> Path:
        return self.logs / f"{unit.name}.log"


def _context() -> ForkServerContext | SpawnContext:
    """Processes that begin with everything imported where the system can fork, and with nothing elsewhere."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def _result(unit: Unit) -> str:
    if unit.is_shared:
        return ""
    summary = read_json(unit.folder / "summary.json")
    before, after = (100 * summary[part]["greedy"]["valid"] for part in ("base", "final"))
    return f": held-out valid {before:.1f} % -> {after:.1f} % greedy"
