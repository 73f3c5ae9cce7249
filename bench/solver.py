"""How fast the solver is, as ratios to a naive CBS in the same run: `python -m bench.solver [--data DIR] [--full]`.

Times are processor time of one core, from raw lists of cells to the answer: reading starts and goals, building the bit
board or the networkx graph, and the search. Section 1 needs the golden files of `--data`; the other sections draw boards.
Some minutes; `--full` solves five times as many crowded 5x5 boards.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx as nx

from bench.naive_cbs import naive_cbs
from envwright.env.solver import BitBoard, Cell, Solution, SolveStatus, solve

Board = tuple[int, list[Cell], list[Cell], list[Cell]]
Answer = tuple[float, int | None]
"""Seconds of processor time, and the sum of costs (None when undecided)."""


def random_board(rng: random.Random, size: int, ratio: float, agents: int, *, connected: bool) -> Board:
    """Draw holes, starts and goals uniformly; `connected` redraws until every goal can be reached by its agent alone."""
    while True:
        cells = [(row, col) for row in range(size) for col in range(size)]
        rng.shuffle(cells)
        holes, free = cells[: round(ratio * size * size)], cells[round(ratio * size * size) :]
        starts, goals = rng.sample(free, agents), rng.sample(free, agents)
        board = BitBoard(size, holes)
        if not connected or all(board.distance(a, b) is not None for a, b in zip(starts, goals, strict=True)):
            return size, holes, starts, goals


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the garbage of one solver out of the other's time, as `timeit` does."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def timed(board: Board, **options: Any) -> tuple[float, Solution]:
    """Solve a board and return the seconds of processor time with the answer."""
    with collector_off():
        begin = time.process_time()
        solution = solve(*board, **options)
        return time.process_time() - begin, solution


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which about `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def golden(path: Path) -> tuple[list[Board], list[int]]:
    """Read the boards and known minimal sums of costs of a golden file."""
    boards, costs = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        cells = [[(row, col) for row, col in raw[key]] for key in ("holes", "starts", "goals")]
        boards.append((raw["size"], *cells))
        costs.append(raw["optimal_cost"])
    return boards, costs


def run_naive(board: Board, cap: float) -> Answer:
    """Solve a board with the naive CBS, the graph's building included."""
    size, holes, starts, goals = board
    with collector_off():
        begin = time.process_time()
        graph = nx.grid_2d_graph(size, size)
        graph.remove_nodes_from(holes)
        paths = naive_cbs(graph, starts, goals, cap)
        return time.process_time() - begin, None if paths is None else sum(len(path) - 1 for path in paths)


def run_ours(board: Board, **options: Any) -> Answer:
    """Solve a board with the solver."""
    spent, solution = timed(board, **options)
    return spent, solution.sum_of_costs


def report(name: str, answers: Sequence[Answer], costs: Sequence[int], yardstick: Sequence[Answer] | None = None) -> None:
    """Print one row: times in ms, what was not solved or solved wrongly, and the ratios to a yardstick."""
    times = [spent for spent, _ in answers]
    wrong = sum(cost is not None and cost != known for (_, cost), known in zip(answers, costs, strict=True))
    unsolved = sum(cost is None for _, cost in answers)
    row = (
        f"{name:<38}{1000 * percentile(times, 0.5):>10.3f}{1000 * percentile(times, 0.95):>10.2f}{max(times):>9.2f}{unsolved:>10}{wrong:>7}"
    )
    if yardstick is not None:
        base = [spent for spent, _ in yardstick]
        row += "".join(f"{percentile(base, share) / percentile(times, share):>9.1f}x" for share in (0.5, 0.95))
    print(row, flush=True)


def golden_section(data: Path, cap: float) -> None:
    """Compare with the naive CBS on the golden files."""
    variants: tuple[tuple[str, dict[str, Any]], ...] = (
        ("envwright, cost and plan", {"label_waits": False, "break_ties": False}),
        ("envwright, all labels", {}),
    )
    for name in ("random_golden.jsonl", "public_8x8_golden.jsonl"):
        boards, costs = golden(data / name)
        print(f"\n== {name}: {len(boards)} boards; naive CBS capped at {cap:g} s a board ==")
        print(f"{'':<38}{'median ms':>10}{'p95 ms':>10}{'max s':>9}{'unsolved':>10}{'wrong':>7}{'median':>10}{'p95':>10}")
        base: list[Answer] = []
        ours: list[list[Answer]] = [[] for _ in variants]
        for number, board in enumerate(boards):  # board by board, so that a busy machine slows all of them alike
            base.append(run_naive(board, cap))
            turns = list(zip(variants, ours, strict=True))
            for (_, options), answers in turns[:: -1 if number % 2 else 1]:  # the first to follow finds the caches cold
                answers.append(run_ours(board, **options))
        report("naive CBS on networkx", base, costs)
        for (label, _), answers in zip(variants, ours, strict=True):
            report(label, answers, costs, base)


def drawn_section(title: str, seed: str, count: int, draw: Callable[[random.Random], Board], within: float, **options: Any) -> None:
    """Solve drawn boards and print how many were decided, and how many within a time."""
    rng = random.Random(seed)
    found, longest = [], 0.0
    for _ in range(count):
        board = draw(rng)
        begin = time.perf_counter()
        found.append(timed(board, **options))
        longest = max(longest, time.perf_counter() - begin)
    times = [spent for spent, _ in found]
    statuses = Counter(solution.status for _, solution in found)
    undecided = Counter(label for _, solution in found for label in solution.undecided)
    decided = sum(spent <= within and solution.status is not SolveStatus.BUDGET for spent, solution in found)
    print(f"\n== {title} ==")
    print(
        f"{count} boards: " + ", ".join(f"{status} {statuses[status]}" for status in SolveStatus) + f"; labels undecided: {dict(undecided)}"
    )
    print(
        f"CPU s: median {percentile(times, 0.5):.4f}, p95 {percentile(times, 0.95):.3f}, max {max(times):.2f}; longest by the clock {longest:.2f} s",
        end="; ",
    )
    print(f"decided within {within:g} s: {decided} ({100 * decided / count:.1f} %)", flush=True)


def main() -> int:
    """Run every section."""
    parser = argparse.ArgumentParser(description="Benchmark of the solver.")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the golden files")
    parser.add_argument("--cap", type=float, default=3.0, help="seconds a board for the naive CBS")
    parser.add_argument("--full", action="store_true", help="1,000 crowded 5x5 boards for each objective instead of 200")
    arguments = parser.parse_args()
    if arguments.data.is_dir():
        golden_section(arguments.data, arguments.cap)
    else:
        print(f"{arguments.data} is absent: no golden boards", file=sys.stderr)
    for objective in ("sum_of_costs", "makespan"):
        drawn_section(
            f"5x5, 30 % holes, 5 agents, no limit, all labels, {objective}",
            "five",
            1000 if arguments.full else 200,
            lambda rng: random_board(rng, 5, 0.3, 5, connected=False),
            1.0,
            objective=objective,
        )
    for size, ratio, agents, count, limit in ((32, 0.2, 20, 60, 8.0), (64, 0.2, 30, 20, 1.0)):
        for objective in ("sum_of_costs", "makespan"):
            drawn_section(
                f"{size}x{size}, {100 * ratio:g} % holes, {agents} agents, all labels, {objective}, time limit {limit:g} s",
                f"large-{size}",
                count,
                lambda rng, size=size, ratio=ratio, agents=agents: random_board(rng, size, ratio, agents, connected=True),
                3.0,
                objective=objective,
                time_limit=limit,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
