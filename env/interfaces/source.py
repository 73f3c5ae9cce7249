"""Where an environment's boards come from: given ones, or the generator, one new board per reset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.generator import generate
from envwright.env.instance import Instance, parse_instance, read_instances

__all__ = ["BoardSource", "GeneratedBoards", "GivenBoards", "Instances", "board_source", "check_options", "chosen_board"]

Instances = Sequence[Instance | Mapping[str, Any]] | str | Path
"""Boards to play on: instances, plain JSON objects as in an instance file, or the path of an instance file."""


class BoardSource(Protocol):
    """Boards of one shape."""

    @property
    def size(self) -> int:
        """Side of the largest board: the side of the observation's planes."""

    @property
    def num_agents(self) -> int:
        """Agents on every board."""

    def draw(self, rng: np.random.Generator) -> Instance:
        """Return a board; equal generators draw equal boards."""


@dataclass(frozen=True)
class GivenBoards:
    """Boards drawn uniformly from given ones."""

    instances: tuple[Instance, ...]
    """The boards, all with the same number of agents."""

    @property
    def size(self) -> int:
        """Side of the largest board."""
        return max(instance.size for instance in self.instances)

    @property
    def num_agents(self) -> int:
        """Agents on every board."""
        return self.instances[0].num_agents

    def draw(self, rng: np.random.Generator) -> Instance:
        """Return one of the boards."""
        return self.instances[int(rng.integers(len(self.instances)))]


@dataclass(frozen=True)
class GeneratedBoards:
    """Boards made by the generator."""

    size: int
    """Side of every board."""
    num_agents: int
    """Agents on every board."""
    hole_ratio: float
    """Share of the cells that are holes."""
    wait_ratio: float
    """Probability that a board is wait-required."""
    split: Split
    """Split that every board belongs to."""

    def __post_init__(self) -> None:
        self._config(self.wait_ratio)
        if self.num_agents == 1 and self.wait_ratio > 0:
            raise UserError(f"wait_ratio {self.wait_ratio!r} with 1 agent: a single agent never has to wait; set wait_ratio to 0")

    def _config(self, wait_ratio: float) -> GeneratorConfig:
        knobs = {"data_ratio": 1.0, "hole_ratio": self.hole_ratio, "wait_ratio": wait_ratio}
        return GeneratorConfig.parse({"num_agents": self.num_agents, "sizes": {str(self.size): knobs}}, "environment")

    def draw(self, rng: np.random.Generator) -> Instance:
        """Generate a board.

        Raises:
            InfeasibleError: the generator found no such board within its tries.
        """
        wait_required = bool(rng.random() < self.wait_ratio)
        seed = int(rng.integers(2**31 - 1))
        return generate(self._config(float(wait_required)), 1, seed=seed, split=self.split, key=("interfaces",)).instances[0]


def board_source(
    instances: Instances | None, size: int, num_agents: int, hole_ratio: float, wait_ratio: float, split: Split | str
) -> BoardSource:
    """Return the source that an environment's arguments ask for: the given boards, or without any the generator.

    Raises:
        UserError: a knob is out of bounds, a board is bad, there is none, or the boards differ in their number of agents.
    """
    if instances is not None:
        return GivenBoards(_given(instances))
    try:
        chosen = Split(split)
    except ValueError:
        raise UserError(f"split must be one of {', '.join(Split)}, got {split!r}") from None
    return GeneratedBoards(size, num_agents, hole_ratio, wait_ratio, chosen)


def _given(instances: Instances) -> tuple[Instance, ...]:
    if isinstance(instances, str | Path):
        boards = read_instances(Path(instances))
    else:
        boards = [
            board if isinstance(board, Instance) else parse_instance(dict(board), f"instances[{index}]")
            for index, board in enumerate(instances)
        ]
    if not boards:
        raise UserError("instances is empty; give at least one board, or none to have boards generated")
    for index, board in enumerate(boards):
        if board.num_agents != boards[0].num_agents:
            raise UserError(
                f"instances[{index}] has {board.num_agents} agents, the first one {boards[0].num_agents}; one environment has one number of agents"
            )
    return tuple(boards)


def check_options(max_steps: int | None, efficiency_weight: float, render_mode: str | None, render_modes: Sequence[str]) -> None:
    """Check the arguments that do not concern boards.

    Raises:
        UserError: one of them is out of its bounds.
    """
    if max_steps is not None and (isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1):
        raise UserError(f"max_steps must be an integer of at least 1, or None for the board's own limit, got {max_steps!r}")
    if not (math.isfinite(efficiency_weight) and efficiency_weight >= 0):
        raise UserError(f"efficiency_weight must be a finite number of at least 0, got {efficiency_weight!r}")
    if render_mode is not None and render_mode not in render_modes:
        raise UserError(f"render_mode must be None or one of {', '.join(render_modes)}, got {render_mode!r}")


def chosen_board(source: BoardSource, rng: np.random.Generator, options: Mapping[str, Any] | None) -> Instance:
    """Return the board of a reset: `options["instance"]` where there is one, else one drawn from the source.

    Raises:
        UserError: the board in the options is bad, or does not fit the environment's spaces.
    """
    given = (options or {}).get("instance")
    if given is None:
        return source.draw(rng)
    board = given if isinstance(given, Instance) else parse_instance(given, 'options["instance"]')
    if board.num_agents != source.num_agents or board.size > source.size:
        raise UserError(
            f'options["instance"] is {board.size}x{board.size} with {board.num_agents} agents; this environment takes boards '
            f"up to {source.size}x{source.size} with {source.num_agents} agents"
        )
    return board
