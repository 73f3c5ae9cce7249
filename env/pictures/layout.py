"""Whole pictures of a story: the plan at a glance, one timestep, or all timesteps as a strip."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envwright.env.errors import UserError
from envwright.env.instance import Board
from envwright.env.pictures import palette
from envwright.env.pictures.figures import (
    agent_figures,
    fault_figures,
    goal_figures,
    path_figures,
    trail_figures,
    wait_badge,
    wait_figures,
)
from envwright.env.pictures.grid import Grid, board_shapes, cell_size
from envwright.env.pictures.shapes import Disc, Group, Label, Lines, Picture, Polyline, Rect, Shape
from envwright.env.pictures.story import Story

__all__ = ["animation_pictures", "moment_picture", "overview_picture", "strip_picture"]

_MARGIN = 34.0
_MIN_WIDTH = 320.0
_STRIP_WIDTH = 1500.0
_STRIP_CELLS = (40.0, 32.0, 26.0, 20.0, 18.0)
_STRIP_AREA = 12e6
"""Largest area of a strip, in square pixels before scaling."""
_TWO_PANELS = 12
"""Largest side at which the violation gets a second panel of its own."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """The space around the panels: a row of headings above, caption and legend below."""

    panel: float
    """Side of a panel: the board with its margins."""
    columns: int
    rows: int
    text: float
    """Size of the text."""
    caption: tuple[str, ...]
    reserved: int
    """Lines kept for the caption, at least as many as it has."""
    legend: bool
    headings: bool

    @property
    def heading(self) -> float:
        """Height of the line above each panel."""
        return 1.5 * self.text if self.headings else 0.0

    @property
    def width(self) -> float:
        return max(_MIN_WIDTH, self.columns * self.panel)

    @property
    def caption_top(self) -> float:
        return self.rows * (self.panel + self.heading) - 8.0

    @property
    def height(self) -> float:
        lines = 1.45 * self.text * self.reserved
        return round(self.caption_top + lines + (2.2 * self.text if self.legend else 0.0) + 0.9 * self.text)

    def grid(self, board: Board, cell: float, index: int = 0) -> Grid:
        row, column = divmod(index, self.columns)
        left = (self.width - self.columns * self.panel) / 2
        return Grid(left + column * self.panel + _MARGIN, row * (self.panel + self.heading) + self.heading + _MARGIN, cell, board.size)


def _frame(
    board: Board, cell: float, columns: int, rows: int, caption: str, legend: bool, reserved: int | None = None, headings: bool = True
) -> _Frame:
    panel = board.size * cell + 2 * _MARGIN
    width = max(_MIN_WIDTH, columns * panel)
    text = max(14.0, min(22.0, width / 45))
    room = int((width - 2 * _MARGIN - 1.6 * text) / (0.52 * text))
    lines = textwrap.wrap(caption, room, max_lines=reserved, placeholder=" ...") if reserved else textwrap.wrap(caption, room)
    return _Frame(panel, columns, rows, text, tuple(lines), reserved or len(lines), legend, headings)


def _heading(frame: _Frame, grid: Grid, text: str) -> Label:
    return Label(grid.x, grid.y - _MARGIN + 0.55 * frame.text, text, frame.text, palette.INK, "start", bold=True)


def _caption(frame: _Frame, story: Story, ended: bool) -> Iterator[Shape]:
    """Yield the caption with a check mark or a cross before it."""
    size, x, y = frame.text, _MARGIN, frame.caption_top + 1.1 * frame.text
    if ended and story.simulation is not None:
        middle, radius = y - 0.35 * size, 0.55 * size
        good = story.violation is None
        yield Disc(x + radius, middle, radius, palette.SUCCESS if good else palette.FAULT)
        arm = 0.45 * radius
        left, right, centre = x + radius - arm, x + radius + arm, x + radius
        if good:
            yield Polyline(
                ((left, middle), (centre - 0.2 * arm, middle + 0.75 * arm), (right, middle - 0.7 * arm)), palette.PAPER, 0.13 * size
            )
        else:
            for slope in (1, -1):
                yield Polyline(((left, middle - slope * arm), (right, middle + slope * arm)), palette.PAPER, 0.13 * size)
        x += 1.6 * size
    for index, line in enumerate(frame.caption):
        yield Label(x, y + 1.45 * size * index, line, size, palette.INK, "start")


def _legend(frame: _Frame, story: Story, waits: bool) -> Iterator[Shape]:
    """Yield the signs and what they mean, in a row at the bottom."""
    size = 0.88 * frame.text
    middle, x, colour = frame.height - 1.3 * frame.text, _MARGIN, palette.agent_colour(0)
    radius = 0.52 * size
    items: list[tuple[str, list[Shape]]] = [
        ("agent", [Disc(0, 0, radius, colour, palette.tint(colour, 0.45, palette.INK), 1.0)]),
        (
            "goal",
            [Rect(-radius, -radius, 2 * radius, 2 * radius, palette.tint(colour, 0.22), palette.edge(colour), 1.6, 2.0)],
        ),
    ]
    if story.board.holes:
        hatch = Lines(tuple((-r * radius, s * radius, r * radius, -s * radius) for r, s in ((0.7, 0.7),)), palette.HATCH, 1.4)
        items.append(("hole", [Rect(-radius, -radius, 2 * radius, 2 * radius, palette.HOLE, radius=2.0), hatch]))
    if waits and any(story.waits(agent) for agent in range(story.num_agents)):
        items.append(("wait", list(wait_badge(0, 0, radius, colour))))
    shapes: list[Shape] = []
    for name, icon in items:
        shapes += [_moved(shape, x + radius, middle) for shape in icon]
        shapes.append(Label(x + 2 * radius + 0.45 * size, middle + 0.34 * size, name, size, palette.MUTED, "start"))
        x += 2 * radius + (0.45 + 0.52 * len(name) + 1.3) * size
    yield Group("legend", "legend: " + ", ".join(name for name, _ in items), tuple(shapes))


def _moved(shape: Shape, dx: float, dy: float) -> Shape:
    if isinstance(shape, Disc):
        return Disc(shape.x + dx, shape.y + dy, shape.radius, shape.fill, shape.stroke, shape.stroke_width)
    if isinstance(shape, Rect):
        return Rect(shape.x + dx, shape.y + dy, shape.width, shape.height, shape.fill, shape.stroke, shape.stroke_width, shape.radius)
    if isinstance(shape, Lines):
        return Lines(tuple((a + dx, b + dy, c + dx, d + dy) for a, b, c, d in shape.segments), shape.stroke, shape.stroke_width)
    return shape


def _moment(story: Story, grid: Grid, step: int) -> Iterator[Shape]:
    yield from trail_figures(story, grid, step)
    yield from goal_figures(story, grid, story.positions(step))
    yield from agent_figures(story, grid, step)
    if step == story.last:
        yield from fault_figures(story, grid)


def _overview(story: Story, grid: Grid) -> Iterator[Shape]:
    yield from path_figures(story, grid)
    yield from goal_figures(story, grid, story.board.starts)
    yield from agent_figures(story, grid, 0)
    yield from wait_figures(story, grid)


def _picture(story: Story, frame: _Frame, grids: Sequence[Grid], what: str, foreground: Sequence[Shape]) -> Picture:
    size, agents = story.board.size, story.num_agents
    title = f"MAPF-FrozenLake {size}x{size}, {agents} agent{'s' if agents > 1 else ''}: {what}"
    background: list[Shape] = [Rect(0, 0, frame.width, frame.height, palette.PAPER)]
    for grid in grids:
        background += board_shapes(story.board, grid)
    return Picture(frame.width, frame.height, title, _description(story), tuple(background), tuple(foreground))


def _description(story: Story) -> str:
    board = story.board
    agents = "; ".join(
        f"agent {agent}: start {board.starts[agent]}, goal {board.goals[agent]}, moves {story.moves(agent) or 'none'}"
        for agent in range(story.num_agents)
    )
    holes = ", ".join(map(str, board.holes)) or "none"
    return f"Cells are (row, col) from the top left. Holes: {holes}. {agents}. {story.verdict()}."


def _step_heading(story: Story, step: int) -> str:
    return f"t = {step}" if step != story.broken_step else f"t = {step - 1} to {step}"


def overview_picture(story: Story) -> Picture:
    """Return the plan at a glance: starts, goals and paths; on boards up to 12x12 a violation gets a panel of its own."""
    board, cell = story.board, cell_size(story.board.size)
    beside = story.violation is not None and board.size <= _TWO_PANELS
    frame = _frame(board, cell, 2 if beside else 1, 1, story.verdict(), legend=True, headings=beside)
    grids = [frame.grid(board, cell, index) for index in range(1 + beside)]
    shapes = [*_overview(story, grids[0])]
    carried_out = story.last - (story.broken_step is not None)
    if beside:
        shapes += [
            _heading(frame, grids[0], f"t = 0 to {carried_out}" if carried_out else "t = 0"),
            _heading(frame, grids[1], _step_heading(story, story.last)),
        ]
        shapes += _moment(story, grids[1], story.last)
    else:
        shapes += fault_figures(story, grids[0])
    shapes += [*_caption(frame, story, ended=True), *_legend(frame, story, waits=True)]
    return _picture(story, frame, grids, "a plan", shapes)


def moment_picture(story: Story, step: int, caption_lines: int | None = None) -> Picture:
    """Return one timestep: where the agents are and the way they have come; at the broken one what went wrong.

    Args:
        story: the plan.
        step: the timestep, 0 to the story's last.
        caption_lines: lines kept for the caption, to which a longer one is cut; None means as many as it has.

    Raises:
        UserError: the story has no such timestep.
    """
    story.check_step(step)
    board, cell = story.board, cell_size(story.board.size)
    ended = step == story.last
    caption = story.verdict() if ended or story.note else f"timestep {step} of {story.last}"
    frame = _frame(board, cell, 1, 1, caption, legend=False, reserved=caption_lines)
    grid = frame.grid(board, cell)
    shapes = [_heading(frame, grid, _step_heading(story, step)), *_moment(story, grid, step), *_caption(frame, story, ended)]
    return _picture(story, frame, [grid], f"timestep {step}", shapes)


def animation_pictures(story: Story) -> list[Picture]:
    """Return a picture of every timestep, all of one size."""
    lines = len(_frame(story.board, cell_size(story.board.size), 1, 1, story.verdict(), legend=False).caption)
    return [moment_picture(story, step, caption_lines=lines) for step in range(story.last + 1)]


def strip_picture(story: Story) -> Picture:
    """Return all timesteps side by side, in rows.

    Raises:
        UserError: the picture would be too large to be looked at.
    """
    board, count = story.board, story.last + 1
    cell, columns, rows = _strip_shape(board.size, count)
    frame = _frame(board, cell, columns, rows, story.verdict(), legend=True)
    grids = [frame.grid(board, cell, index) for index in range(count)]
    shapes: list[Shape] = []
    for step, grid in enumerate(grids):
        shapes += [_heading(frame, grid, _step_heading(story, step)), *_moment(story, grid, step)]
    shapes += [*_caption(frame, story, ended=True), *_legend(frame, story, waits=False)]
    return _picture(story, frame, grids, f"timesteps 0 to {story.last}", shapes)


def _strip_shape(size: int, count: int) -> tuple[float, int, int]:
    """Return cell size, columns and rows: the largest cells with which the strip is not much higher than wide."""
    for cell in _STRIP_CELLS:
        panel = size * cell + 2 * _MARGIN
        columns = max(1, min(count, int(_STRIP_WIDTH // panel)))
        rows = -(-count // columns)
        if rows * panel <= 1.2 * columns * panel or count <= columns:
            break
    if columns * rows * panel * panel > _STRIP_AREA:
        raise UserError(f"a strip of {count} timesteps of a {size}x{size} board is too large; draw one timestep (--step) or a .gif")
    return cell, columns, rows
