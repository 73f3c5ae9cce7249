"""Plans in the terminal."""

from __future__ import annotations

import io
import re

import pytest

from envwright.env.instance import Board
from envwright.env.pictures.story import story_of
from envwright.env.pictures.text import PLAIN, TextStyle, agent_name, draw_moment, draw_story, story_legend, text_style, verdict_line
from envwright.env.rules import paths_from_moves
from tests.env.boards import board_of

BOARD = board_of("a.b .#. d.c", "ab", "cd")
COLOUR = TextStyle(colour=True, unicode=True)


def story(*plan: str, board: Board = BOARD):  # type: ignore[no-untyped-def]
    return story_of(board, paths_from_moves(board.starts, plan))


class Stream(io.StringIO):
    def __init__(self, terminal: bool, encoding: str) -> None:
        super().__init__()
        self._terminal, self._encoding = terminal, encoding

    def isatty(self) -> bool:
        return self._terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def test_a_plan_is_drawn_step_by_step_in_ascii() -> None:
    assert draw_story(story("RR", "LL")) == (
        "t=0     t=1     t=2\n  012     012     012\n0 A.a   0 .Aa   0 ..@\n1 .#.   1 .#.   1 .#.\n2 b.B   2 bB.   2 @.."
    )


@pytest.mark.parametrize(
    ("plan", "last"),
    [
        (("RD", "LL"), "t=2 !\n  012\n0 .Aa\n1 .!.\n2 bB."),
        (("U", "L"), "t=1 !\n  012\n0 !.a\n1 .#.\n2 b.B"),
        (("R", "LL"), "t=2 !\n  012\n0 .A!\n1 .#.\n2 @.."),
        (("DDR", "WWL"), "t=3 !\n  012\n0 ..a\n1 .#.\n2 A!B"),
        (("DDRR", "WWWL"), "t=4 !\n  012\n0 ..a\n1 .#.\n2 b!!"),
    ],
    ids=["hole", "out_of_bounds", "goal_not_reached", "vertex_conflict", "swap_conflict"],
)
def test_the_first_violation_is_marked_where_it_happens(plan: tuple[str, ...], last: str) -> None:
    told = story(*plan)
    assert draw_moment(told, told.last) == last


def test_colour_says_the_same_as_ascii_and_more() -> None:
    told = story("RD", "LL")
    coloured = draw_story(told, COLOUR)
    assert "\x1b[" in coloured
    assert "✗" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert bare.splitlines()[2].split()[:4] == ["0", "A", "·", "a"]
    assert bare.count("A") == bare.count("B") == 3
    widths = {len(line.rstrip()) for line in bare.splitlines()[1:2]}
    assert widths == {2 * (2 + 2 * 3 + 3) + 2 + 2 * 3 - 1}


def test_two_agents_have_two_colours_and_a_faulty_cell_a_third() -> None:
    first = draw_moment(story("RD", "LL"), 0, COLOUR)
    backgrounds = set(re.findall(r"48;5;(\d+)m", first))
    assert len(backgrounds) == 2
    assert set(re.findall(r"48;5;(\d+)m", draw_moment(story("RD", "LL"), 2, COLOUR))) - backgrounds == {"160"}


@pytest.mark.parametrize(
    ("terminal", "encoding", "environment", "expected"),
    [
        (True, "utf-8", {}, (True, True)),
        (True, "UTF8", {"TERM": "xterm"}, (True, True)),
        (True, "cp1252", {}, (True, False)),
        (True, "utf-8", {"TERM": "dumb"}, (False, False)),
        (True, "utf-8", {"NO_COLOR": "1"}, (False, False)),
        (True, "utf-8", {"NO_COLOR": ""}, (True, True)),
        (False, "utf-8", {}, (False, False)),
        (False, "utf-8", {"FORCE_COLOR": "1"}, (True, True)),
        (False, "utf-8", {"FORCE_COLOR": "0"}, (False, False)),
        (False, "utf-8", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, (False, False)),
    ],
)
def test_the_style_suits_terminal_encoding_and_environment(
    terminal: bool, encoding: str, environment: dict[str, str], expected: tuple[bool, bool]
) -> None:
    style = text_style(Stream(terminal, encoding), environment, 80)
    assert (style.colour, style.unicode) == expected
    assert style.width == (80 if terminal else 100)


def test_plain_drawings_are_ascii_without_escapes() -> None:
    told = story("RD", "LL")
    for text in (draw_story(told), story_legend(told, PLAIN), verdict_line(told, PLAIN)):
        assert text.isascii()
        assert "\x1b" not in text


def test_the_legend_lists_every_agent_and_only_the_signs_in_use() -> None:
    assert story_legend(story("RD", "LL"), PLAIN).splitlines() == [
        "A agent 0: (0, 0) to (0, 2)  RD",
        "B agent 1: (2, 2) to (2, 0)  LL",
        "small letters: goals; @: an agent at its goal; #: a hole; !: where the rule was broken",
    ]
    assert "!" not in story_legend(story("RR", "LL"), PLAIN)


def test_thirty_agents_have_thirty_names_and_no_line_is_wider_than_asked() -> None:
    cells = [(row, col) for row in range(40) for col in range(40)]
    crowd = Board(size=40, holes=(), starts=tuple(cells[:30]), goals=tuple(cells[40:70]))
    told = story(*["D"] * 30, board=crowd)
    drawn = draw_story(told, TextStyle(colour=False, unicode=False, width=90))
    assert max(map(len, drawn.splitlines())) <= 90
    assert len({agent_name(agent) for agent in range(30)}) == 30
    assert "Z AAABACAD" in draw_moment(told, 0)
    assert len(draw_moment(told, 0).splitlines()) == 42


def test_few_columns_put_the_timesteps_below_each_other() -> None:
    assert draw_story(story("RR", "LL"), TextStyle(colour=False, unicode=False, width=10)).count("\n\n") == 2
