"""The command `compare`: arms at equal budget, paired by seed, with error bars."""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import sys
from collections.abc import Callable
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envwright import __version__
from envwright.env.errors import MissingExtraError, UserError
from envwright.env.jsonio import dump_json, read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.training.compare.plan import Plan

__all__ = ["compare"]

_PACKAGES = ("numpy", "torch", "transformers", "trl")


def compare(arguments: argparse.Namespace) -> int:
    """`envwright compare`"""
    if arguments.from_evidence:
        from envwright.training.from_evidence import run

        return run(arguments)
    from envwright.training.compare.plan import Plan, arms_of, parse_seeds

    if arguments.settings is None or arguments.seeds is None:
        raise UserError("give a preset or a settings file, and --seeds 0,1,2; or --from-evidence DIR with recorded runs")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise UserError(f"--jobs must be at least 1, got {arguments.jobs}")
    overrides = list(arguments.overrides)
    if arguments.threads is not None:
        overrides.append(f"threads={arguments.threads}")
    arms, seeds = arms_of(arguments.engineers, arguments.arms), parse_seeds(arguments.seeds)
    plan = Plan(arguments.settings, arms, seeds, overrides, arguments.baseline)
    _check_arms(plan)
    jobs = arguments.jobs or max(1, _cores() // max(cell.settings.threads for cell in plan.cells))
    document = {**plan.to_json(), "command": _command(arguments), "versions": _versions()}
    say = _say_on(sys.stderr if arguments.json else sys.stdout)
    if arguments.dry_run:
        if arguments.json:
            print(dump_json(document, indent=2))
        _say_plan(plan, jobs, say)
        return 0
    out = Path(arguments.out) if arguments.out else Path("runs") / f"compare-{Path(arguments.settings).stem}"
    with _only_one(out):
        _open_folder(out, document, resume=arguments.resume)
        return _run(plan, out, jobs, say, as_json=arguments.json)


def _run(plan: Plan, out: Path, jobs: int, say: Callable[[str], None], *, as_json: bool) -> int:
    """Do the work and tell what came of it."""
    from envwright.training.compare.comparison import build_comparison
    from envwright.training.compare.printing import outcome_lines
    from envwright.training.compare.runner import run_units, units_of
    from envwright.training.runstore import RunStore

    units = units_of(plan, out)
    for unit in units:
        if (unit.folder / "run.json").is_file():
            RunStore.resume(unit.folder, unit.settings)  # refuses a run that was started with other settings
    _say_plan(plan, jobs, say)
    failed = run_units(units, out / "logs", jobs, say)
    outcome = build_comparison(out, failed)
    for line in outcome_lines(outcome):
        say(line)
    say(f"   everything is in {out}: comparison.json, tables/*.csv and *.parquet, runs/ARM/seedN, logs/")
    if as_json:
        print(dump_json(outcome, indent=2))
    for name, reason in failed.items():
        print(f"envwright compare: {name} failed: {reason}; its log is in {out / 'logs'}; --resume tries it again", file=sys.stderr)
    return 1 if failed else 0


def _check_arms(plan: Plan) -> None:
    """Find out, before any work is done, whether every policy is there and every engineer can work."""
    from envwright.training.commands_run import check_machine, check_plan
    from envwright.training.policies.policy import SMOLLM2, is_pocket, load_policy

    for package in ("torch", "transformers", "trl", "datasets", "pyarrow"):  # looked up, not imported: the runs have their own processes
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "train", "envwright compare")
    for arm in plan.arms:
        settings = plan.settings_of(arm.name)
        try:
            check_plan(settings)
            check_machine(settings)
            if not is_pocket(settings.policy) and settings.policy != SMOLLM2 and not Path(settings.policy).is_dir():
                load_policy(settings.policy, settings)  # refuses, in its own words
        except UserError as error:
            raise UserError(f"arm {arm.name!r}: {error}") from None


def _open_folder(out: Path, document: dict[str, Any], *, resume: bool) -> None:
    """Write what the comparison is, or hold it against what the folder was started with."""
    from envwright.training.compare.plan import stored_differences

    path = out / "compare.json"
    if resume:
        if not path.is_file():
            raise UserError(f"{out} holds no comparison to resume (no compare.json); leave out --resume to start one")
        changed = stored_differences(read_json(path), document)
        if changed is not None:
            raise UserError(
                f"{out} was started otherwise: {changed}; resume with the same settings (arms and seeds may be added), or start anew with --out"
            )
    elif out.exists() and (not out.is_dir() or any(entry.name != _LOCK for entry in out.iterdir())):
        raise UserError(f"{out} exists already: continue it with --resume, or choose another folder with --out")
    (out / "comparison.json").unlink(missing_ok=True)  # it would tell of an earlier state
    write_json(path, document)


_LOCK = ".lock"


@contextmanager
def _only_one(out: Path) -> Iterator[None]:
    """Let one process at a time work on a folder, where the system can lock files."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} exists already and is no folder; choose another one with --out")
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / _LOCK).open("w")
    except OSError as error:
        raise UserError(f"{out}: cannot be written to: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{out}: another comparison is at work in this folder; wait for it, or end it first") from None
        yield
    finally:
        lock.close()
        if made and [entry.name for entry in out.iterdir()] == [_LOCK]:
            (out / _LOCK).unlink()
            out.rmdir()


def _say_on(stream: Any) -> Callable[[str], None]:
    def say(line: str) -> None:
        print(line, file=stream, flush=True)

    return say


def _say_plan(plan: Plan, jobs: int, say: Callable[[str], None]) -> None:
    from envwright.training.compare.printing import plan_lines

    for line in plan_lines(plan, jobs):
        say(line)
    busy = jobs * max(cell.settings.threads for cell in plan.cells)
    if busy > _cores():
        say(f"   {busy} threads would share {_cores()} cores, which is slower than fewer: lower --jobs, or --threads for every run")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _command(arguments: argparse.Namespace) -> list[str]:
    """The command that starts this comparison from nothing."""
    command = ["envwright", "compare", arguments.settings]
    for option, value in (("--engineers", arguments.engineers), ("--seeds", arguments.seeds), ("--baseline", arguments.baseline)):
        command += [option, value] if value is not None else []
    for option, values in (("--arm", arguments.arms), ("--set", arguments.overrides)):
        command += [word for value in values for word in (option, value)]
    for option, number in (("--threads", arguments.threads), ("--jobs", arguments.jobs)):
        command += [option, str(number)] if number is not None else []
    return command + (["--out", arguments.out] if arguments.out else [])


def _versions() -> dict[str, str]:
    found = {"envwright": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
