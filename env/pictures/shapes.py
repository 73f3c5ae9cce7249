"""Drawing primitives that both the SVG writer and the rasteriser understand; coordinates are in pixels from the top left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import cos, hypot, pi, sin

__all__ = ["Arrow", "Disc", "Group", "Label", "Lines", "Picture", "Point", "Polygon", "Polyline", "Rect", "Shape", "arrow", "dashes"]

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle; its stroke is centred on its edge."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    stroke_width: float = 0.0
    radius: float = 0.0


@dataclass(frozen=True, slots=True)
class Disc:
    """A circle; its stroke is centred on its edge."""

    x: float
    y: float
    radius: float
    fill: str | None = None
    stroke: str | None = None
    stroke_width: float = 0.0


@dataclass(frozen=True, slots=True)
class Polyline:
    """A line through points, with round joins and ends."""

    points: tuple[Point, ...]
    stroke: str
    stroke_width: float
    dash: tuple[float, ...] = ()
    """Lengths drawn and left out in turn, in pixels; empty for a solid line."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Many separate straight lines with flat ends."""

    segments: tuple[tuple[float, float, float, float], ...]
    stroke: str
    stroke_width: float


@dataclass(frozen=True, slots=True)
class Polygon:
    """A filled polygon."""

    points: tuple[Point, ...]
    fill: str


@dataclass(frozen=True, slots=True)
class Label:
    """One line of text; `y` is its baseline."""

    x: float
    y: float
    text: str
    size: float
    fill: str
    anchor: str = "middle"
    """Where `x` is: "start", "middle" or "end" of the text."""
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Shapes that belong together: one agent, one goal, the violation."""

    kind: str
    """What the group shows; the class attribute in SVG."""
    title: str
    """What the group shows, in words, for screen readers and pointers that hover."""
    shapes: tuple[Shape, ...]
    agent: int | None = None
    """The agent, where there is one."""


Shape = Rect | Disc | Polyline | Lines | Polygon | Label | Group


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole picture."""

    width: float
    height: float
    title: str
    """What the picture shows, in a few words."""
    description: str
    """What the picture shows, in full, for those who cannot see it."""
    background: tuple[Shape, ...]
    """What stays the same in all frames of one plan."""
    foreground: tuple[Shape, ...]
    """What changes."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """How an arrow looks."""

    stroke: str
    stroke_width: float
    head: float
    """Length of the head in pixels."""
    halo: str | None = None
    """Colour of a wider arrow underneath, which sets it off from what it crosses."""


def arrow(points: Sequence[Point], look: Arrow, dash: tuple[float, ...] = ()) -> Iterator[Shape]:
    """Yield the shapes of an arrow along points, its tip at the last one."""
    (x0, y0), (x1, y1) = points[-2], points[-1]
    length = hypot(x1 - x0, y1 - y0)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    neck = (x1 - ux * look.head * 0.8, y1 - uy * look.head * 0.8)
    if look.halo is not None:
        wide = look.stroke_width * 0.7
        yield Polyline((*points[:-1], neck), look.halo, look.stroke_width + 2 * wide)
        yield Polygon(_head(x1 + ux * wide, y1 + uy * wide, ux, uy, look.head + 2.4 * wide), look.halo)
    yield Polyline((*points[:-1], neck), look.stroke, look.stroke_width, dash)
    yield Polygon(_head(x1, y1, ux, uy, look.head), look.stroke)


def _head(x: float, y: float, ux: float, uy: float, length: float) -> tuple[Point, ...]:
    spread = pi / 6.5
    corners = []
    for angle in (spread, -spread):
        bx, by = ux * cos(angle) - uy * sin(angle), ux * sin(angle) + uy * cos(angle)
        corners.append((x - bx * length, y - by * length))
    return ((x, y), corners[0], corners[1])


def dashes(points: Sequence[Point], pattern: Sequence[float]) -> Iterator[list[Point]]:
    """Yield the drawn pieces of a dashed line; a bend inside a dash is kept."""
    index, left, piece = 0, pattern[0], [points[0]]
    for start, end in pairwise(points):
        length, done = hypot(end[0] - start[0], end[1] - start[1]), 0.0
        while length - done > left:
            done += left
            place = (start[0] + (end[0] - start[0]) * done / length, start[1] + (end[1] - start[1]) * done / length)
            if index % 2 == 0:
                yield [*piece, place]
            index += 1
            left, piece = pattern[index % len(pattern)], [place]
        left -= length - done
        piece.append(end)
    if index % 2 == 0 and len(piece) > 1:
        yield piece
