"""Proving a board unsolvable: can the agents get from their starts to their goals at all?

Costs aside, simultaneous moves reach nothing more than single moves into empty cells do, plus the rotations of
fully occupied cycles: a chain of followers can move head first. Such a cycle on a grid has 4 cells or at least
6, so for up to 5 agents the rotations of 2x2 blocks complete the move set (compare Yu and Rus, "Pebble motion
on graphs with rotations", WAFR 2014). What a group of agents cannot do alone it cannot do among others either,
so the test of a few agents condemns the whole board.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import perm

from envwright.env.solver.bitboard import BitBoard, indices
from envwright.env.solver.budget import Budget

MAX_AGENTS = 5
"""With more agents, cycles longer than 2x2 could be full, and the test would not be a proof."""

KEY_LIMIT = 200_000
"""Largest number of placements of all agents but one that is searched: about a second."""


def is_searchable(cells: int, agents: int) -> bool:
    """Tells whether the test is exact and affordable for so many agents on so many connected cells."""
    return agents <= MAX_AGENTS and perm(cells, agents - 1) <= KEY_LIMIT


class ReachabilitySearch:
    """Greedy search over placements, those of the last agent held as one bit set."""

    def __init__(self, board: BitBoard, starts: Sequence[int], goals: Sequence[int]) -> None:
        """Takes cell indices of agents in one component; see `is_searchable` for how many."""
        self._board = board
        self._cells = board.ball(starts[0])[-1]
        self._start = tuple(starts[:-1])
        self._goals = tuple(goals[:-1])
        self._last_start, self._last_goal = 1 << starts[-1], 1 << goals[-1]
        self._far = [self._distances(goal) for goal in self._goals]
        self._blocks = self._rotations() if len(starts) >= 4 else {}

    def run(self, budget: Budget) -> bool | None:
        """Returns whether the goals can be reached, None when the budget ended first."""
        reached: dict[tuple[int, ...], int] = {}
        waiting: dict[tuple[int, ...], int] = {self._start: self._last_start}
        heap = [(0, self._start)]
        while heap:
            _, key = heappop(heap)
            fresh = waiting.pop(key, 0)
            if not fresh:
                continue
            if not budget.spend():
                return None
            seen = reached.get(key, 0)
            free = self._cells
            for cell in key:
                free &= ~(1 << cell)
            grown = self._board.flood(fresh, free) & ~seen
            reached[key] = seen | grown
            if key == self._goals and grown & self._last_goal:
                return True
            for target, cells in self._moves(key, grown):
                cells &= ~reached.get(target, 0)
                known = waiting.get(target, 0)
                if cells & ~known:
                    waiting[target] = known | cells
                    far = sum(table[cell] for table, cell in zip(self._far, target, strict=True))
                    heappush(heap, (far, target))
        return False

    def _distances(self, goal: int) -> dict[int, int]:
        return {cell: steps for steps, ball in reversed([*enumerate(self._board.ball(goal))]) for cell in indices(ball)}

    def _rotations(self) -> dict[int, list[tuple[int, int, int, int]]]:
        """Maps a cell to the 2x2 blocks around it, as cycles in both directions."""
        width = self._board.width
        blocks: dict[int, list[tuple[int, int, int, int]]] = {}
        for corner in indices(self._cells):
            cycle = (corner, corner + 1, corner + width + 1, corner + width)
            if all(self._cells >> cell & 1 for cell in cycle):
                for cell in cycle:
                    blocks.setdefault(cell, []).extend((cycle, (cycle[0], cycle[3], cycle[2], cycle[1])))
        return blocks

    def _moves(self, key: tuple[int, ...], last: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Yields the placements one single move or one rotation away, with the last agent's cells there."""
        occupied = sum(1 << cell for cell in key)
        for agent, cell in enumerate(key):
            for target in indices(self._board.neighbours[cell] & ~occupied):
                if cells := last & ~(1 << target):
                    yield (*key[:agent], target, *key[agent + 1 :]), cells
        for cycle in self._cycles(key):
            mask = sum(1 << cell for cell in cycle)
            empty = mask & ~occupied
            after = {cell: cycle[step - 3] for step, cell in enumerate(cycle)}
            turned = tuple(after.get(cell, cell) for cell in key)
            if not empty:
                yield turned, last
            elif empty & (empty - 1) == 0 and last & empty:
                yield turned, 1 << after[empty.bit_length() - 1]

    def _cycles(self, key: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
        """Yields the blocks that four of at most five agents could fill: the first or second agent is in each."""
        seen: set[tuple[int, int, int, int]] = set()
        for cell in key[:2]:
            for cycle in self._blocks.get(cell, ()):
                if cycle not in seen:
                    seen.add(cycle)
                    yield cycle
