"""A board as a networkx graph, for drawing, statistics and checks; the solver itself works on integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envwright.env.rules import BoardLike

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["to_networkx"]


def to_networkx(board: BoardLike) -> nx.Graph[tuple[int, int]]:
    """Return the graph of free cells `(row, col)`, with an edge between cells that share a side."""
    import networkx as nx  # slow to import, and few need it

    graph: nx.Graph[tuple[int, int]] = nx.grid_2d_graph(board.size, board.size)
    graph.remove_nodes_from(board.hole_set)
    return graph
