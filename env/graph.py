"""Boards as networkx graphs and back, for drawing, statistics and other libraries; the solver itself works on integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envwright.env.errors import UserError
from envwright.env.instance import MAX_SIZE
from envwright.env.rules import BoardLike

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["from_networkx", "to_networkx"]

Cell = tuple[int, int]


def to_networkx(board: BoardLike) -> nx.Graph[Cell]:
    """Return the graph of free cells `(row, col)`, with an edge between cells that share a side."""
    import networkx as nx  # slow to import, and few need it

    graph: nx.Graph[Cell] = nx.grid_2d_graph(board.size, board.size)
    graph.remove_nodes_from(board.hole_set)
    return graph


def from_networkx(graph: nx.Graph[Cell], size: int | None = None) -> tuple[int, tuple[Cell, ...]]:
    """Return `(size, holes)` of the board that a graph shows: the inverse of `to_networkx`.

    Args:
        graph: An undirected graph whose nodes are cells `(row, col)`, with an edge between each two that share a side.
        size: Side length of the board; the smallest that holds every cell when left out, so that holes which fill the
            last row and the last column are lost.

    Raises:
        UserError: The graph is directed or empty, a node is no cell or lies off the board, or the edges are not those
            of a board: pass such a graph to `envwright.env.solver.solve_graph` as it is.
    """
    if graph.is_directed():
        raise UserError("the graph of a board must be undirected, got a directed one; pass graph.to_undirected()")
    cells = [_cell(node) for node in graph]
    if not cells:
        raise UserError("the graph of a board must have at least 1 node, got none")
    if size is None:
        size = 1 + max(max(cell) for cell in cells)
    if not 1 <= size <= MAX_SIZE:
        raise UserError(f"the graph's board would have size {size}, but sizes are 1 to {MAX_SIZE}; number rows and columns from 0")
    free = set(cells)
    for row, col in cells:
        if row >= size or col >= size:
            raise UserError(f"node {(row, col)} is off the board of size {size} (rows and columns 0 to {size - 1})")
        _check_edges(graph, (row, col), free)
    return size, tuple((row, col) for row in range(size) for col in range(size) if (row, col) not in free)


def _cell(node: object) -> Cell:
    """Return a node that is a cell as it is, refusing any other."""
    if isinstance(node, tuple) and len(node) == 2 and all(type(part) is int and part >= 0 for part in node):
        return node
    raise UserError(f"node {node!r} is no cell: a board's nodes are pairs (row, col) of integers from 0")


def _check_edges(graph: nx.Graph[Cell], cell: Cell, free: set[Cell]) -> None:
    """Refuse a node whose edges are not to all of the free cells that share a side with it, and to no others."""
    row, col = cell
    around = {near for near in ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)) if near in free}
    joined = set(graph.neighbors(cell))
    for near in sorted(joined - around):
        raise UserError(f"nodes {cell} and {near} are joined but share no side, so this is no board; solve_graph takes any graph")
    for near in sorted(around - joined):
        raise UserError(f"nodes {cell} and {near} share a side but are not joined, so this is no board; solve_graph takes any graph")
