"""Killed with SIGKILL at random moments and resumed, does a run end with the bytes of an unbroken one?

    .venv/bin/python experiments/kill_resume.py --kills 20 --seed 0

Runs a small pocket run once without interruption. Then, per trial, starts the same run, kills its process group after a
random share of the unbroken time (set-up included), resumes it, and compares every file but those with wall-clock times.
Writes `experiments/kill_resume.json`; exits with 1 when a byte differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SETTINGS = [
    "num_stages=2",
    "steps_per_stage=6",
    "grpo.save_steps=2",
    "grpo.per_device_train_batch_size=128",
    "grpo.max_completion_length=24",
    "evaluation.validation_instances=40",
    "evaluation.heldout_instances=40",
    "evaluation.samples=2",
    "threads=1",
]
TIMED = {"events.jsonl", "summary.json"}


def command(folder: Path, *more: str) -> list[str]:
    """Return the command line of the run."""
    overrides = [part for setting in SETTINGS for part in ("--set", setting)]
    return [sys.executable, "-m", "envwright.training.cli", "run", "demo", "--engineer", "rule", *overrides, "--out", str(folder), *more]


def digest(folder: Path) -> str:
    """Return the SHA-256 over the names and bytes of the run's files."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in TIMED:
            total.update(f"{path.relative_to(folder)}\0".encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def killed_run(folder: Path, seconds: float) -> str:
    """Start the run, kill it after some seconds, and say how far it was."""
    process = subprocess.Popen(command(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if not (folder / "run.json").is_file():
        return "before the run folder"
    done = len(list(folder.glob("stages/*/DONE")))
    saved = sorted(path.stem for path in folder.glob(f"stages/{done:02d}/progress/*.state"))
    return f"{done} stages done" + (f", step {int(saved[-1])} of the next saved" if saved else "")


def main() -> int:
    """Run the trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    trials = []
    with tempfile.TemporaryDirectory() as scratch:
        begin = time.monotonic()
        subprocess.run(command(Path(scratch) / "whole"), check=True, stdout=subprocess.DEVNULL)
        whole, expected = time.monotonic() - begin, digest(Path(scratch) / "whole")
        for number in range(arguments.kills):
            folder = Path(scratch) / f"trial-{number}"
            seconds = rng.uniform(0.05, 1.0) * whole
            where = killed_run(folder, seconds)
            resume = ["--resume"] if (folder / "run.json").is_file() else []
            done = subprocess.run(command(folder, *resume), capture_output=True, text=True, check=False)
            same = done.returncode == 0 and digest(folder) == expected
            trials.append({"killed_after_s": round(seconds, 1), "where": where, "same_bytes": same})
            print(
                f"kill {number + 1:>2} after {seconds:5.1f} s ({where}): {'same bytes' if same else 'DIFFERENT ' + done.stderr[-300:]}",
                flush=True,
            )
            shutil.rmtree(folder)
    same = sum(trial["same_bytes"] for trial in trials)
    result = {"settings": SETTINGS, "digest": expected, "unbroken_s": round(whole, 1), "same_bytes": same, "trials": trials}
    (HERE / "kill_resume.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{same} of {len(trials)} resumed runs have the bytes of the unbroken one")
    return 0 if same == len(trials) else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    sys.exit(main())
