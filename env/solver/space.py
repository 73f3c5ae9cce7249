"""What every search needs of the place it plans in: sets of vertices as single integers, neighbours, distances.

`BitBoard` (a grid with holes) and `GraphBoard` (any undirected graph) fill it in. A vertex is a bit position. The
searches take the neighbours of a whole set with shifts when `width` is not 0, and with `near` otherwise.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

Cycle: TypeAlias = tuple[int, ...]
"""Vertex indices around a simple cycle, in one direction."""


def indices(cells: int) -> Iterator[int]:
    """Yields the index of every vertex in a bit set, in ascending order."""
    while cells:
        bit = cells & -cells
        cells ^= bit
        yield bit.bit_length() - 1


class BitSpace(ABC):
    """A graph whose sets of vertices are single integers, with cached distances.

    Attributes:
        width: On a grid, the shift that leads one row down; 0 where neighbours are no shifts.
        free: Bit set of the vertices that exist.
        neighbours: Index of a vertex to the bit set of the vertices next to it.
        reachable: The same with the vertex itself: where an agent may be one timestep later.
    """

    __slots__ = ("_balls", "_descents", "free", "neighbours", "reachable", "width")

    width: int
    free: int
    neighbours: Mapping[int, int]
    reachable: Mapping[int, int]
    _balls: dict[int, list[int]]
    _descents: dict[tuple[int, int], list[int] | None]

    @property
    @abstractmethod
    def bipartite(self) -> bool:
        """True when every closed walk has even length, so that a walk's length has the parity of the distance."""

    @abstractmethod
    def near(self, cells: int) -> int:
        """Returns the vertices next to a vertex of the set (of the set itself only those next to another one)."""

    @abstractmethod
    def short_cycles(self, within: int, longest: int) -> Sequence[Cycle] | None:
        """Returns the simple cycles of at most `longest` vertices inside a set, each in one direction; None when they are too many."""

    def spread(self, cells: int) -> int:
        """Returns the set together with all the vertices next to it."""
        return cells | self.near(cells)

    def flood(self, cells: int, within: int) -> int:
        """Returns every vertex of `within` connected inside it to `cells`, `cells` included."""
        fresh = cells
        while fresh:
            fresh = self.near(fresh) & within & ~cells
            cells |= fresh
        return cells

    def ball(self, index: int) -> list[int]:
        """Returns the sets of vertices within distance 0, 1, 2, ... of one; the last one is its whole component."""
        found = self._balls.get(index)
        if found is None:
            cells = 1 << index & self.free
            self._balls[index] = found = [cells]
            while (grown := self.spread(cells)) != cells:
                found.append(grown)
                cells = grown
        return found

    def rings(self, index: int) -> list[int]:
        """Returns the sets of vertices at distance exactly 0, 1, 2, ... of one."""
        ball = self.ball(index)
        return [ball[0], *(outer & ~inner for inner, outer in pairwise(ball))]

    def steps(self, start: int, goal: int) -> int | None:
        """Returns the distance between two vertices, None when they are not connected."""
        found = self.descent(start, goal)
        return None if found is None else len(found) - 1

    def descent(self, start: int, goal: int) -> list[int] | None:
        """Returns the sets of vertices within distance 0, 1, 2, ... of `goal`, up to the first that holds `start`; None for no way."""
        try:
            return self._descents[start, goal]
        except KeyError:
            found = self._descents[start, goal] = self._descend(1 << start, 1 << goal & self.free)
            return found

    def _descend(self, bit: int, cells: int) -> list[int] | None:
        found = [cells]
        while not cells & bit:
            grown = self.spread(cells)
            if grown == cells:
                return None
            found.append(grown)
            cells = grown
        return found

    def shortest(self, start: int, goal: int) -> list[int] | None:
        """Returns the sets of vertices that shortest paths from one vertex to another are on at timesteps 0, 1, ...; None for no way."""
        balls = self.descent(start, goal)
        if balls is None:
            return None
        width = self.width
        cells = 1 << start
        found = [cells]
        for ball in balls[-2::-1]:
            cells = (cells << 1 | cells >> 1 | cells << width | cells >> width if width else self.near(cells)) & ball
            found.append(cells)
        return found

    def components(self) -> list[int]:
        """Returns the connected components as bit sets, in the order of their first vertices."""
        rest = self.free
        found = []
        while rest:
            cells = self.flood(rest & -rest, rest)
            found.append(cells)
            rest ^= cells
        return found
