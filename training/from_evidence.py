"""`envwright compare --from-evidence`: many engineers on the same recorded evidence, without training.

Every engineer reads what was measured after a run's latest finished stage and decides; every config that comes of it is
simulated with the policy of that stage, on boards that no engineer has simulated, and all configs with the same boards and
the same sampling noise where their knobs agree. What is predicted is the next stage's practice: the valid rate, and the share
of groups with mixed outcomes, without which GRPO learns nothing. It does not say what the policy learns from it; only
training does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envwright.agent.context import Bookkeeping
from envwright.agent.engineers import Engineer, make_engineer
from envwright.agent.oversight import oversee
from envwright.agent.redesign import Redesign
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.instance import Instance
from envwright.env.jsonio import dump_json
from envwright.env.seeding import derive_seed
from envwright.tools.evidence import Evidence, PolicyProbe
from envwright.tools.simulate_config import Forecast, SimulateConfigArguments
from envwright.tools.simulate_config import run as simulate
from envwright.training.evidence import run_evidence
from envwright.training.from_evidence_text import evidence_lines
from envwright.training.runstore import RunStore

__all__ = ["compare_from_evidence", "run"]

BOARDS = 48
"""Boards per size on which a config is simulated."""
_DEEPEST = 3
"""Folders between the given one and a run: a comparison keeps its runs at runs/ARM/seedN."""
_DIGITS = 4


def run(arguments: argparse.Namespace) -> int:
    """Carry out `envwright compare --from-evidence DIR --engineers A,B,...`.

    Args:
        arguments: `from_evidence`, `engineers` and `json`; `seeds` (numbers or text) or `seed`, None for the seeds of the runs;
            `boards`, where there is such an option.

    Returns:
        0; an engineer that could not work is a row that says so.

    Raises:
        UserError: no run, none with a finished stage, or an engineer that is unknown, repeated or not there.
    """
    engineers = [spec.strip() for spec in str(arguments.engineers or "").split(",") if spec.strip()]
    compared = compare_from_evidence(
        Path(arguments.from_evidence),
        engineers,
        seeds=_seeds(arguments),
        boards=getattr(arguments, "boards", None) or BOARDS,
        progress=not arguments.json,
    )
    sys.stdout.write((dump_json(compared) if arguments.json else "\n".join(evidence_lines(compared))) + "\n")
    return 0


def compare_from_evidence(
    folder: Path, engineers: Sequence[str], *, seeds: Sequence[int] | None = None, boards: int = BOARDS, progress: bool = False
) -> dict[str, Any]:
    """Let engineers redesign the same recorded stages, and simulate what they decide.

    Args:
        folder: a run's folder, or one that holds runs, up to three folders down.
        engineers: as `--engineer` takes them.
        seeds: seeds of what the engineers draw, each played once; None for the seed that the run gave its own engineer.
        boards: boards per size on which a config is simulated.
        progress: tell on stderr which engineer is at work.

    Returns:
        `runs`: per run and seed its `kept` config's forecast and the `engineers` with decision, forecast and cost; `overall`: per
        engineer the means over them; `skipped`: runs without a finished stage. Everything but `seconds` is the same again.

    Raises:
        UserError: see `run`.
    """
    if not engineers:
        raise UserError("name the engineers to compare: --engineers rule,random,learnability")
    if repeated := sorted({spec for spec in engineers if engineers.count(spec) > 1}):
        raise UserError(f"engineer {repeated[0]!r} is named twice in --engineers; name each once")
    stores, skipped = _find_runs(folder)
    prepared = [(store, _engineers(store, engineers)) for store in stores]
    runs = [
        _compared(store, seed, ready, boards, progress=progress)
        for store, ready in prepared
        for seed in (seeds if seeds is not None else (None,))
    ]
    return {
        "schema_version": 1,
        "from": str(folder),
        "boards_per_size": boards,
        "runs": runs,
        "overall": [_overall(number, spec, runs) for number, spec in enumerate(engineers)],
        "skipped": [str(path) for path in skipped],
    }


def _seeds(arguments: argparse.Namespace) -> list[int] | None:
    """Read `seeds` or `seed`, whichever the command line has."""
    given = getattr(arguments, "seeds", None)
    given = getattr(arguments, "seed", None) if given is None else given
    if given is None or isinstance(given, int):
        return None if given is None else [given]
    parts = given.split(",") if isinstance(given, str) else given
    try:
        seeds = [int(part) for part in parts]
    except ValueError:
        raise UserError(f"--seeds {given!r}: give whole numbers with commas between them, such as 0,1,2") from None
    if len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds {given!r}: a seed is named twice; name each once")
    return seeds


def _find_runs(folder: Path) -> tuple[list[RunStore], list[Path]]:
    """Return the runs with a finished stage, in the order of their paths, and the folders of those without one."""
    if (folder / "run.json").is_file():
        found = [folder]
    else:
        found = sorted({file.parent for depth in range(1, _DEEPEST + 1) for file in folder.glob("*/" * depth + "run.json")})
    stores = [RunStore.open(path) for path in found]
    finished = [store for store in stores if store.finished_stages()]
    if not finished:
        what = "holds no run with a finished stage" if found else "holds no run (no run.json)" if folder.is_dir() else "no such folder"
        raise UserError(f"--from-evidence {folder}: {what}; give the folder of a run that `envwright run --out` wrote, or one of several")
    return finished, [store.path for store in stores if store not in finished]


def _engineers(store: RunStore, specs: Sequence[str]) -> list[Engineer]:
    """Make the engineers as the run would set them to work, and find out that they are there."""
    work, checkpoint = store.settings().work, store.stage(store.finished_stages() - 1).checkpoint
    made = [oversee(make_engineer(spec, checkpoint=checkpoint), work) for spec in specs]
    for engineer in made:
        engineer.check()
    return made


def _compared(store: RunStore, seed: int | None, engineers: Sequence[Engineer], boards: int, *, progress: bool) -> dict[str, Any]:
    """One run's evidence, read by every engineer."""
    settings, recorded = store.settings(), run_evidence(store)
    stage = recorded.latest_stage
    undecided = (*recorded.history[:-1], recorded.history[-1].model_copy(update={"patch": None}))  # what the run's own engineer did
    own = recorded.seed if seed is None else derive_seed(seed, "engineer", stage)
    evidence = replace(recorded, history=undecided, seed=own)
    grading = replace(evidence, seed=derive_seed(settings.seed, "from-evidence", stage), probe=_steady(recorded.probe))
    bookkeeping = Bookkeeping(stage=stage, stages=max(settings.num_stages, stage + 2), instances=settings.instances_per_stage)
    kept = _forecast(grading, evidence.config, boards)
    rows = []
    for engineer in engineers:
        if progress:
            sys.stderr.write(f"{store.path}: stage {stage}, engineer {engineer.name} ...\n")
        begun = time.monotonic()
        redesign = engineer.design(evidence, bookkeeping=bookkeeping)
        seconds = round(time.monotonic() - begun, 2)
        rows.append(_row(engineer.name, redesign, _forecast(grading, redesign.config, boards), kept, seconds))
    return {
        "run": str(store.path),
        "stage": stage,
        "seed": settings.seed if seed is None else seed,
        "config": evidence.config.to_json(),
        "kept": kept,
        "engineers": rows,
    }


def _steady(probe: PolicyProbe | None) -> PolicyProbe | None:
    """Ask a probe size by size and remember what it said: the same boards then get the same completions, whatever else is asked."""
    if probe is None:
        return None
    said: dict[tuple[Instance, ...], Sequence[Sequence[bool]]] = {}

    def ask(instances: Sequence[Instance]) -> Sequence[Sequence[bool]]:
        groups: list[Sequence[bool]] = [()] * len(instances)
        for bucket in dict.fromkeys(instance.bucket for instance in instances):
            places = [place for place, instance in enumerate(instances) if instance.bucket == bucket]
            asked = tuple(instances[place] for place in places)
            if asked not in said:
                said[asked] = probe(asked)
            for place, group in zip(places, said[asked], strict=True):
                groups[place] = group
        return groups

    return ask


def _forecast(evidence: Evidence, config: GeneratorConfig, boards: int) -> dict[str, Any]:
    """Simulate a config: `valid` and `mixed` over all sizes by their share of the data, and per size; None where nothing is known."""
    answer = simulate(SimulateConfigArguments(edits=(), n=boards), replace(evidence, config=config))
    by_size = {
        row.bucket: {"share": round(row.data_ratio, _DIGITS), **_figures(row.forecast), "reason": row.reason} for row in answer.buckets
    }
    return {**_figures(answer.forecast), "feasible": answer.feasible, "by_size": by_size}


def _figures(forecast: Forecast) -> dict[str, float | None]:
    return {"valid": forecast.predicted_valid, "mixed": forecast.mixed_groups}


def _row(name: str, redesign: Redesign, forecast: dict[str, Any], kept: dict[str, Any], seconds: float) -> dict[str, Any]:
    told = redesign.to_json()
    return {
        "engineer": name,
        "stop_reason": told["stop_reason"],
        "note": told["note"],
        "patch": told["patch"],
        "diff": told["diff"],
        "config": told["config"],
        "forecast": forecast,
        "gain": {figure: _difference(forecast[figure], kept[figure]) for figure in ("valid", "mixed")},
        "cost": {
            "requests": redesign.usage.requests,
            "tokens": redesign.usage.total_tokens,
            "policy_completions": redesign.usage.policy_completions,
            "seconds": seconds,
        },
    }


def _overall(number: int, spec: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means of one engineer over the runs and seeds; figures that are not known are left out of them."""
    rows = [entry["engineers"][number] for entry in runs]
    return {
        "engineer": spec,
        "decisions": len(rows),
        "patches": sum(row["patch"] is not None for row in rows),
        "edits": _mean([len(row["diff"]) for row in rows]),
        "forecast": {figure: _mean([row["forecast"][figure] for row in rows]) for figure in ("valid", "mixed")},
        "gain": {figure: _mean([row["gain"][figure] for row in rows]) for figure in ("valid", "mixed")},
        "cost": {name: _mean([row["cost"][name] for row in rows]) for name in ("requests", "tokens", "policy_completions", "seconds")},
    }


def _difference(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else round(after - before, _DIGITS)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), _DIGITS) if known else None
