"""The commands of the lowest floor: generate, solve, show, grade, schema."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from envwright.env.canonical import Split
from envwright.env.config import read_config
from envwright.env.drawing import describe_failure, draw_board, draw_plan
from envwright.env.errors import UserError
from envwright.env.generator import generate as generate_instances
from envwright.env.grading import read_answer
from envwright.env.instance import Board, Instance, parse_instance
from envwright.env.jsonio import dump_json, read_json_lines, write_json_lines
from envwright.env.rollout import graded_rollout, parse_rollout, read_rollouts
from envwright.env.rules import Outcome, paths_from_moves, simulate
from envwright.env.schemas import json_schema
from envwright.env.solver import solve as solve_board
from envwright.env.summary import RolloutSummary, Tally, summarise
from envwright.training.progress import format_rate

__all__ = ["generate", "grade", "print_summary", "schema", "show", "solve"]


def generate(arguments: argparse.Namespace) -> int:
    """`envwright generate`"""
    if arguments.n < 1:
        raise UserError(f"-n must be at least 1, got {arguments.n}")
    if arguments.seed < 0:
        raise UserError(f"--seed must be at least 0, got {arguments.seed}")
    begin = time.monotonic()
    made = generate_instances(read_config(Path(arguments.config)), arguments.n, seed=arguments.seed, split=Split(arguments.split))
    write_json_lines(Path(arguments.out), (instance.to_json() for instance in made.instances))
    print(
        f"{len(made.instances)} instances ({arguments.split} split) in {arguments.out}, {time.monotonic() - begin:.1f} s", file=sys.stderr
    )
    for bucket, record in made.acceptance.items():
        repeats = f", {record.repeated} of them repeats: the cell has no more new boards" if record.repeated else ""
        print(
            f"  {bucket}x{bucket}: {record.accepted} instances{repeats}; {100 * record.rate:.1f} % of drawn boards fitted", file=sys.stderr
        )
    return 0


def solve(arguments: argparse.Namespace) -> int:
    """`envwright solve`"""
    if arguments.time_limit is not None and not arguments.time_limit > 0:
        raise UserError(f"--time-limit must be above 0 seconds, got {arguments.time_limit:g}")
    boards = [(name, board) for name, board in _boards(Path(arguments.file))]
    results = []
    for name, board in boards:
        begin = time.perf_counter()
        solution = solve_board(board.size, board.holes, board.starts, board.goals, time_limit=arguments.time_limit)
        result = {
            "id": name,
            "status": solution.status.value,
            "sum_of_costs": solution.sum_of_costs,
            "makespan": solution.makespan,
            "wait_required": solution.wait_required,
            "plan": None if solution.plan is None else list(solution.plan),
            "seconds": round(time.perf_counter() - begin, 6),
        }
        results.append(result)
        if not arguments.json:
            plan = "" if solution.plan is None else " ".join(letters or "-" for letters in solution.plan)
            figures = (
                ""
                if solution.plan is None
                else f"sum of costs {solution.sum_of_costs}, makespan {solution.makespan}, wait required: {solution.wait_required}"
            )
            print(f"{name}  {solution.status}  {figures}  {plan}".rstrip())
    if arguments.json:
        print(dump_json({"results": results}))
    return 0


def _boards(path: Path) -> list[tuple[str, Board]]:
    """Read boards whose labels are not needed; the id defaults to the line number."""
    boards: list[tuple[str, Board]] = []
    for place, raw in read_json_lines(path):
        if not isinstance(raw, dict):
            raise UserError(f"{place}: an instance must be a JSON object, got {type(raw).__name__}")
        unknown = sorted(set(raw) - set(Instance.model_fields))
        if unknown:
            raise UserError(f"{place}: unknown key {unknown[0]!r}; known keys are {', '.join(Instance.model_fields)}")
        name = raw.get("id", place.rpartition(" ")[2])
        if not isinstance(name, str):
            raise UserError(f"{place}: id must be a string, got {name!r}")
        boards.append((name, Board.parse({key: raw[key] for key in Board.model_fields if key in raw}, place)))
    if not boards:
        raise UserError(f"{path}: holds no instance; write some with `envwright generate`")
    return boards


def show(arguments: argparse.Namespace) -> int:
    """`envwright show`"""
    instance, recorded = _find_instance(Path(arguments.file), arguments.id)
    completion = arguments.completion if arguments.completion is not None else recorded
    print(f"{instance.id}: {instance.size}x{instance.size}, {instance.num_agents} agents, {len(instance.holes)} holes (#)")
    print(
        f"optimal: sum of costs {instance.optimal_cost}, makespan {instance.optimal_makespan}; a wait is {'' if instance.wait_required else 'not '}required"
    )
    print("A, B, ... are agents at their starts; a, b, ... their goals")
    print(draw_board(instance))
    if completion is None:
        plan = solve_board(instance.size, instance.holes, instance.starts, instance.goals).plan
        if plan is None:
            raise UserError(f"{arguments.file}: no plan was found for {instance.id}; give a plan to draw with --completion")
        paths = paths_from_moves(instance.starts, plan)
        print(f"\nan optimal plan: {' '.join(letters or '-' for letters in plan)}")
    else:
        print(f"\ncompletion: {_printable(completion)}")
        answer = read_answer(instance, completion)
        if isinstance(answer, Outcome):
            print(f"{answer}: no plan to draw")
            return 0
        paths = answer
    simulation = simulate(instance, paths)
    print(describe_failure(simulation))
    print(draw_plan(instance, paths, simulation.step))
    return 0


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _find_instance(path: Path, wanted: str | None) -> tuple[Instance, str | None]:
    """Return an instance of an instance or rollout file, and the completion that goes with it."""
    ids = []
    for place, raw in read_json_lines(path):
        if isinstance(raw, dict) and "instance" in raw:
            rollout = parse_rollout(raw, place)
            instance, completion = rollout.instance, rollout.completion
        else:
            instance, completion = parse_instance(raw, place), None
        if wanted is None or instance.id == wanted:
            return instance, completion
        ids.append(instance.id)
    if not ids:
        raise UserError(f"{path}: holds no instance; write some with `envwright generate`")
    raise UserError(f"{path}: no instance {wanted!r}; it holds {len(ids)}, such as {ids[0]}")


def grade(arguments: argparse.Namespace) -> int:
    """`envwright grade`"""
    recorded = read_rollouts(Path(arguments.rollouts))
    graded = [graded_rollout(rollout) for rollout in recorded]
    differ = sum(before.outcome != after.outcome for before, after in zip(recorded, graded, strict=True))
    if differ:
        print(
            f"{differ} of {len(graded)} recorded outcomes disagree with their completions; the completions were graded anew",
            file=sys.stderr,
        )
    if arguments.out:
        write_json_lines(Path(arguments.out), (rollout.to_json() for rollout in graded))
    print_summary(summarise(graded), as_json=arguments.json)
    return 0


def print_summary(summary: RolloutSummary, *, as_json: bool) -> None:
    """Print the figures of graded rollouts as a table or as one JSON document."""
    if as_json:
        print(dump_json(summary.to_json()))
        return
    print("                   n   valid                     optimal                   failures")
    rows: list[tuple[str, Tally]] = [(f"{bucket}x{bucket}", tally) for bucket, tally in summary.by_size.items()]
    rows += [(f"wait {label}", tally) for label, tally in summary.by_wait.items()] + [("all", summary)]
    for name, tally in rows:
        failures = ", ".join(f"{outcome} {count}" for outcome, count in tally.outcomes.items() if outcome not in ("optimal", "suboptimal"))
        print(f"{name:<14}{tally.n:>6}   {format_rate(tally.valid):<26}{format_rate(tally.optimal):<26}{failures}")


def schema(arguments: argparse.Namespace) -> int:
    """`envwright schema`"""
    document: dict[str, Any] = json_schema(arguments.name)
    print(dump_json(document, indent=2))
    return 0
