"""MovingAI `.map` files: a grid of terrain, read as ice and holes.

Format: Sturtevant, "Benchmarks for grid-based pathfinding", IEEE T-CIAIG 2012; movingai.com/benchmarks/formats.html.
Coordinates here are `(row, col)`; a file's y is a row and its x a column.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envwright.env.errors import UserError
from envwright.env.instance import MAX_SIZE, Board, Cell
from envwright.env.jsonio import read_text

__all__ = ["HOLES", "ICE", "GridMap", "map_text", "read_map"]

ICE = ".GS"
"""Passable terrain: ground, ground, and swamp, which may be entered from ground."""
HOLES = "@OTW"
"""What an agent on the ground cannot enter: out of bounds (twice), trees, and water."""


@dataclass(frozen=True, slots=True)
class GridMap:
    """The terrain of a map, which need not be square."""

    height: int
    """Rows."""
    width: int
    """Columns."""
    holes: tuple[Cell, ...]
    """Cells that no agent may enter, in reading order."""

    @property
    def size(self) -> int:
        """Side of the smallest square board that holds the map."""
        return max(self.height, self.width)

    @property
    def padding(self) -> tuple[Cell, ...]:
        """The holes that make the map a square: below or to the right of it."""
        return tuple((row, col) for row in range(self.size) for col in range(self.size) if not (row < self.height and col < self.width))

    def contains(self, cell: Cell) -> bool:
        """True for a cell on the map, padding apart."""
        return 0 <= cell[0] < self.height and 0 <= cell[1] < self.width


def read_map(path: Path) -> GridMap:
    """Read a map of type octile, up to 64 x 64 cells.

    Raises:
        UserError: the header, a row or a character is not as the format says, or the map is too large; file and line are named.
    """
    lines = [line.rstrip() for line in read_text(path).splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    height, width = _header(lines, path)
    rows = lines[4:]
    if len(rows) != height:
        raise UserError(f"{path}: height is {height}, but {len(rows)} rows follow")
    holes: list[Cell] = []
    for row, text in enumerate(rows):
        if len(text) != width:
            raise UserError(f"{path} line {row + 5}: width is {width}, but the row has {len(text)} characters")
        for col, char in enumerate(text):
            if char in HOLES:
                holes.append((row, col))
            elif char not in ICE:
                raise UserError(
                    f"{path} line {row + 5}: {char!r} at x {col} is no terrain; known are {' '.join(ICE)} (free) and {' '.join(HOLES)}"
                )
    return GridMap(height, width, tuple(holes))


def _header(lines: list[str], path: Path) -> tuple[int, int]:
    """Return height and width of the four header lines."""
    if len(lines) < 4 or lines[3] != "map":
        raise UserError(f"{path}: a map begins with the lines 'type octile', 'height H', 'width W' and 'map'")
    if lines[0].split() != ["type", "octile"]:
        raise UserError(f"{path} line 1: expected 'type octile', got {lines[0]!r}; other map types are not read")
    sides: dict[str, int] = {}
    for number, line in enumerate(lines[1:3], start=2):
        name, _, value = line.partition(" ")
        if name not in ("height", "width") or name in sides or not (value.isascii() and value.isdigit()):
            raise UserError(f"{path} line {number}: expected 'height H' or 'width W', got {line!r}")
        if len(value) > 9 or not 1 <= int(value) <= MAX_SIZE:
            raise UserError(f"{path} line {number}: {name} {value} is outside 1 to {MAX_SIZE}; cut the map into smaller ones")
        sides[name] = int(value)
    return sides["height"], sides["width"]


def map_text(board: Board) -> str:
    """Return the board as a `.map` file: `.` is ice, `@` a hole."""
    rows = ("".join("@" if (row, col) in board.hole_set else "." for col in range(board.size)) for row in range(board.size))
    return "\n".join(["type octile", f"height {board.size}", f"width {board.size}", "map", *rows]) + "\n"
