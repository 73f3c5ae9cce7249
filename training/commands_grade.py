"""The commands that grade: grade and benchmark, and the table that evaluate prints too. They do not import torch."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from envwright.env.benchmark import BENCHMARK_SETS, DIGESTS, FEWER, PER_CELL, WAIT_RATIOS, benchmark_groups, make_benchmark
from envwright.env.errors import UserError
from envwright.env.instance import Instance, read_instances
from envwright.env.jsonio import dump_json, write_json_lines
from envwright.env.manifest import manifest_of, manifest_path, read_wait_ratios, wait_ratios_of, write_benchmark
from envwright.env.reported import reported_json
from envwright.env.rollout import Rollout, regrade_rollouts
from envwright.env.table import report
from envwright.env.table_text import reported_lines, table_lines

__all__ = ["benchmark", "boards_and_cells", "grade", "print_report"]


def grade(arguments: argparse.Namespace) -> int:
    """`envwright grade`"""
    cells = None
    if arguments.instances:
        boards, cells = boards_and_cells(arguments.instances)
        if cells is None:
            place = manifest_path(Path(arguments.instances))
            raise UserError(f"{arguments.instances}: has no {place.name} that names its cells; `envwright benchmark make` writes both")
    graded, differ = regrade_rollouts(Path(arguments.rollouts))
    if cells is not None:
        _check_boards(graded, boards, arguments)
    if differ:
        print(
            f"{differ} of {len(graded)} recorded outcomes disagree with their completions; the completions were graded anew",
            file=sys.stderr,
        )
    if arguments.out:
        write_json_lines(Path(arguments.out), (rollout.to_json() for rollout in graded))
    print_report(graded, cells, as_json=arguments.json, reported=arguments.reported)
    return 0


def _check_boards(rollouts: Sequence[Rollout], boards: Sequence[Instance], arguments: argparse.Namespace) -> None:
    """Refuse rollouts on other boards, and say on stderr which boards have none."""
    known = {board.id: board for board in boards}
    for rollout in rollouts:
        board = known.get(rollout.instance.id)
        if board != rollout.instance:
            wrong = "is not in" if board is None else "differs from the board of that id in"
            raise UserError(
                f"{arguments.rollouts}: instance {rollout.instance.id!r} {wrong} {arguments.instances}; grade it without --instances"
            )
    missing = len(known) - len({rollout.instance.id for rollout in rollouts})
    if missing:
        print(f"{missing} of the {len(known)} boards of {arguments.instances} have no completion", file=sys.stderr)


def boards_and_cells(source: str) -> tuple[list[Instance], dict[str, float] | None]:
    """Return the boards that `--instances` names, and instance id -> wait ratio where their cells are known.

    Args:
        source: an instance file, `benchmark` (the paper's grid), or another set's name.

    Raises:
        UserError: a bad file or manifest.
    """
    name = "paper" if source == "benchmark" else source
    if name in BENCHMARK_SETS:
        print(f"making the boards of the benchmark set {name!r} (the same every time) ...", file=sys.stderr, flush=True)
        cells = make_benchmark(name)
        return [instance for cell in cells for instance in cell.instances], wait_ratios_of(cells)
    instances = read_instances(Path(source))
    return instances, read_wait_ratios(Path(source), instances)


def print_report(rollouts: Sequence[Rollout], cells: Mapping[str, float] | None, *, as_json: bool, reported: bool) -> None:
    """Print the figures of graded rollouts as the results table or as one JSON document.

    Args:
        rollouts: graded rollouts.
        cells: instance id -> wait ratio, where the boards are a benchmark's.
        as_json: one JSON document.
        reported: add the paper's figures.
    """
    figures = report(rollouts, cells)
    if as_json:
        print(dump_json({**figures.to_json(), **({"reported": reported_json()} if reported else {})}))
        return
    for line in table_lines(figures):
        print(line)
    if reported:
        print()
        for line in reported_lines(figures):
            print(line)


def benchmark(arguments: argparse.Namespace) -> int:
    """`envwright benchmark make`"""
    if arguments.workers < 1:
        raise UserError(f"--workers must be at least 1, got {arguments.workers}")
    from tqdm import tqdm

    begin = time.monotonic()
    total = len(WAIT_RATIOS) * sum(FEWER.get(group, PER_CELL) for group in benchmark_groups(arguments.set))
    with tqdm(total=total, desc="benchmark", unit="board", file=sys.stderr, disable=None, leave=False) as bar:
        cells = make_benchmark(arguments.set, workers=arguments.workers, on_progress=lambda done: bar.update(done - bar.n))
    digest = manifest_of(arguments.set, cells).sha256
    if digest != DIGESTS[arguments.set]:
        print(
            f"envwright benchmark: the boards made here have sha256 {digest}, not the pinned {DIGESTS[arguments.set]}; figures on them would not "
            "compare with others', so nothing is written: does this numpy draw other numbers?",
            file=sys.stderr,
        )
        return 1
    path = Path(arguments.out)
    manifest = write_benchmark(path, arguments.set, cells)
    print(f"{manifest.boards} boards in {path}, their cells in {manifest_path(path)}, {time.monotonic() - begin:.0f} s", file=sys.stderr)
    print(dump_json(manifest.to_json()) if arguments.json else f"sha256 {manifest.sha256}  {path}")
    return 0
