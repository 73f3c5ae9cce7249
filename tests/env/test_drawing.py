"""Boards and plans as text."""

from envwright.env.drawing import draw_board, draw_plan
from envwright.env.rules import paths_from_moves
from tests.env.boards import board_of

BOARD = board_of("a.b .#. d.c", "ab", "cd")


def test_a_board_shows_ice_holes_agents_and_goals() -> None:
    assert draw_board(BOARD) == "  012\n0 A.a\n1 .#.\n2 b.B"


def test_a_plan_is_drawn_side_by_side_up_to_its_failure() -> None:
    paths = paths_from_moves(BOARD.starts, ["RRD", "LL"])
    assert draw_plan(BOARD, paths, 2) == (
        "t=0     t=1     t=2\n  012     012     012\n0 A.a   0 .Aa   0 ..@\n1 .#.   1 .#.   1 .#.\n2 b.B   2 bB.   2 @.."
    )
    assert draw_plan(BOARD, paths).count("t=") == 4


def test_an_unknown_action_and_a_cell_off_the_board_can_be_drawn() -> None:
    assert draw_plan(BOARD, paths_from_moves(BOARD.starts, ["U", "X"])).count("t=") == 2
