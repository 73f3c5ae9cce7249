"""Any undirected graph as a place to plan in: its sets of vertices are single integers, its neighbours are masks."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from envwright.env.solver.space import BitSpace, Cycle, indices

CYCLE_LIMIT = 20_000
"""More short cycles than this are not listed: the proof of unsolvability that wants them would be too slow."""

NodeT = TypeVar("NodeT", bound=Hashable)


class GraphLike(Protocol[NodeT]):
    """The part of `networkx.Graph` that is read here."""

    def __iter__(self) -> Iterator[NodeT]:
        """The nodes."""

    def neighbors(self, n: NodeT) -> Iterator[NodeT]:
        """The nodes next to one."""

    def is_directed(self) -> bool:
        """Whether edges have a direction."""


class GraphBoard(BitSpace, Generic[NodeT]):
    """A finite undirected graph, with cached distances; self-loops and parallel edges change nothing.

    Attributes:
        nodes: The node at each bit position, in the graph's order.
        index: Node to its bit position.
    """

    __slots__ = ("_bipartite", "_tables", "index", "nodes")

    def __init__(self, graph: GraphLike[NodeT]) -> None:
        """Reads the graph once; later changes to it go unnoticed."""
        self.width = 0
        self.nodes = list(graph)
        self.index = {node: index for index, node in enumerate(self.nodes)}
        self.free = (1 << len(self.nodes)) - 1
        masks = [sum({1 << self.index[other] for other in graph.neighbors(node) if other != node}) for node in self.nodes]
        self.neighbours: Mapping[int, int] = dict(enumerate(masks))
        self.reachable: Mapping[int, int] = {index: mask | 1 << index for index, mask in enumerate(masks)}
        self._balls: dict[int, list[int]] = {}
        self._descents: dict[tuple[int, int], list[int] | None] = {}
        self._tables: list[dict[int, int]] = [{0: 0} for _ in range(0, len(masks), 8)]
        self._bipartite = all(self._two_coloured(component) for component in self.components())

    @property
    def bipartite(self) -> bool:
        """True when the graph has no odd cycle."""
        return self._bipartite

    def near(self, cells: int) -> int:
        """Returns the nodes next to a node of the set: eight nodes at a time, from tables filled in on demand."""
        found = 0
        for position, byte in enumerate(cells.to_bytes(len(self._tables), "little")):
            if byte:
                table = self._tables[position]
                if byte not in table:
                    table[byte] = self._near_byte(position, byte)
                found |= table[byte]
        return found

    def _near_byte(self, position: int, byte: int) -> int:
        found = 0
        for index in indices(byte):
            found |= self.neighbours[8 * position + index]
        return found

    def _two_coloured(self, component: int) -> bool:
        """Tells whether no edge joins two nodes at the same distance of the component's first node."""
        rings = self.rings((component & -component).bit_length() - 1)
        return not any(self.near(ring) & ring for ring in rings)

    def short_cycles(self, within: int, longest: int) -> list[Cycle] | None:
        """Returns the simple cycles of 3 to `longest` nodes inside a set, each once; None beyond `CYCLE_LIMIT`."""
        found: list[Cycle] = []
        for first in indices(within):
            stack: list[Cycle] = [(first,)]
            later = within >> first + 1 << first + 1
            while stack:
                path = stack.pop()
                if len(path) > 2 and self.neighbours[path[-1]] >> first & 1 and path[1] < path[-1]:
                    found.append(path)
                if len(found) + len(stack) > CYCLE_LIMIT:
                    return None
                if len(path) < longest:
                    stack += [(*path, cell) for cell in indices(self.neighbours[path[-1]] & later) if cell not in path]
        return found
