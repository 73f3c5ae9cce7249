"""The board itself: where its cells are in a picture, and what stays the same in every frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from envwright.env.instance import Board
from envwright.env.pictures import palette
from envwright.env.pictures.shapes import Group, Label, Lines, Rect, Shape

__all__ = ["Grid", "board_shapes", "cell_size"]

Cell = tuple[int, int]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Grid:
    """Where a board lies in a picture."""

    x: float
    """Left edge of column 0."""
    y: float
    """Upper edge of row 0."""
    cell: float
    """Side of a cell."""
    size: int
    """Cells along each side."""

    @property
    def side(self) -> float:
        """Side of the board."""
        return self.cell * self.size

    def centre(self, cell: Cell) -> Point:
        """Return the middle of a cell, which may lie off the board."""
        return self.x + (cell[1] + 0.5) * self.cell, self.y + (cell[0] + 0.5) * self.cell

    def square(self, cell: Cell, inset: float, radius: float, fill: str | None, stroke: str | None = None, width: float = 0.0) -> Rect:
        """Return a square in a cell; inset, corner radius and stroke width are in cells."""
        unit = self.cell
        x, y = self.x + (cell[1] + inset) * unit, self.y + (cell[0] + inset) * unit
        side = (1 - 2 * inset) * unit
        return Rect(x, y, side, side, fill, stroke, width * unit, radius * unit)


def cell_size(size: int, largest: float = 64.0) -> float:
    """Return the side of a cell in pixels: large on small boards, and never too small for a number of two digits."""
    return float(max(min(18.0, largest), min(largest, 640.0 // size)))


def board_shapes(board: Board, grid: Grid) -> Iterator[Shape]:
    """Yield ice, grid lines, holes and the numbers of rows and columns."""
    x, y, side, unit = grid.x, grid.y, grid.side, grid.cell
    yield Rect(x, y, side, side, palette.ICE)
    inner = [index * unit for index in range(1, board.size)]
    lines = [(x + at, y, x + at, y + side) for at in inner] + [(x, y + at, x + side, y + at) for at in inner]
    if lines:
        yield Lines(tuple(lines), palette.GRID, 1.0)
    holes = tuple(grid.square(hole, 0.04, 0.12, palette.HOLE) for hole in board.holes)
    if holes:
        hatch = Lines(tuple(line for hole in board.holes for line in _hatch(grid, hole)), palette.HATCH, max(1.0, 0.035 * unit))
        yield Group("holes", f"{len(holes)} holes", (*holes, hatch))
    yield Rect(x, y, side, side, None, palette.BORDER, max(1.5, 0.03 * unit))
    yield from _rulers(grid)


def _hatch(grid: Grid, hole: Cell) -> Iterator[tuple[float, float, float, float]]:
    """Yield three diagonals inside a hole."""
    x, y = grid.x + (hole[1] + 0.14) * grid.cell, grid.y + (hole[0] + 0.14) * grid.cell
    side = 0.72 * grid.cell
    for reach in (0.55, 1.0, 1.45):
        short, long = max(0.0, reach - 1.0), min(1.0, reach)
        yield x + short * side, y + long * side, x + long * side, y + short * side


def _rulers(grid: Grid) -> Iterator[Shape]:
    step = 1 if grid.cell >= 20 else 5
    size = max(9.0, min(13.0, 0.26 * grid.cell))
    for index in range(0, grid.size, step):
        middle = (index + 0.5) * grid.cell
        yield Label(grid.x + middle, grid.y - 6, str(index), size, palette.MUTED)
        yield Label(grid.x - 7, grid.y + middle + 0.35 * size, str(index), size, palette.MUTED, "end")
