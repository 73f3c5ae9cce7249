"""The networkx view of a board agrees with the solver's own distances."""

from __future__ import annotations

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from envwright.env.graph import to_networkx
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
