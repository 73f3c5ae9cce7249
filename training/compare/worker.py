"""One piece of a comparison's work, done in a process of its own: a shared first stage, or a run.

The process ends at once when the one that started it is gone, so that a killed comparison leaves nothing that still writes to its
folder. It may end at any moment: a run folder continues from what is whole.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from envwright.env.errors import JobFailedError, UserError
from envwright.env.jsonio import read_json
from envwright.training.runstore import RunStore
from envwright.training.settings import RunSettings

__all__ = ["PRELOADED", "Unit", "carry_out", "run_unit"]

PRELOADED = ["envwright.training.stages"]
"""What every unit imports, loaded once where processes can be forked from one that has it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of work."""

    name: str
    """Name for lines and the log file."""
    folder: Path
    """The run folder that it fills."""
    settings: RunSettings
    """The run's settings."""
    source: Path | None = None
    """Run whose first stage is taken over; None for a run of its own."""
    is_shared: bool = False
    """Whether it is the first stage alone, for others to go on from."""

    @property
    def begun(self) -> bool:
        """True when there is something to go on from."""
        return (self.folder / ("run.json" if self.source is None else "stages/00")).exists()

    @property
    def done(self) -> bool:
        """True when nothing is left to do."""
        if self.is_shared:
            return RunStore(self.folder).stage(0).trained
        summary = self.folder / "summary.json"
        return summary.is_file() and read_json(summary).get("status") == "done"


def run_unit(unit: Unit, log: Path, alive: Connection) -> None:
    """Do a unit's work; what a process is started with.

    Args:
        unit: the work.
        log: file that everything printed is added to.
        alive: reads nothing, and is closed from the other end when the starting process is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the starting process, which ends this one
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    with log.open("a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    try:
        carry_out(unit)
    except (UserError, JobFailedError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # noqa: T201
        code = 2 if isinstance(error, UserError) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nothing is left to tidy up, and the thread that waits for the other end must not be waited for


def carry_out(unit: Unit) -> None:
    """Start a unit's run, or continue it."""
    warnings.filterwarnings("ignore", module=r"(trl|transformers|torch|accelerate|datasets)\b")
    import transformers

    from envwright.training.policies.policy import run_policy
    from envwright.training.stages import run_stages
    from envwright.training.trl_config import check_passed_on
    from envwright.training.view.progress import Progress

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    check_passed_on(unit.settings.grpo)
    policy = run_policy(unit.settings)
    store = _open(unit, policy.provenance())
    progress = Progress(lambda line: print(line, flush=True))  # noqa: T201
    run_stages(store, unit.settings, progress, policy=policy, stop_before_engineer=0 if unit.is_shared else None)


def _open(unit: Unit, policy: dict[str, Any]) -> RunStore:
    """Create, branch or resume the run folder."""
    if unit.source is not None and not unit.begun:
        shutil.rmtree(unit.folder, ignore_errors=True)  # what is left of taking over a first stage that was broken off
        store = RunStore.branch(RunStore.open(unit.source), unit.folder, unit.settings)
    elif (unit.folder / "run.json").is_file():
        store = RunStore.resume(unit.folder, unit.settings)
    else:
        store = RunStore.create(unit.folder, unit.settings, policy)
    if unit.source is not None:
        _note_time(store, RunStore(unit.source))
    return store


def _note_time(store: RunStore, source: RunStore) -> None:
    """Write into the events how long the first stage took that was taken over, once."""
    if _trained_in(store) is None and (seconds := _trained_in(source)) is not None:
        store.event("stage_trained", stage=0, seconds=seconds, shared=True)


def _trained_in(store: RunStore) -> float | None:
    found = None
    for event in store.events():
        if event["event"] == "stage_trained" and event["stage"] == 0:
            found = float(event["seconds"])
    return found


def _end_with(alive: Connection) -> None:
    try:
        alive.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
