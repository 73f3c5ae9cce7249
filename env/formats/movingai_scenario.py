"""MovingAI `.scen` files: starts and goals of agents on a map.

A line has nine columns: bucket, map, map width, map height, start x, start y, goal x, goal y, optimal length. x is a column and
y a row. The last is the octile distance of one agent alone, so it is written for other tools and never read as a cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from envwright.env.errors import UserError
from envwright.env.formats.movingai_map import GridMap
from envwright.env.formats.octile import octile_distance
from envwright.env.instance import MAX_AGENTS, Board, Cell
from envwright.env.jsonio import read_text

__all__ = ["ScenarioLine", "boards_of_scenario", "read_scenario", "scenario_text"]

COLUMNS = ("bucket", "map", "map width", "map height", "start x", "start y", "goal x", "goal y", "optimal length")


@dataclass(frozen=True, slots=True)
class ScenarioLine:
    """One agent of a scenario."""

    place: str
    """File and line, for messages."""
    map_name: str
    """The map as the line names it."""
    width: int
    """Columns of the map."""
    height: int
    """Rows of the map."""
    start: Cell
    """`(row, col)`."""
    goal: Cell
    """`(row, col)`."""


def read_scenario(path: Path) -> list[ScenarioLine]:
    """Read the agents of a scenario in order.

    Raises:
        UserError: the version line or a column is not as the format says, the lines are about several maps, or there are none.
    """
    lines = read_text(path).splitlines()
    version = lines[0].split() if lines else []
    if len(version) != 2 or version[0] != "version" or version[1] not in ("1", "1.0"):
        raise UserError(f"{path} line 1: expected 'version 1' or 'version 1.0', got {(lines or [''])[0][:60]!r}")
    found = [_read_line(line, f"{path} line {number}") for number, line in enumerate(lines[1:], start=2) if line.strip()]
    if not found:
        raise UserError(f"{path}: holds no agent")
    for line in found:
        if line.map_name != found[0].map_name:
            raise UserError(
                f"{line.place}: is about {line.map_name!r}, but the lines before about {found[0].map_name!r}; split the scenario by map"
            )
    return found


def _read_line(text: str, place: str) -> ScenarioLine:
    fields = [field.strip() for field in text.rstrip().split("\t")] if "\t" in text else text.split()
    if len(fields) != len(COLUMNS):
        raise UserError(f"{place}: expected {len(COLUMNS)} columns ({', '.join(COLUMNS)}), got {len(fields)}")
    numbers: list[int] = []
    for name, value in zip(COLUMNS, fields, strict=True):
        if name in ("map", "optimal length"):
            continue
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            raise UserError(f"{place}: {name} must be a whole number from 0, got {value[:60]!r}")
        numbers.append(int(value))
    _bucket, width, height, start_x, start_y, goal_x, goal_y = numbers
    _check_length(fields[-1], place)
    return ScenarioLine(place, fields[1], width, height, (start_y, start_x), (goal_y, goal_x))


def _check_length(value: str, place: str) -> None:
    try:
        length = float(value)
    except ValueError:
        length = math.nan
    if not (math.isfinite(length) and length >= 0):
        raise UserError(f"{place}: optimal length must be a number from 0, got {value[:60]!r}")


def boards_of_scenario(grid: GridMap, lines: list[ScenarioLine], num_agents: int, count: int = 1) -> list[Board]:
    """Return `count` boards of `num_agents` agents: the first lines of the scenario, the lines after them, and so on.

    A map that is not square becomes one by holes below or to the right of it.

    Raises:
        UserError: the scenario has too few lines or is about another map size, or a cell breaks a rule of `Board`.
    """
    if not 1 <= num_agents <= MAX_AGENTS:
        raise UserError(f"a board has 1 to {MAX_AGENTS} agents, got {num_agents}; set --agents")
    if count < 1:
        raise UserError(f"-n must be at least 1, got {count}")
    if num_agents * count > len(lines):
        raise UserError(f"{count} boards of {num_agents} agents need {num_agents * count} lines; the scenario has {len(lines)}")
    holes = tuple(sorted((*grid.holes, *grid.padding)))
    return [_board(grid, holes, lines[first : first + num_agents]) for first in range(0, num_agents * count, num_agents)]


def _board(grid: GridMap, holes: tuple[Cell, ...], lines: list[ScenarioLine]) -> Board:
    hole_set = frozenset(holes)
    for line in lines:
        if (line.width, line.height) != (grid.width, grid.height):
            raise UserError(
                f"{line.place}: map width {line.width} and height {line.height} are not those of the map, {grid.width} and {grid.height}"
            )
        for name, cell in (("start", line.start), ("goal", line.goal)):
            told = f"{name} x {cell[1]}, y {cell[0]}"
            if not grid.contains(cell):
                raise UserError(f"{line.place}: {told} is off the map of width {grid.width} and height {grid.height}")
            if cell in hole_set:
                raise UserError(f"{line.place}: {told} (row {cell[0]}, col {cell[1]}) is on a hole of the map")
    where = lines[0].place if len(lines) == 1 else f"{lines[0].place} to {lines[-1].place.rpartition(' ')[2]}"
    starts, goals = [line.start for line in lines], [line.goal for line in lines]
    return Board.parse({"size": grid.size, "holes": holes, "starts": starts, "goals": goals}, where)


def scenario_text(board: Board, map_name: str) -> str:
    """Return the board's agents as a `.scen` file, one line each, all in bucket 0.

    Raises:
        UserError: an agent cannot reach its goal, so that its line has no length.
    """
    lines = ["version 1"]
    for agent, (start, goal) in enumerate(zip(board.starts, board.goals, strict=True)):
        length = octile_distance(board, start, goal)
        if length is None:
            raise UserError(f"{map_name}: no way leads from starts[{agent}] {list(start)} to goals[{agent}] {list(goal)}")
        cells = (start[1], start[0], goal[1], goal[0])
        lines.append("\t".join(map(str, (0, map_name, board.size, board.size, *cells, f"{length:.8f}"))))
    return "\n".join(lines) + "\n"
