"""A board with its agents, and the same board with its exact labels.

`Board` is what the rules need; `Instance` is the labelled record of the instance file (one JSON line each). Cells are
`(row, col)` from the top left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.canonical import Split, content_hash, split_of_hash
from envwright.env.errors import UserError
from envwright.env.jsonio import read_json_lines
from envwright.env.solver import SolveStatus, solve
from envwright.env.solver.bitboard import BitBoard

__all__ = [
    "LABELS",
    "MAX_AGENTS",
    "MAX_SIZE",
    "Board",
    "Cell",
    "Instance",
    "board_split",
    "instance_id",
    "label_board",
    "parse_board",
    "parse_instance",
    "read_instances",
    "wrong_labels",
]

Cell = tuple[StrictInt, StrictInt]
MAX_SIZE = 64
MAX_AGENTS = 30
LABELS = ("optimal_cost", "optimal_makespan", "wait_required")
"""The exact labels of an instance line."""


class Board(FrozenModel):
    """A square board with holes and the agents' starts and goals."""

    size: StrictInt = Field(ge=1, le=MAX_SIZE)
    """Side length N of the N x N board, 1 to 64."""
    holes: tuple[Cell, ...]
    """Cells that no agent may enter."""
    starts: tuple[Cell, ...] = Field(min_length=1, max_length=MAX_AGENTS)
    """Start of each agent; all distinct, none on a hole."""
    goals: tuple[Cell, ...] = Field(min_length=1, max_length=MAX_AGENTS)
    """Goal of each agent; all distinct, none on a hole. May be another agent's start, or the agent's own."""

    @model_validator(mode="after")
    def _check_cells(self) -> Self:
        for name, cells in (("holes", self.holes), ("starts", self.starts), ("goals", self.goals)):
            seen: set[tuple[int, int]] = set()
            for index, cell in enumerate(cells):
                if not (0 <= cell[0] < self.size and 0 <= cell[1] < self.size):
                    raise ValueError(
                        f"{name}[{index}] {list(cell)} is off the {self.size}x{self.size} board (rows and columns 0 to {self.size - 1})"
                    )
                if cell in seen:
                    raise ValueError(f"{name}[{index}] {list(cell)} is repeated; {name} must be distinct")
                if name != "holes" and cell in self.hole_set:
                    raise ValueError(f"{name}[{index}] {list(cell)} is on a hole")
                seen.add(cell)
        if len(self.starts) != len(self.goals):
            raise ValueError(f"{len(self.starts)} starts but {len(self.goals)} goals; each agent has one of each")
        return self

    @cached_property
    def hole_set(self) -> frozenset[tuple[int, int]]:
        """The holes as a set."""
        return frozenset(self.holes)

    @property
    def num_agents(self) -> int:
        """Number of agents."""
        return len(self.starts)

    @property
    def bucket(self) -> str:
        """The bucket that the board belongs to in a config: its size, as a string."""
        return str(self.size)

    @property
    def hole_ratio(self) -> float:
        """Share of cells that are holes."""
        return len(self.holes) / (self.size * self.size)


class Instance(Board):
    """A solvable board with its exact labels; one line of an instance file."""

    schema_version: Literal[1] = 1
    """Version of the file format."""
    id: str = Field(min_length=1)
    """`<agents>a-<N>x<N>-<content hash>`; the hash is the same for boards that agree up to symmetry and agent names."""
    optimal_cost: StrictInt = Field(ge=0)
    """Minimal sum of costs, in timesteps."""
    optimal_makespan: StrictInt = Field(ge=0)
    """Smallest makespan among the plans of minimal sum of costs, in timesteps."""
    wait_required: bool = Field(strict=True)
    """True when every plan of minimal sum of costs contains a wait before arrival."""

    def to_json(self) -> dict[str, Any]:
        """Return the instance line with its keys in the documented order."""
        data = self.model_dump(mode="json")
        order = ("schema_version", "id", "size", "holes", "starts", "goals", "optimal_cost", "optimal_makespan", "wait_required")
        return {key: data[key] for key in order}


def board_split(board: Board) -> Split:
    """Return the split that a board belongs to, whatever its id says."""
    return split_of_hash(content_hash(board.size, board.holes, board.starts, board.goals))


def instance_id(size: int, holes: Iterable[tuple[int, int]], starts: Sequence[tuple[int, int]], goals: Sequence[tuple[int, int]]) -> str:
    """Return the id of a board, from its canonical content hash."""
    return f"{len(starts)}a-{size}x{size}-{content_hash(size, holes, starts, goals)}"


def label_board(board: Board, where: str, *, name: str | None = None, time_limit: float | None = None) -> Instance:
    """Solve a board and return it with its labels.

    Raises:
        UserError: the board is unsolvable, or its optimum was not found within the solver's budget.
    """
    solution = solve(board.size, board.holes, board.starts, board.goals, time_limit=time_limit)
    if solution.status is SolveStatus.UNSOLVABLE:
        raise UserError(f"{where}: the board is unsolvable; every instance must have a plan")
    if solution.sum_of_costs is None or solution.makespan is None or solution.wait_required is None:
        more = "" if time_limit is None else f"raise the time limit of {time_limit:g} s, or "
        raise UserError(f"{where}: the solver's budget ran out before the labels were exact; {more}use fewer agents or a smaller board")
    return Instance(
        id=name or instance_id(board.size, board.holes, board.starts, board.goals),
        size=board.size,
        holes=board.holes,
        starts=board.starts,
        goals=board.goals,
        optimal_cost=solution.sum_of_costs,
        optimal_makespan=solution.makespan,
        wait_required=solution.wait_required,
    )


def _checked_line(raw: Any, where: str) -> str:
    """Refuse what is no instance line, and return `where` with the line's id in it, for messages."""
    if not isinstance(raw, dict):
        raise UserError(f"{where}: an instance must be a JSON object, got {type(raw).__name__}")
    name = raw.get("id")
    if isinstance(name, str) and name and not where.endswith(repr(name)):
        where = f"{where}: id {name!r}"
    unknown = sorted(set(raw) - set(Instance.model_fields))
    if unknown:
        value = repr(raw[unknown[0]])
        shown = value if len(value) <= 60 else value[:57] + "..."
        raise UserError(f"{where}: unknown key {unknown[0]!r} (got {shown}); known keys are {', '.join(Instance.model_fields)}")
    return where


def parse_board(raw: Any, where: str) -> Board:
    """Read the board of an instance line, whose labels and id may be missing; what is there of them must be of the right type.

    Raises:
        UserError: as `Board` says; unknown keys are refused.
    """
    where = _checked_line(raw, where)
    board = Board.parse({key: raw[key] for key in Board.model_fields if key in raw}, where)
    Instance.parse({"id": "none", **dict.fromkeys(LABELS[:2], 0), LABELS[2]: False, **raw}, where)
    return board


def parse_instance(raw: Any, where: str) -> Instance:
    """Read an instance; a board without its labels (or id) is solved and labelled on the way in.

    A complete line is not solved again: its labels are held against the agents' shortest distances alone, which finds an
    optimum that is too low or of the wrong kind in microseconds. `envwright solve --check` proves labels.

    Raises:
        UserError: as `Board` and `label_board` say; unknown keys and labels that cannot be right are refused.
    """
    named = _checked_line(raw, where)
    if all(key in raw for key in ("id", *LABELS)):
        instance = Instance.parse(raw, named)
        _refuse_impossible(instance, named)
        return instance
    board = parse_board(raw, where)
    given = {key: raw[key] for key in LABELS if key in raw}
    if len(given) < len(LABELS):
        labelled = label_board(board, named, name=raw.get("id"))
        _refuse_wrong(wrong_labels(given, labelled.to_json()), named)
        return labelled
    instance = Instance.parse({"id": instance_id(board.size, board.holes, board.starts, board.goals), **raw}, named)
    _refuse_impossible(instance, named)
    return instance


def wrong_labels(given: Mapping[str, Any], exact: Mapping[str, Any]) -> list[str]:
    """Compare the labels of a line with the solver's; returns a phrase per label that differs."""
    return [f"{key} is {exact[key]!r}, not {given[key]!r}" for key in LABELS if key in given and given[key] != exact[key]]


def _refuse_wrong(wrong: list[str], where: str) -> None:
    if wrong:
        raise UserError(f"{where}: {'; '.join(wrong)}; leave the labels out and they are computed")


def _refuse_impossible(instance: Instance, where: str) -> None:
    """Refuse what the agents' distances alone disprove; `envwright solve --check` proves every label."""
    grid = BitBoard(instance.size, instance.holes)
    distances = [grid.distance(start, goal) for start, goal in zip(instance.starts, instance.goals, strict=True)]
    alone = [distance for distance in distances if distance is not None]
    if len(alone) < len(distances):
        agent = distances.index(None)
        raise UserError(
            f"{where}: the board is unsolvable: no way leads from starts[{agent}] {list(instance.starts[agent])} to "
            f"goals[{agent}] {list(instance.goals[agent])}; every instance must have a plan"
        )
    if instance.optimal_cost < sum(alone):
        raise UserError(
            f"{where}: optimal_cost {instance.optimal_cost} is below {sum(alone)}, the sum of the agents' shortest distances; "
            f"leave the labels out and they are computed"
        )


def read_instances(path: Path) -> list[Instance]:
    """Read an instance file.

    Raises:
        UserError: a line is bad (file, line, value and rule are named) or the file holds no instance.
    """
    instances = [parse_instance(raw, place) for place, raw in read_json_lines(path)]
    if not instances:
        raise UserError(f"{path}: holds no instance; write some with `envwright generate`")
    return instances
