"""The cell notation: plans in, the same plans out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.cells import VOCABULARY, board_words, is_cell_answer, plan_words, read_cell_answer
from envwright.env.errors import UserError
from envwright.env.instance import Board
from envwright.env.rules import MOVES
from tests.env.boards import FEW, boards

EXAMPLE = Board(size=4, holes=((0, 2),), starts=((0, 0), (3, 3)), goals=((3, 0), (1, 2)))


def test_the_documented_example_reads_as_documented() -> None:
    assert board_words(4, EXAMPLE.holes, EXAMPLE.starts, EXAMPLE.goals) == "4x4 holes 02 agents 00 30 33 12 plan"
    assert plan_words(EXAMPLE, ["DDD", "LUU"]) == "10 32 20 22 30 12 end"


def test_every_word_of_a_prompt_and_an_answer_is_one_token() -> None:
    words = f"{board_words(4, EXAMPLE.holes, EXAMPLE.starts, EXAMPLE.goals)} {plan_words(EXAMPLE, ['DDD', 'LUU'])}".split()
    assert set(words) <= set(VOCABULARY)
    assert len(set(VOCABULARY)) == len(VOCABULARY) == 116


def test_holes_are_written_in_reading_order() -> None:
    assert board_words(3, [(2, 0), (0, 1)], [(0, 0)], [(2, 2)]) == "3x3 holes 01 20 agents 00 22 plan"


def test_a_board_beyond_the_frame_is_refused() -> None:
    with pytest.raises(UserError, match=r"11x11 board does not fit .* 10x10 frame; use a policy with a chat prompt"):
        board_words(11, [], [(0, 0)], [(10, 10)])


def test_an_unknown_action_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="unknown action"):
        plan_words(EXAMPLE, ["DX", "L"])


@pytest.mark.parametrize(
    ("text", "expected"), [("00 11 end", True), ("end", True), ("00 11", True), ("", False), ("00 1", False), ("the end", False)]
)
def test_only_cells_and_end_make_a_cell_answer(text: str, expected: bool) -> None:
    assert is_cell_answer(text) is expected


def test_words_after_the_first_end_are_ignored_and_half_a_timestep_is_no_answer() -> None:
    assert read_cell_answer("10 32 end 20 20 20 end", 2) == [[(1, 0)], [(3, 2)]]
    assert read_cell_answer("10 32 20 end", 2) is None
    assert read_cell_answer("end", 2) == [[], []]


@FEW
@given(st.data())
def test_reading_a_written_plan_gives_its_cells(data: st.DataObject) -> None:
    board = data.draw(boards(largest=10, most_agents=4))
    plan, paths = [], []
    for start in board.starts:
        cells, letters = [start], ""
        for letter in data.draw(st.text(st.sampled_from("UDLRW"), max_size=7)):
            row, col = cells[-1][0] + MOVES[letter][0], cells[-1][1] + MOVES[letter][1]
            if 0 <= row < board.size and 0 <= col < board.size:
                cells.append((row, col))
                letters += letter
        plan.append(letters)
        paths.append(cells)
    horizon = max(map(len, plan))
    padded = [[*cells, *[cells[-1]] * (horizon + 1 - len(cells))][1:] for cells in paths]
    assert read_cell_answer(plan_words(board, plan), board.num_agents) == padded
