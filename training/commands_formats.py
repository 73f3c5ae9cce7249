"""The commands that speak other projects' file formats: import and export."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from envwright.env.canonical import Split
from envwright.env.errors import UserError
from envwright.env.formats.exports import export_json_lines, export_movingai
from envwright.env.formats.huggingface import export_dataset
from envwright.env.formats.movingai_map import read_map
from envwright.env.formats.movingai_scenario import boards_of_scenario, read_scenario
from envwright.env.formats.selection import select_by_split
from envwright.env.instance import MAX_SIZE, Instance, label_board, read_instances
from envwright.env.jsonio import write_json_lines

__all__ = ["export_boards", "import_boards"]


def import_boards(arguments: argparse.Namespace) -> int:
    """`envwright import`"""
    limit = arguments.time_limit
    if limit is not None and not limit > 0:
        raise UserError(f"--time-limit must be above 0 seconds, got {limit:g}")
    grid, lines = read_map(Path(arguments.map)), read_scenario(Path(arguments.scen))
    agents = len(lines) if arguments.agents is None else arguments.agents
    boards = boards_of_scenario(grid, lines, agents, arguments.n)
    named = lines[0].map_name.replace("\\", "/").rpartition("/")[2]
    if named != Path(arguments.map).name:
        _say(f"note: {arguments.scen} is about {named!r}; taken with {arguments.map}, which has its width and height")
    if grid.height != grid.width:
        _say(f"{arguments.map}: {grid.width} wide and {grid.height} high, made {grid.size}x{grid.size} with {len(grid.padding)} holes")
    instances = [
        label_board(board, f"{lines[index * agents].place}: board {index + 1} of {arguments.n}", time_limit=limit)
        for index, board in enumerate(boards)
    ]
    write_json_lines(Path(arguments.out), (instance.to_json() for instance in instances))
    _say(f"{_counted(len(instances))} of {agents} agents in {arguments.out}")
    return 0


def export_boards(arguments: argparse.Namespace) -> int:
    """`envwright export`"""
    sizes: list[int] = arguments.size or []
    for size in sizes:
        if not 1 <= size <= MAX_SIZE:
            raise UserError(f"--size must be 1 to {MAX_SIZE}, got {size}")
    split = None if arguments.split is None else Split(arguments.split)
    by_split = select_by_split(read_instances(Path(arguments.file)), split, sizes)
    _EXPORTERS[arguments.format](by_split, Path(arguments.out))
    counts = ", ".join(f"{name} {len(members)}" for name, members in by_split.items())
    _say(f"{_counted(sum(map(len, by_split.values())))} ({counts}) in {arguments.out}")
    return 0


def _movingai(by_split: Mapping[Split, Sequence[Instance]], out: Path) -> None:
    export_movingai(by_split, out)


_EXPORTERS = {"movingai": _movingai, "jsonl": export_json_lines, "hf": export_dataset}


def _counted(count: int) -> str:
    return f"{count} instance{'' if count == 1 else 's'}"


def _say(text: str) -> None:
    print(text, file=sys.stderr)
