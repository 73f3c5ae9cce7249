"""Plans in the terminal: step by step, with colour where the terminal has it, and in plain ASCII anywhere.

`.` is ice, `#` a hole, `A B C ...` are agents 0, 1, 2, ... and `a b c ...` their goals; an agent at its own goal is `@` in plain
text and underlined in colour. From the 27th agent on names have two letters (`AA`, `aa`). At the timestep that breaks a rule the
agents stand where they were, and `!`, or a red cell, is where it happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from envwright.env.pictures import palette
from envwright.env.pictures.figures import fault_cells
from envwright.env.pictures.story import Story

__all__ = ["PLAIN", "TextStyle", "agent_name", "draw_moment", "draw_story", "story_legend", "text_style", "verdict_line"]

Cell = tuple[int, int]

_WIDTH = 100
"""Columns of output that is no terminal."""
_TERMINAL_COLOURS = (25, 214, 36, 175, 117, 227, 61)
"""The agents' colours among the 256 that terminals have."""
_DIM, _BOLD, _RED, _GREEN, _FAULT = "2", "1", "1;31", "1;32", "1;38;5;231;48;5;160"


@dataclass(frozen=True, slots=True)
class TextStyle:
    """How to draw."""

    colour: bool
    """Use ANSI escape sequences."""
    unicode: bool
    """Use characters beyond ASCII."""
    width: int = _WIDTH
    """Columns that may be filled."""

    def paint(self, text: str, code: str) -> str:
        """Return the text in a colour, where there are colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text


PLAIN = TextStyle(colour=False, unicode=False)
"""ASCII without escape sequences."""


def text_style(stream: TextIO, environment: Mapping[str, str], columns: int = _WIDTH) -> TextStyle:
    """Return the style that suits a stream.

    Colour is for terminals. `NO_COLOR` turns it off everywhere; failing that, `FORCE_COLOR` turns it on everywhere. Without
    colour, or where the encoding is not UTF-8, the drawing is ASCII.

    Args:
        stream: where the drawing goes.
        environment: environment variables.
        columns: columns of the terminal.
    """
    terminal = stream.isatty()
    if environment.get("NO_COLOR"):
        colour = False
    elif environment.get("FORCE_COLOR", "") not in ("", "0"):
        colour = True
    else:
        colour = terminal and environment.get("TERM") != "dumb"
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "").replace("_", "")
    return TextStyle(colour, colour and encoding == "utf8", columns if terminal else _WIDTH)


def agent_name(agent: int) -> str:
    """Return an agent's name in drawings: A to Z, then AA, AB, ..."""
    return (chr(ord("A") + agent // 26 - 1) if agent >= 26 else "") + chr(ord("A") + agent % 26)


def story_legend(story: Story, style: TextStyle) -> str:
    """Return what the signs mean: a line for each agent with its start, goal and moves, and one for the rest."""
    names = [agent_name(agent).ljust(1 + (story.num_agents > 26)) for agent in range(story.num_agents)]
    starts, goals = story.board.starts, story.board.goals
    lines = [
        f"{style.paint(name, _agent_code(agent))} agent {agent}: {starts[agent]} to {goals[agent]}  {story.moves(agent)}".rstrip()
        for agent, name in enumerate(names)
    ]
    home, fault = ("underlined", "red") if style.colour else ("@", "!")
    parts = ["small letters: goals", f"{home}: an agent at its goal", f"{'░' if style.unicode else '#'}: a hole"]
    if story.violation is not None:
        parts.append(f"{fault}: where the rule was broken" if story.broken_step is not None else f"{fault}: a goal not reached")
    return "\n".join([*lines, "; ".join(parts)])


def draw_moment(story: Story, step: int, style: TextStyle = PLAIN) -> str:
    """Draw the board at one timestep, under a line that names it.

    Raises:
        UserError: the story has no such timestep.
    """
    story.check_step(step)
    return "\n".join(line.rstrip() for line in _frame(story, step, style))


def draw_story(story: Story, style: TextStyle = PLAIN) -> str:
    """Draw all timesteps, as many side by side as the width allows."""
    frames = [_frame(story, step, style) for step in range(story.last + 1)]
    width = max(_gutter(story) + _wide(story, style) * story.board.size, len(f"t={story.last} !"))
    per_row = max(1, (style.width + 3) // (width + 3))
    blocks = []
    for first in range(0, len(frames), per_row):
        rows = zip(*frames[first : first + per_row], strict=True)
        blocks.append("\n".join("".join(_padded(part, width + 3) for part in parts).rstrip() for parts in rows))
    return "\n\n".join(blocks)


def verdict_line(story: Story, style: TextStyle) -> str:
    """Return what became of the plan: the costs, or what went wrong, when, who and where."""
    good = story.violation is None
    sign = ("✓ " if good else "✗ ") if style.unicode else ""
    return style.paint(sign + story.verdict(), _GREEN if good else _RED)


def _wide(story: Story, style: TextStyle) -> int:
    """Return the columns of a cell."""
    return (2 if style.colour else 1) + (story.num_agents > 26)


def _gutter(story: Story) -> int:
    return len(str(story.board.size - 1)) + 1


def _padded(text: str, width: int) -> str:
    first, *rest = text.split("\x1b[")
    visible = len(first) + sum(len(piece.partition("m")[2]) for piece in rest)
    return text + " " * (width - visible)


def _frame(story: Story, step: int, style: TextStyle) -> list[str]:
    """Return the lines of one timestep: title, column numbers, rows."""
    size, wide, gutter = story.board.size, _wide(story, style), _gutter(story)
    faulty = step == story.last and story.violation is not None
    signs = _signs(story, step, style)
    marks = (
        {cell: style.paint(_fault_sign(signs.get(cell, ""), style).ljust(wide), _FAULT) for cell in fault_cells(story)} if faulty else {}
    )
    drawn = {cell: style.paint(sign.ljust(wide), code) for cell, (sign, code) in signs.items()} | marks
    ice = style.paint(("·" if style.unicode else ".").ljust(wide), _DIM)
    header = " " * gutter + "".join(str(col % 10).ljust(wide) for col in range(size))
    lines = [style.paint(f"t={step} !", _RED) if faulty else style.paint(f"t={step}", _BOLD), style.paint(header, _DIM)]
    for row in range(size):
        cells = "".join(drawn.get((row, col), ice) for col in range(size))
        lines.append(style.paint(f"{row:>{gutter - 1}} ", _DIM) + cells)
    return lines


def _fault_sign(under: str | tuple[str, str], style: TextStyle) -> str:
    """Return what a faulty cell shows: in colour the agent or goal that is there, else a mark."""
    sign = under[0] if under else ""
    return sign if style.colour and sign.isalpha() else "✗" if style.unicode else "!"


def _signs(story: Story, step: int, style: TextStyle) -> dict[Cell, tuple[str, str]]:
    """Return the sign and colour of every cell that is not bare ice; agents cover goals."""
    hole = "░" * _wide(story, style) if style.unicode else "#" * (_wide(story, style) if style.colour else 1)
    signs: dict[Cell, tuple[str, str]] = dict.fromkeys(story.board.holes, (hole, "90"))
    for agent, goal in enumerate(story.board.goals):
        signs[goal] = (agent_name(agent).lower(), f"1;38;5;{_TERMINAL_COLOURS[agent % len(_TERMINAL_COLOURS)]}")
    for agent, cell in enumerate(story.positions(step)):
        home = cell == story.board.goals[agent]
        signs[cell] = ("@" if home and not style.colour else agent_name(agent), ("4;" if home else "") + _agent_code(agent))
    return signs


def _agent_code(agent: int) -> str:
    """Return the escape code of an agent: its colour behind black or white."""
    ink = 16 if palette.ink_on(palette.agent_colour(agent)) == palette.INK else 231
    return f"1;38;5;{ink};48;5;{_TERMINAL_COLOURS[agent % len(_TERMINAL_COLOURS)]}"
