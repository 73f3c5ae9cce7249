"""A square grid with holes whose sets of cells are single integers.

Every search of this package, the board generator and the dataset statistics work on it. Cell `(row, col)` of a
board of side `N` is bit `row * (N + 1) + col`: the unused padding column after each row stops a shift by one
from wrapping into the neighbouring row, so the neighbours of a whole set of cells are four shifts and a mask.
"""

from collections.abc import Iterable
from typing import TypeAlias

from envwright.env.solver.space import BitSpace, Cycle, indices

Cell: TypeAlias = tuple[int, int]
"""`(row, col)`, counted from the top left corner."""


class _Adjacency(dict[int, int]):
    """Cell index to the bit set of its neighbours, filled in as cells are asked for."""

    __slots__ = ("_closed", "_free", "_width")

    def __init__(self, free: int, width: int, *, closed: bool) -> None:
        super().__init__()
        self._free = free
        self._width = width
        self._closed = closed

    def __missing__(self, index: int) -> int:
        bit = 1 << index
        mask = bit << 1 | bit >> 1 | bit << self._width | bit >> self._width
        if self._closed:
            mask |= bit
        self[index] = mask = mask & self._free
        return mask


class BitBoard(BitSpace):
    """A board of `size` x `size` cells, some of them holes, with cached distances.

    Attributes:
        size: Cells per side.
        width: Bits per row, `size + 1`.
        free: Bit set of the cells that are not holes.
        neighbours: Index of a free cell to the bit set of the free cells next to it.
        reachable: The same with the cell itself: where an agent may be one timestep later.
    """

    __slots__ = ("size",)

    def __init__(self, size: int, holes: Iterable[Cell]) -> None:
        """Builds the board.

        Args:
            size: Cells per side, at least 1.
            holes: Cells nobody may enter; a repeated hole counts once.

        Raises:
            ValueError: `size` is below 1, or a hole lies off the board.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size!r}")
        self.size = size
        self.width = size + 1
        line = (1 << size) - 1
        self.free = line * (((1 << self.width * size) - 1) // ((1 << self.width) - 1))  # the line repeated
        closed = 0
        for hole in holes:
            try:
                row, col = hole
            except (TypeError, ValueError):
                row = -1
            closed |= 1 << (row * self.width + col if 0 <= row < size and 0 <= col < size else self.index(hole, "hole"))
        self.free &= ~closed
        self.neighbours = _Adjacency(self.free, self.width, closed=False)
        self.reachable = _Adjacency(self.free, self.width, closed=True)
        self._balls: dict[int, list[int]] = {}
        self._descents: dict[tuple[int, int], list[int] | None] = {}

    @property
    def bipartite(self) -> bool:
        """True: cells alternate like the squares of a chessboard."""
        return True

    def index(self, cell: Cell, what: str = "cell") -> int:
        """Returns the bit position of a cell (hole or not); `what` names it in the error.

        Raises:
            ValueError: The cell is not a pair, or lies off the board.
        """
        try:
            row, col = cell
        except (TypeError, ValueError):
            raise ValueError(f"{what} {cell!r} is not a (row, col) pair") from None
        if not (0 <= row < self.size and 0 <= col < self.size):
            raise ValueError(f"{what} {cell!r} is off the board of size {self.size}")
        return row * self.width + col

    def bit(self, cell: Cell, what: str = "cell") -> int:
        """Returns the bit set that holds just this cell. Raises like `index`."""
        return 1 << self.index(cell, what)

    def cell(self, index: int) -> Cell:
        """Returns the cell at a bit position."""
        return divmod(index, self.width)

    def describes(self, size: int, holes: Iterable[Cell]) -> bool:
        """Tells whether this is the board of that size with exactly those holes."""
        return size == self.size and BitBoard(size, holes).free == self.free

    def near(self, cells: int) -> int:
        """Returns the free cells next to a cell of the set."""
        width = self.width
        return (cells << 1 | cells >> 1 | cells << width | cells >> width) & self.free

    def spread(self, cells: int) -> int:
        """Returns the set together with all the free cells next to it."""
        width = self.width
        return (cells | cells << 1 | cells >> 1 | cells << width | cells >> width) & self.free

    def ball(self, index: int) -> list[int]:
        """Returns the sets of cells within distance 0, 1, 2, ... of one; the last one is its whole component."""
        found = self._balls.get(index)
        if found is None:
            free, width = self.free, self.width
            cells = 1 << index & free
            self._balls[index] = found = [cells]
            while (grown := (cells | cells << 1 | cells >> 1 | cells << width | cells >> width) & free) != cells:
                found.append(grown)
                cells = grown
        return found

    def _descend(self, bit: int, cells: int) -> list[int] | None:
        free, width = self.free, self.width
        found = [cells]
        while not cells & bit:
            grown = (cells | cells << 1 | cells >> 1 | cells << width | cells >> width) & free
            if grown == cells:
                return None
            found.append(grown)
            cells = grown
        return found

    def flood(self, cells: int, within: int) -> int:
        """Returns every cell of `within` connected inside it to `cells`, `cells` included."""
        width = self.width
        while True:
            grown = cells | ((cells << 1 | cells >> 1 | cells << width | cells >> width) & within)
            if grown == cells:
                return cells
            cells = grown

    def short_cycles(self, within: int, longest: int) -> list[Cycle]:
        """Returns the 2x2 blocks inside a set, clockwise: a grid has no other cycle of fewer than 6 cells."""
        width = self.width
        corners = within & within >> 1 & within >> width & within >> width + 1
        return [(corner, corner + 1, corner + width + 1, corner + width) for corner in indices(corners)] if longest >= 4 else []

    def layers(self, cell: Cell) -> list[int]:
        """Returns the sets of cells at distance exactly 0, 1, 2, ... of a free cell."""
        return self.rings(self.index(cell))

    def distance(self, start: Cell, goal: Cell) -> int | None:
        """Returns the fewest moves from one free cell to another, None when there is no way.

        Raises:
            ValueError: A cell lies off the board.
        """
        return self.steps(self.index(start), self.index(goal))

    def component(self, cell: Cell) -> int:
        """Returns the bit set of the cells connected to this one, itself included (empty for a hole)."""
        return self.ball(self.index(cell))[-1]
