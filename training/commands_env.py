"""The commands of the lowest floor: generate, solve, show, schema."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from envwright.env.canonical import Split
from envwright.env.config import read_config
from envwright.env.errors import UserError
from envwright.env.generator import Acceptance, Generated
from envwright.env.generator import generate as generate_instances
from envwright.env.grading import read_answer
from envwright.env.instance import LABELS, Board, Instance, parse_board, parse_instance, wrong_labels
from envwright.env.jsonio import dump_json, read_json_lines, write_json_lines
from envwright.env.pictures.files import check_suffix, write_picture
from envwright.env.pictures.story import Story, story_of
from envwright.env.pictures.text import draw_moment, draw_story, story_legend, text_style, verdict_line
from envwright.env.rollout import parse_rollout
from envwright.env.rules import Outcome, paths_from_moves
from envwright.env.schemas import json_schema
from envwright.env.solver import Objective, Solution, SolveStatus
from envwright.env.solver import solve as solve_board
from envwright.env.workers import MAX_WORKERS

__all__ = ["generate", "schema", "show", "solve"]


def generate(arguments: argparse.Namespace) -> int:
    """`envwright generate`"""
    if arguments.n < 1:
        raise UserError(f"-n must be at least 1, got {arguments.n}")
    if arguments.seed < 0:
        raise UserError(f"--seed must be at least 0, got {arguments.seed}")
    if not 1 <= arguments.workers <= MAX_WORKERS:
        raise UserError(f"--workers must be between 1 and {MAX_WORKERS}, got {arguments.workers}")
    begin = time.monotonic()
    made = _with_progress(arguments)
    write_json_lines(Path(arguments.out), (instance.to_json() for instance in made.instances))
    print(
        f"{len(made.instances)} instances ({arguments.split} split) in {arguments.out}, {time.monotonic() - begin:.1f} s", file=sys.stderr
    )
    for bucket, record in made.acceptance.items():
        if record.accepted:
            print(f"  {bucket}x{bucket}: {_made_how(record)}", file=sys.stderr)
    return 0


def _with_progress(arguments: argparse.Namespace) -> Generated:
    """Generate with a progress bar on stderr, or without one where that is no terminal."""
    from tqdm import tqdm

    config = read_config(Path(arguments.config))
    with tqdm(total=arguments.n, desc="generate", unit="board", file=sys.stderr, disable=None, leave=False) as bar:
        return generate_instances(
            config,
            arguments.n,
            seed=arguments.seed,
            split=Split(arguments.split),
            workers=arguments.workers,
            on_progress=lambda made: bar.update(made - bar.n),
        )


def _made_how(record: Acceptance) -> str:
    """Put in words how a bucket's boards came about."""
    makers = ", ".join(f"{count} by {sampler}" for sampler, count in record.samplers.most_common())
    repeats = f", {record.repeated} of them repeats: the cell has no more new boards" if record.repeated else ""
    return f"{record.accepted} instances{repeats}; {makers}; {100 * record.rate:.1f} % of drawn boards fitted"


def solve(arguments: argparse.Namespace) -> int:
    """`envwright solve`"""
    if arguments.time_limit is not None and not arguments.time_limit > 0:
        raise UserError(f"--time-limit must be above 0 seconds, got {arguments.time_limit:g}")
    objective = Objective(arguments.objective)
    if arguments.check and objective is not Objective.SUM_OF_COSTS:
        raise UserError(
            f"--check proves labels, which are of the objective sum_of_costs, got --objective {objective}; leave one of the two out"
        )
    boards = _boards(Path(arguments.file))
    results = []
    wrong: list[str] = []
    for place, name, board, labels in boards:
        begin = time.perf_counter()
        solution = solve_board(board.size, board.holes, board.starts, board.goals, objective=objective, time_limit=arguments.time_limit)
        result = {
            "id": name,
            "objective": objective.value,
            "status": solution.status.value,
            "sum_of_costs": solution.sum_of_costs,
            "makespan": solution.makespan,
            "wait_required": solution.wait_required,
            "plan": None if solution.plan is None else list(solution.plan),
            "seconds": round(time.perf_counter() - begin, 6),
        }
        results.append(result)
        if arguments.check:
            wrong += _differences(place, name, labels, result)
        elif not arguments.json:
            plan = "" if solution.plan is None else " ".join(letters or "-" for letters in solution.plan)
            print(f"{name}  {solution.status}  {_figures(solution)}  {plan}".rstrip())
    if wrong:
        more = f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise UserError(f"{wrong[0]}{more}; leave wrong labels out and they are computed")
    if arguments.json:
        print(dump_json({"results": results}))
    elif arguments.check:
        print(f"{len(boards)} boards, {sum(len(labels) for *_, labels in boards)} labels: all exact")
    return 0


def _figures(solution: Solution) -> str:
    """Put a solution's figures in words, the objective's first."""
    if solution.plan is None:
        return ""
    known = [("sum of costs", solution.sum_of_costs), ("makespan", solution.makespan)]
    if solution.objective is Objective.MAKESPAN:
        known.reverse()
    known.append(("wait required:", solution.wait_required))
    return ", ".join(f"{name} {'undecided' if value is None else value}" for name, value in known)


def _differences(place: str, name: str, labels: dict[str, Any], result: dict[str, Any]) -> list[str]:
    """Say, with place and id, why a line's labels are not the solver's."""
    where = f"{place}: id {name!r}"
    if result["status"] == SolveStatus.UNSOLVABLE:
        return [f"{where}: the board is unsolvable; every instance must have a plan"]
    exact = {"optimal_cost": result["sum_of_costs"], "optimal_makespan": result["makespan"], "wait_required": result["wait_required"]}
    if any(exact[key] is None for key in labels):
        return [f"{where}: the solver's budget ran out before the labels were proved; raise --time-limit or leave the board out"]
    return [f"{where}: {text}" for text in wrong_labels(labels, exact)]


def _boards(path: Path) -> list[tuple[str, str, Board, dict[str, Any]]]:
    """Read `(place, id, board, labels given)` of lines whose labels are not needed; the id defaults to the line number."""
    boards: list[tuple[str, str, Board, dict[str, Any]]] = []
    for place, raw in read_json_lines(path):
        board = parse_board(raw, place)
        boards.append((place, raw.get("id", place.rpartition(" ")[2]), board, {key: raw[key] for key in LABELS if key in raw}))
    if not boards:
        raise UserError(f"{path}: holds no instance; write some with `envwright generate`")
    return boards


def show(arguments: argparse.Namespace) -> int:
    """`envwright show`"""
    if arguments.out is not None:
        check_suffix(Path(arguments.out))
    instance, recorded = _find_instance(Path(arguments.file), arguments.id)
    completion = arguments.completion if arguments.completion is not None else recorded
    source, story = _story(arguments.file, instance, completion)
    if arguments.step is not None:
        story.check_step(arguments.step)
    if arguments.out is not None:
        write_picture(Path(arguments.out), story, step=arguments.step, strip=arguments.strip)
        print(f"{_printable(instance.id)}: {story.verdict()}")
        print(f"picture in {arguments.out}", file=sys.stderr)
        return 0
    if arguments.strip:
        raise UserError("--strip needs a picture: give its name with -o, such as -o strip.png")
    style = text_style(sys.stdout, os.environ, shutil.get_terminal_size().columns)
    agents, holes = _count(instance.num_agents, "agent"), _count(len(instance.holes), "hole")
    print(f"{_printable(instance.id)}: {instance.size}x{instance.size}, {agents}, {holes}")
    wait = "" if instance.wait_required else "not "
    print(f"optimal: sum of costs {instance.optimal_cost}, makespan {instance.optimal_makespan}; a wait is {wait}required")
    print(f"{story_legend(story, style)}\n\n{source}\n{verdict_line(story, style)}\n")
    print(draw_story(story, style) if arguments.step is None else draw_moment(story, arguments.step, style))
    return 0


def _story(file: str, instance: Instance, completion: str | None) -> tuple[str, Story]:
    """Return what is drawn, in a line, and its story: the completion's plan, or without one an optimal plan."""
    if completion is not None:
        source, answer = f"completion: {_printable(completion)}", read_answer(instance, completion)
        if isinstance(answer, Outcome):
            return source, Story(instance, [[] for _ in instance.starts], None, f"{answer}: no plan to draw")
        return source, story_of(instance, answer)
    solution = solve_board(instance.size, instance.holes, instance.starts, instance.goals)
    plan = solution.plan
    if plan is None:
        raise UserError(f"{file}: no plan was found for {instance.id}; give a plan to draw with --completion")
    if solution.sum_of_costs != instance.optimal_cost:
        told = f"optimal_cost is {solution.sum_of_costs}, not {instance.optimal_cost}"
        raise UserError(f"{file}: id {instance.id!r}: {told}; leave the labels out and they are computed")
    return f"an optimal plan: {' '.join(letters or '-' for letters in plan)}", story_of(instance, paths_from_moves(instance.starts, plan))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


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


def schema(arguments: argparse.Namespace) -> int:
    """`envwright schema`"""
    document: dict[str, Any] = json_schema(arguments.name)
    print(dump_json(document, indent=2))
    return 0
