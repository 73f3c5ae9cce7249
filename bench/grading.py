"""How fast completions are graded: completions per second of CPU time on one core, and `envwright grade` on a long file.

    python bench/grading.py [--boards 500] [--lines 50000] [--policy pocket]

2 agents on 6x6, five completions per board: the solver's plan, the same with an agent delayed, every agent's own shortest
path (blind to the others, as the base policy walks), the plan with a letter in six replaced, and a plan cut off in the
middle. With --policy, completions that the policy sampled are graded too. Times are CPU times of this process, the best of
several passes; the file is read, parsed, graded and summarised as the command does it.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from envwright.env.canonical import Split
from envwright.env.cells import plan_words
from envwright.env.config import GeneratorConfig, Knobs
from envwright.env.generator import generate
from envwright.env.grading import grade_completion, solution_answer
from envwright.env.instance import Instance
from envwright.env.jsonio import parse_json, write_json_lines
from envwright.env.rollout import regrade_rollouts
from envwright.env.solver import solve
from envwright.env.table import report

Pairs = list[tuple[Instance, str]]
TARGET = 20_000


def make_boards(count: int) -> list[Instance]:
    config = GeneratorConfig(num_agents=2, sizes={"6": Knobs(data_ratio=1.0, hole_ratio=0.2, wait_ratio=0.25)})
    return generate(config, count, seed=0, split=Split.TRAIN, key=("bench", "grading")).instances


def make_plans(board: Instance, rng: random.Random) -> list[tuple[tuple[str, ...], bool]]:
    """Return plans, each with whether its answer is to be cut off."""
    best = solve(board.size, board.holes, board.starts, board.goals).plan or ()
    alone = [solve(board.size, board.holes, [s], [g]).plan or ("",) for s, g in zip(board.starts, board.goals, strict=True)]
    noisy = tuple("".join(rng.choice("UDLRW") if rng.random() < 1 / 6 else letter for letter in letters) for letters in best)
    delayed = ("W" + best[0], *best[1:])
    return [(best, False), (delayed, False), (tuple(plan[0] for plan in alone), False), (noisy, False), (best, True)]


def make_completions(boards: Sequence[Instance]) -> dict[str, Pairs]:
    rng = random.Random(0)
    cells: Pairs = []
    chat: Pairs = []
    thinking: Pairs = []
    for board in boards:
        for plan, cut in make_plans(board, rng):
            for pairs, text in ((cells, plan_words(board, plan)), (chat, solution_answer(plan))):
                pairs.append((board, text[: 2 * len(text) // 3] if cut else text))
            thought = "Agent 0 goes first; agent 1 must not be at (2, 3) then. " * 20
            thinking.append((board, f"<think>{thought}</think>\n```json\n{chat[-1][1]}\n```\nBoth agents arrive."))
    return {"cell notation": cells, "chat JSON": chat, "chat JSON after 1,100 characters of thinking": thinking}


def sampled(spec: str, boards: Sequence[Instance]) -> Pairs:
    from envwright.training.policies.policy import load_policy, sample_boards

    groups = sample_boards(load_policy(spec), boards, 8, seed=0)
    return [(board, sample.text) for board, group in zip(boards, groups, strict=True) for sample in group]


def best_seconds(work: Callable[[], object], passes: int) -> float:
    best = float("inf")
    for _ in range(passes):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


def report_speed(name: str, pairs: Pairs) -> float:
    seconds = best_seconds(lambda: [grade_completion(board, text) for board, text in pairs], passes=7)
    shares = Counter(grade_completion(board, text).outcome for board, text in pairs)
    told = ", ".join(f"{outcome} {100 * count / len(pairs):.0f} %" for outcome, count in shares.most_common())
    print(f"{name}: {len(pairs) / seconds:,.0f} completions a second ({1e6 * seconds / len(pairs):.1f} us each)\n  {told}", flush=True)
    return len(pairs) / seconds


def report_file(pairs: Pairs, lines: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollouts.jsonl"
        chosen = [pairs[index % len(pairs)] for index in range(lines)]
        write_json_lines(path, ({"instance": board.to_json(), "completion": text, "reward": 0.0, "tokens": 14} for board, text in chosen))
        texts = path.read_text(encoding="utf-8").splitlines()
        parsing = best_seconds(lambda: [parse_json(text) for text in texts], passes=1)
        grading = best_seconds(lambda: [grade_completion(board, text) for board, text in chosen], passes=1)
        begin = time.process_time()
        graded, _ = regrade_rollouts(path)
        reading = time.process_time() - begin
        summing = best_seconds(lambda: report(graded), passes=1)
    total = reading + summing
    print(f"envwright grade, {lines:,} lines: {total:.2f} s CPU, {lines / total:,.0f} lines a second, of which")
    rest = reading - parsing - grading
    for name, seconds in (("JSON", parsing), ("validation and records", rest), ("grading", grading), ("figures", summing)):
        print(f"  {name:<24}{seconds:6.2f} s  {100 * seconds / total:3.0f} %")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--boards", type=int, default=500)
    parser.add_argument("--lines", type=int, default=50_000)
    parser.add_argument("--policy", metavar="SPEC", help="grade completions of this policy too (needs the train extra)")
    arguments = parser.parse_args()
    boards = make_boards(arguments.boards)
    completions = make_completions(boards)
    if arguments.policy:
        completions[f"sampled by {arguments.policy}"] = sampled(arguments.policy, boards)
    speeds = [report_speed(name, pairs) for name, pairs in completions.items()]
    report_file([*completions["cell notation"], *completions["chat JSON"]], arguments.lines)
    slowest = min(speeds)
    print(f"slowest {slowest:,.0f} a second, target {TARGET:,}: {'reached' if slowest >= TARGET else 'MISSED'}")
    return 0 if slowest >= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
