"""What the command-line tests share: a finished command, a config and a hand-made rollout log."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KNOBS = {"data_ratio": 0.5, "hole_ratio": 0.2, "wait_ratio": 0.25}
CONFIG = {"schema_version": 1, "num_agents": 2, "sizes": {"3": KNOBS, "4": KNOBS}}
EVIDENCE = ("--config", "config.json", "--rollouts", "rollouts.jsonl")

_BOARDS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"size": 3, "holes": [[1, 1]], "starts": [[0, 0], [2, 2]], "goals": [[0, 2], [2, 0]]},
        '{"plan": ["RR", "LL"]}',
        '{"plan": ["RRU", "LL"]}',
    ),
    ({"size": 3, "holes": [], "starts": [[0, 0], [0, 1]], "goals": [[0, 1], [0, 0]]}, '{"plan": ["DRU", "L"]}', '{"plan": ["R", "L"]}'),
    (
        {"size": 4, "holes": [[0, 3]], "starts": [[0, 0], [3, 3]], "goals": [[0, 2], [3, 0]]},
        '{"plan": ["RR", "LLL"]}',
        '{"plan": ["RRR", "LLL"]}',
    ),
    (
        {"size": 4, "holes": [[2, 2]], "starts": [[0, 1], [1, 0]], "goals": [[2, 1], [1, 2]]},
        '{"plan": ["DD", "WRR"]}',
        '{"plan": ["DD", "RR"]}',
    ),
]
"""Boards without labels, each with a valid and a failing completion."""


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout, which must be one JSON document and nothing else."""
        assert self.out.endswith("\n")
        return json.loads(self.out, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} in the output")


Command = Callable[..., Finished]


def rollout_lines() -> list[dict[str, Any]]:
    """300 lines as another trainer would write them: 3x3 mostly solved, 4x4 mostly not."""
    lines = []
    for index in range(300):
        board, valid, failing = _BOARDS[index % 4]
        good = index % 15 > 0 if board["size"] == 3 else index % 15 == 0
        lines.append({"instance": board, "completion": valid if good else failing})
    return lines


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
