"""How fast the engineer's tools answer over a long rollout log: CPU milliseconds of the first call and of later ones.

    python bench/tools.py [--rollouts 100000] [--boards 1000]

Boards of sizes 3x3 to 10x10 with 2 agents, five stages, half validation and half training rollouts, 16 completions a board:
the solver's plan, every agent's own shortest path (blind to the others), a plan cut off, and words, all graded. They repeat
until the log is long enough; every rollout is a record of its own. A first call is one over evidence that no tool has read,
with a seed that no tool has made boards with; what is loaded once per process (jsonschema) is loaded before.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig, Knobs
from envwright.env.generator import generate
from envwright.env.grading import solution_answer
from envwright.env.instance import Instance
from envwright.env.rollout import Rollout, graded_rollout
from envwright.env.solver import solve
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox

STAGES, GROUP = 5, 16
EDITS = [
    {"path": f"/sizes/{size}/{knob}", "value": value, "reason": f"{size}x{size} fails", "evidence": ["failure_breakdown#1"]}
    for size, knob, value in (("5", "wait_ratio", 0.4), ("8", "hole_ratio", 0.15), ("6", "data_ratio", 0.2))
]
CALLS: list[tuple[str, str, dict[str, Any], float | None]] = [
    ("failure_breakdown", "by size and wait_required", {"by": ["size", "wait_required"]}, 200),
    ("failure_breakdown", "by everything", {"by": ["size", "num_agents", "wait_required", "outcome", "hole_ratio"]}, 200),
    ("env_stats", "current config", {}, 200),
    ("env_stats", "stage 4", {"stage": 4}, 200),
    ("sample_maps", "3 failures at 6x6", {"n": 3, "size": 6, "outcome": "vertex_conflict"}, None),
    ("simulate_config", "three edits, n = 32", {"edits": EDITS}, None),
    ("propose_patch", "three edits", {"summary": "practise waiting", "edits": EDITS}, 50),
]
"""Tool, what is asked, arguments, and the bound in milliseconds: for env_stats on later calls, else on the first as well."""


def make_config() -> GeneratorConfig:
    return GeneratorConfig(
        num_agents=2, sizes={str(size): Knobs(data_ratio=0.125, hole_ratio=0.2, wait_ratio=0.25) for size in range(3, 11)}
    )


def completions(board: Instance, rng: random.Random) -> list[str]:
    best = solve(board.size, board.holes, board.starts, board.goals).plan or ()
    blind = [(solve(board.size, board.holes, [s], [g]).plan or ("",))[0] for s, g in zip(board.starts, board.goals, strict=True)]
    right, wrong = solution_answer(best), solution_answer(blind)
    choices = [right, wrong, right[: len(right) // 2], "Agent 0 goes first."]
    return rng.choices(choices, weights=[5, 8, 2, 1], k=GROUP)


def make_evidence(count: int, boards: int) -> Evidence:
    rng, config = random.Random(0), make_config()
    graded = []
    for split in (Split.VALIDATION, Split.TRAIN):
        for board in generate(config, boards // 2, seed=0, split=split, key=("bench", "tools")).instances:
            graded += [graded_rollout(Rollout(instance=board, split=split, completion=text)) for text in completions(board, rng)]
    repeated = itertools.islice(itertools.cycle(graded), count)
    rollouts = tuple(rollout.model_copy(update={"stage": index * STAGES // count}) for index, rollout in enumerate(repeated))
    return Evidence(config=config, rollouts=rollouts, seed=0)


def fresh(evidence: Evidence, seed: int) -> Evidence:
    """The same evidence, as if it was just read; another seed, so that no board is remembered."""
    return Evidence(config=evidence.config, rollouts=evidence.rollouts, seed=seed)


def milliseconds(work: Callable[..., object], *arguments: object) -> float:
    begin = time.process_time()
    work(*arguments)
    return 1000 * (time.process_time() - begin)


def called(toolbox: Toolbox, name: str, arguments: dict[str, Any]) -> None:
    result = toolbox.call(name, arguments)
    if result.error is not None:
        raise SystemExit(f"{name}: {result.error.message}")


def measure(evidence: Evidence, name: str, arguments: dict[str, Any], passes: int = 5) -> tuple[float, float]:
    """CPU milliseconds of a first call and of a later one, the medians over seeds."""
    firsts, laters = [], []
    for seed in range(1, passes + 1):
        toolbox = Toolbox(fresh(evidence, seed))
        firsts.append(milliseconds(called, toolbox, name, arguments))
        laters.append(milliseconds(called, toolbox, name, arguments))
    return statistics.median(firsts), statistics.median(laters)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rollouts", type=int, default=100_000)
    parser.add_argument("--boards", type=int, default=1_000)
    arguments = parser.parse_args()
    evidence = make_evidence(arguments.rollouts, arguments.boards)
    print(f"{len(evidence.rollouts):,} rollouts on {arguments.boards:,} boards; CPU milliseconds")
    print(f"{'tool':<20}{'asked':<28}{'first':>9}{'later':>9}   bound")
    called(Toolbox(fresh(evidence, 0)), "propose_patch", CALLS[-1][2])
    missed = False
    for name, asked, given, bound in CALLS:
        first, later = measure(evidence, name, given)
        over = bound is not None and (later if name == "env_stats" else max(first, later)) > bound
        missed = missed or over
        told = "" if bound is None else f"{bound:.0f} {'MISSED' if over else 'kept'}"
        print(f"{name:<20}{asked:<28}{first:9.1f}{later:9.1f}   {told}", flush=True)
    from envwright.agent.engineers import make_engineer

    session = milliseconds(make_engineer("rule").design, fresh(evidence, 0))
    print(f"a session of the rule engineer, tools and transcript: {session:.0f} ms")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
