"""Agents, goals, paths and the first violation, as shapes on a board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot

from envwright.env.pictures import palette
from envwright.env.pictures.grid import Grid
from envwright.env.pictures.shapes import Arrow, Disc, Group, Label, Point, Polyline, Rect, Shape, arrow
from envwright.env.pictures.story import Story
from envwright.env.rules import Outcome

__all__ = ["agent_figures", "fault_cells", "fault_figures", "goal_figures", "path_figures", "trail_figures", "wait_badge", "wait_figures"]

Cell = tuple[int, int]

_SLOTS = 5
"""Side-by-side places for paths in one corridor."""
_ROOM_FOR_CORNERS = 32.0
"""Side of a cell, in pixels, from which a goal's number moves to the corner when another agent stands on the goal."""


@dataclass(frozen=True, slots=True)
class _Look:
    """Sizes in cells; in small cells figures fill more of them, so that their numbers can be read."""

    radius: float
    """Radius of an agent's disc."""
    home: float
    """The same on a goal, so that the goal's square shows around it."""
    goal_inset: float
    """Space around a goal's square."""
    number: float
    """Height of a number of one digit; at home 0.87 of it."""


_LARGE, _SMALL = _Look(0.34, 0.29, 0.1, 0.46), _Look(0.41, 0.35, 0.05, 0.52)


def _look(grid: Grid) -> _Look:
    return _LARGE if grid.cell >= _ROOM_FOR_CORNERS else _SMALL


def _number(grid: Grid, agent: int, place: Point, size: float, fill: str) -> Label:
    text = str(agent)
    height = size * grid.cell * (1.0 if len(text) == 1 else 0.87)
    return Label(place[0], place[1] + 0.36 * height, text, height, fill, bold=True)


def goal_figures(story: Story, grid: Grid, positions: Sequence[Cell]) -> Iterator[Shape]:
    """Yield the goals: squares in the agent's colour with its number, which makes room for an agent that stands there."""
    for agent, goal in enumerate(story.board.goals):
        colour = palette.agent_colour(agent)
        square = grid.square(goal, _look(grid).goal_inset, 0.1, palette.tint(colour, 0.22), palette.edge(colour), 0.06)
        yield Group("goal", f"goal of agent {agent}: {goal}", (square, *_goal_number(grid, agent, goal, positions)), agent)


def _goal_number(grid: Grid, agent: int, goal: Cell, positions: Sequence[Cell]) -> Iterator[Label]:
    (x, y), unit = grid.centre(goal), grid.cell
    if goal not in positions:
        yield _number(grid, agent, (x, y), _look(grid).number, palette.INK)
    elif positions[agent] != goal and unit >= _ROOM_FOR_CORNERS:
        yield Label(x + 0.34 * unit, y + 0.345 * unit, str(agent), 0.19 * unit, palette.INK, "end", bold=True)


def agent_figures(story: Story, grid: Grid, step: int) -> Iterator[Shape]:
    """Yield the agents where they are at a timestep: discs with numbers."""
    goals, look = set(story.board.goals), _look(grid)
    for agent, cell in enumerate(story.positions(step)):
        colour = palette.agent_colour(agent)
        x, y = grid.centre(cell)
        radius = (look.home if cell in goals else look.radius) * grid.cell
        disc = Disc(x, y, radius, colour, palette.tint(colour, 0.45, palette.INK), max(1.0, 0.035 * grid.cell))
        size = look.number * (0.87 if cell in goals else 1.0)
        yield Group("agent", f"agent {agent} at {cell}", (disc, _number(grid, agent, (x, y), size, palette.ink_on(colour))), agent)


def _shift(story: Story, agent: int, grid: Grid) -> float:
    slots = min(_SLOTS, story.num_agents)
    return ((agent % slots) - (slots - 1) / 2) * min(0.14, 0.48 / slots) * grid.cell


def _cells_left(trail: Sequence[Cell]) -> list[Cell]:
    """Drop the waits from a trail."""
    return [trail[0], *(after for before, after in pairwise(trail) if before != after)]


def path_figures(story: Story, grid: Grid) -> Iterator[Shape]:
    """Yield every agent's path as an arrow, shifted a little so that paths in one corridor run side by side."""
    for agent in range(story.num_agents):
        cells = _cells_left(story.trail(agent, story.last))
        if len(cells) < 2:
            continue
        shift = _shift(story, agent, grid)
        points = [(x + shift, y + shift) for x, y in map(grid.centre, cells)]
        at_goal = cells[-1] == story.board.goals[agent]
        points[-1] = _short_of(points[-2], points[-1], (0.54 - _look(grid).goal_inset) * grid.cell if at_goal else 0.0, shift)
        width = max(1.4, 0.07 * grid.cell)
        look = Arrow(palette.edge(palette.agent_colour(agent)), width, max(5.0, 0.2 * grid.cell))
        dash = tuple(part * width for part in palette.agent_dash(agent))
        yield Group("path", f"path of agent {agent}: {story.moves(agent) or 'no move'}", tuple(arrow(points, look, dash)), agent)


def _short_of(start: Point, end: Point, gap: float, shift: float) -> Point:
    """Return the end of an arrow that stops `gap` pixels before the middle of its last cell, whatever the path's shift."""
    length = hypot(end[0] - start[0], end[1] - start[1])
    ux, uy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    gap += shift * (ux + uy)
    return end[0] - ux * gap, end[1] - uy * gap


def trail_figures(story: Story, grid: Grid, step: int) -> Iterator[Shape]:
    """Yield, pale, the way that every agent has come."""
    for agent in range(story.num_agents):
        cells = _cells_left(story.trail(agent, step))
        if len(cells) > 1:
            shift = _shift(story, agent, grid)
            points = tuple((x + shift, y + shift) for x, y in map(grid.centre, cells))
            yield Polyline(points, palette.tint(palette.agent_colour(agent), 0.42, palette.ICE), max(1.6, 0.09 * grid.cell))


def wait_badge(x: float, y: float, radius: float, colour: str, count: int = 1) -> Iterator[Shape]:
    """Yield the sign of a wait: a small badge with the two bars of a pause button, and the count when it is above 1."""
    half = radius if count == 1 else 1.6 * radius
    edge = palette.edge(colour)
    yield Rect(x - half, y - radius, 2 * half, 2 * radius, palette.PAPER, edge, max(1.0, 0.2 * radius), radius)
    left = x + radius - half
    for side in (-0.3, 0.3):
        bar = 0.28 * radius
        yield Rect(left + side * radius - bar / 2, y - 0.45 * radius, bar, 0.9 * radius, palette.INK)
    if count > 1:
        size = 1.35 * radius
        yield Label(left + 0.75 * radius, y + 0.36 * size, str(count), size, palette.INK, "start", bold=True)


_CORNERS = ((0.33, -0.33), (-0.33, -0.33), (-0.33, 0.33), (0.33, 0.33))


def wait_figures(story: Story, grid: Grid) -> Iterator[Shape]:
    """Yield a pause sign in a corner of every cell in which an agent waits on its way, with a count where it waits longer."""
    taken: dict[Cell, int] = {}
    for agent in range(story.num_agents):
        for cell, count in story.waits(agent).items():
            index = taken[cell] = taken.get(cell, -1) + 1
            dx, dy = _CORNERS[index % len(_CORNERS)]
            x, y = grid.centre(cell)
            x, y, radius = x + dx * grid.cell, y + dy * grid.cell, 0.15 * grid.cell
            shapes = tuple(wait_badge(x, y, radius, palette.agent_colour(agent), count))
            times = "" if count == 1 else f" {count} timesteps"
            yield Group("wait", f"agent {agent} waits{times} at {cell}", shapes, agent)


def fault_figures(story: Story, grid: Grid) -> Iterator[Shape]:
    """Yield the first violation: where it happens in a red frame, arrows of the agents at fault, and a cross."""
    if story.violation is None:
        return
    shapes: list[Shape] = [*_fault_frames(story, grid), *_fault_arrows(story, grid)]
    for x, y in _fault_places(story, grid):
        shapes += _cross(x, y, max(7.5, 0.17 * grid.cell))
    yield Group("violation", story.verdict(), tuple(shapes))


def _fault_frames(story: Story, grid: Grid) -> Iterator[Shape]:
    """Yield red frames: one around both cells of a swap, else one per cell."""
    cells, width = fault_cells(story), max(0.07, 2.0 / grid.cell)
    if story.violation is Outcome.SWAP_CONFLICT:
        first, second = grid.square(min(cells), 0.0, 0.12, None), grid.square(max(cells), 0.0, 0.12, None)
        wide, high = second.x + second.width - first.x, second.y + second.height - first.y
        yield Rect(first.x, first.y, wide, high, None, palette.FAULT, width * grid.cell, first.radius)
    else:
        yield from (grid.square(cell, 0.02, 0.12, None, palette.FAULT, width) for cell in cells)


def fault_cells(story: Story) -> list[Cell]:
    """Return where the first violation happens: the cell entered, both cells of a swap, the cell left, or the goals not reached."""
    before, after, agents = story.positions(story.last), story.attempts(), story.culprits
    if story.violation is Outcome.GOAL_NOT_REACHED:
        return [story.board.goals[agent] for agent in agents]
    if story.violation is Outcome.VERTEX_CONFLICT:
        return [cell for cell in (after[agents[0]],) if cell is not None]
    if story.violation is Outcome.HOLE:
        return sorted({cell for agent in agents if (cell := after[agent]) is not None})
    return [before[agent] for agent in agents]


def _fault_places(story: Story, grid: Grid) -> Iterator[Point]:
    """Yield where the crosses go: between the two cells of a swap, else in a corner of each cell."""
    before, agents = story.positions(story.last), story.culprits
    if story.violation is Outcome.SWAP_CONFLICT:
        yield _between(grid, before[agents[0]], before[agents[1]])
    else:
        for cell in fault_cells(story):
            x, y = grid.centre(cell)
            yield x + 0.42 * grid.cell, y - 0.42 * grid.cell


def _between(grid: Grid, first: Cell, second: Cell) -> Point:
    (x0, y0), (x1, y1) = grid.centre(first), grid.centre(second)
    return (x0 + x1) / 2, (y0 + y1) / 2


def _fault_arrows(story: Story, grid: Grid) -> Iterator[Shape]:
    """Yield where the agents at fault were heading; those that swap pass each other on the right."""
    if story.broken_step is None:
        return
    unit = grid.cell
    swap = story.violation is Outcome.SWAP_CONFLICT
    look = Arrow(palette.INK, max(1.4, 0.06 * unit), max(4.5, (0.17 if swap else 0.22) * unit), None if swap else palette.PAPER)
    for agent in story.culprits:
        start, end = story.positions(story.last)[agent], story.attempts()[agent]
        if end is None or end == start:
            continue
        (x0, y0), (x1, y1) = grid.centre(start), grid.centre(end)
        length = hypot(x1 - x0, y1 - y0)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        first, last, side = (0.05, 0.95, 0.4) if swap else (0.42, 0.78, 0.0)
        if story.violation is Outcome.OUT_OF_BOUNDS:
            first, last = 0.4, 0.86
        ox, oy = -uy * side * unit, ux * side * unit
        points = [(x0 + ux * share * unit + ox, y0 + uy * share * unit + oy) for share in (first, last * length / unit if swap else last)]
        yield from arrow(points, look)


def _cross(x: float, y: float, radius: float) -> Iterator[Shape]:
    yield Disc(x, y, radius, palette.FAULT, palette.PAPER, max(1.0, 0.2 * radius))
    arm = 0.42 * radius
    for slope in (1, -1):
        yield Polyline(((x - arm, y - slope * arm), (x + arm, y + slope * arm)), palette.PAPER, max(1.2, 0.28 * radius))
