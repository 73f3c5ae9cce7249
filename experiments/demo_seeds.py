"""Does the demo's policy really learn? The demo for several seeds, its held-out gains, and the bar that they must pass.

    .venv/bin/python experiments/demo_seeds.py --engineer rule --seeds 0 1 2

Runs `envwright run demo` once per seed, one after the other, and writes `experiments/demo_seeds/<engineer>.json`: the
settings' digest, versions, base and final rates, every stage's knobs, rates, patch and seconds, and peak memory. Exits
with 1 when a seed gains less than 10 points sampled or 6 points greedy in held-out valid rate.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MIN_SAMPLED, MIN_GREEDY = 0.10, 0.06


def run_seed(engineer: str, seed: int, preset: str, overrides: list[str], keep: Path | None) -> dict[str, Any]:
    """Run one seed in a process of its own and return what it reached."""
    out = (keep or HERE / "runs") / f"{preset}-{engineer.replace(':', '-')}-seed{seed}"
    shutil.rmtree(out, ignore_errors=True)
    command = [
        str(Path(sys.executable).with_name("envwright")),
        "run",
        preset,
        "--engineer",
        engineer,
        "--set",
        f"seed={seed}",
        "--out",
        str(out),
    ]
    for override in overrides:
        command += ["--set", override]
    begin = time.monotonic()
    subprocess.run(command, check=True)
    seconds = time.monotonic() - begin
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    versions = json.loads((out / "run.json").read_text(encoding="utf-8"))["versions"]
    if keep is None:
        shutil.rmtree(out)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {**summary, "wall_seconds": round(seconds, 1), "peak_memory_mb": round(peak), "versions": versions}


def main() -> int:
    """Run the seeds, write the results, judge the gains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engineer", default="rule")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--preset", default="demo")
    parser.add_argument("--set", action="append", default=[], dest="overrides")
    parser.add_argument("--keep", type=Path, help="folder to keep the run folders in")
    parser.add_argument("--out", type=Path, help="result file")
    arguments = parser.parse_args()
    out = arguments.out or HERE / "demo_seeds" / f"{arguments.engineer.replace(':', '-')}.json"
    runs = []
    for seed in arguments.seeds:
        runs.append(run_seed(arguments.engineer, seed, arguments.preset, arguments.overrides, arguments.keep))
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(
            json.dumps({"engineer": arguments.engineer, "overrides": arguments.overrides, "runs": runs}, indent=1) + "\n", encoding="utf-8"
        )
    passed = True
    print(f"\n{'seed':<6}{'greedy valid':<28}{'sampled valid':<28}{'minutes':<9}peak MB")
    for run in runs:
        cells = []
        for decoding, bar in (("greedy", MIN_GREEDY), ("sampled", MIN_SAMPLED)):
            before, after = run["base"][decoding]["valid"], run["final"][decoding]["valid"]
            passed &= after - before >= bar
            cells.append(f"{100 * before:.1f} -> {100 * after:.1f} ({100 * (after - before):+.1f})")
        print(f"{run['seed']:<6}{cells[0]:<28}{cells[1]:<28}{run['wall_seconds'] / 60:<9.1f}{run['peak_memory_mb']}")
    print("every seed passes" if passed else "a seed falls short")
    return 0 if passed else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    sys.exit(main())
