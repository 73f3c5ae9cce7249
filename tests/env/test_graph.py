"""The networkx view of a board agrees with the solver's own distances."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envwright.env.errors import UserError
from envwright.env.graph import from_networkx, to_networkx
from envwright.env.instance import Board
from envwright.env.solver import BitBoard


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(2, 6), st.data())
def test_shortest_paths_in_the_graph_are_the_distances_of_the_bit_board(size: int, data: st.DataObject) -> None:
    cells = [(row, col) for row in range(size) for col in range(size)]
    start = data.draw(st.sampled_from(cells))
    holes = data.draw(st.sets(st.sampled_from([cell for cell in cells if cell != start]), max_size=size * size // 2))
    board = Board(size=size, holes=tuple(sorted(holes)), starts=(start,), goals=(start,))
    lengths = nx.single_source_shortest_path_length(to_networkx(board), start)
    bits = BitBoard(size, holes)
    for cell in cells:
        if cell not in holes:
            assert bits.distance(start, cell) == lengths.get(cell)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(1, 6), st.data())
def test_a_board_comes_back_from_its_graph(size: int, data: st.DataObject) -> None:
    cells = [(row, col) for row in range(size) for col in range(size)]
    start = data.draw(st.sampled_from(cells))
    holes = data.draw(st.sets(st.sampled_from(cells))) - {start}
    board = Board(size=size, holes=tuple(sorted(holes)), starts=(start,), goals=(start,))
    assert from_networkx(to_networkx(board), size) == (size, board.holes)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([((0, 0), (1, 1))], "joined but share no side"),
        ([((0, 0), (0, 1)), ((1, 0), (1, 1))], "share a side but are not joined"),
        ([("a", "b")], "node 'a' is no cell"),
        ([((0, 0), (-1, 0))], r"node \(-1, 0\) is no cell"),
        ([((0, 63), (0, 64))], "size 65, but sizes are 1 to 64"),
        ([], "at least 1 node"),
    ],
)
def test_what_is_no_board_is_refused_with_the_node(edges: list[tuple[tuple[int, int], tuple[int, int]]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_networkx(nx.Graph(edges))
