"""Proving a board unsolvable: can the agents get from their starts to their goals at all?

Costs aside, simultaneous moves reach nothing more than single moves into empty cells do, plus the rotations of
fully occupied cycles: a chain of followers can move head first. Up to 5 agents fill cycles of at most 5
vertices, on a grid 2x2 blocks alone, so the rotations of these complete the move set (compare Yu and Rus, "Pebble
motion on graphs with rotations", WAFR 2014). What a group of agents cannot do alone it cannot do among others
either, so the test of a few agents condemns the whole board.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import perm

from envwright.env.solver.budget import Budget
from envwright.env.solver.space import BitSpace, Cycle, indices

MAX_AGENTS = 5
"""With more agents, longer cycles could be full, and the test would not be a proof."""

KEY_LIMIT = 200_000
"""Largest number of placements of all agents but one that is searched: about a second."""


def is_searchable(cells: int, agents: int) -> bool:
    """Tells whether the test is exact and affordable for so many agents on so many connected cells."""
    return agents <= MAX_AGENTS and perm(cells, agents - 1) <= KEY_LIMIT


class ReachabilitySearch:
    """Greedy search over placements, those of the last agent held as one bit set."""

    def __init__(self, board: BitSpace, starts: Sequence[int], goals: Sequence[int]) -> None:
        """Takes cell indices of agents in one component; see `is_searchable` for how many."""
        self._board = board
        self._cells = board.ball(starts[0])[-1]
        self._start = tuple(starts[:-1])
        self._goals = tuple(goals[:-1])
        self._last_start, self._last_goal = 1 << starts[-1], 1 << goals[-1]
        self._far = [self._distances(goal) for goal in self._goals]
        cycles = board.short_cycles(self._cells, len(starts)) if len(starts) >= 3 else []
        self._complete = cycles is not None
        self._cycles_at = _by_vertex(cycles or [])
        self._first_few = len(starts) - min(map(len, cycles or [()])) + 1

    def run(self, budget: Budget) -> bool | None:
        """Returns whether the goals can be reached; None when the budget ended first, or there are too many cycles to tell."""
        if not self._complete:
            return None
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
        return {cell: steps for steps, ring in enumerate(self._board.rings(goal)) for cell in indices(ring)}

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
            after = {cell: cycle[step + 1 - len(cycle)] for step, cell in enumerate(cycle)}
            turned = tuple(after.get(cell, cell) for cell in key)
            if not empty:
                yield turned, last
            elif empty & (empty - 1) == 0 and last & empty:
                yield turned, 1 << after[empty.bit_length() - 1]

    def _cycles(self, key: tuple[int, ...]) -> Iterator[Cycle]:
        """Yields the cycles that could be full: all but one of a cycle's agents are in the key, so one of its first few is."""
        seen: set[Cycle] = set()
        for cell in key[: self._first_few]:
            for cycle in self._cycles_at.get(cell, ()):
                if cycle not in seen:
                    seen.add(cycle)
                    yield cycle


def _by_vertex(cycles: Sequence[Cycle]) -> dict[int, list[Cycle]]:
    """Maps a vertex to the cycles around it, in both directions."""
    found: dict[int, list[Cycle]] = {}
    for cycle in cycles:
        for cell in cycle:
            found.setdefault(cell, []).extend((cycle, (cycle[0], *cycle[:0:-1])))
    return found
