"""Search over all agents at once, whole sets of states at a time: what settles the boards that A* one state at a time cannot.

Where everybody has to walk about for long, the bounds say little and A* looks at most of the states. Here the places of
the last agent are one bit set for each choice of the others' places, so that one joint move of the others takes all of them along. States are
visited by bound, then by timestep (frontier search in layers, compare Zhou and Hansen, "Breadth-first heuristic search", AIJ
2006); what the bounds rule out for now waits for the next layer. The state space is finite, so exhausting it proves that there is no plan.
"""

from collections import defaultdict
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple, TypeAlias

from envwright.env.solver.budget import Budget, Outcome
from envwright.env.solver.joint import Group, JointSearch, State
from envwright.env.solver.mdd import NEVER
from envwright.env.solver.pairtable import PARKED
from envwright.env.solver.space import BitSpace, indices

Layer: TypeAlias = defaultdict[int, defaultdict[int, int]]
"""Cost so far to the packed places of all agents but the last to the places of the last."""

Row: TypeAlias = list[int]
"""The places from which a bound is at most 0, 1, 2, ...; the last entry holds for any more."""


class _Move(NamedTuple):
    """What the agents of a group may do together in a timestep."""

    code: int  # their places afterwards, packed
    clash: int  # the cells they are on then, and the edges they used: two moves that share a bit collide
    moved: tuple[tuple[int, int], ...]  # of those that moved, the bit of the cell they are on and the cell they left


class _Bound(NamedTuple):
    """What is left to spend from a choice of places: at least `least`, and each row holds with its offset."""

    least: int
    rows: tuple[tuple[int, Row], ...]

    def within(self, left: int) -> int:
        """Returns the places of the last agent from which the bound is at most `left`."""
        if left < self.least:
            return 0
        found = -1
        for offset, row in self.rows:
            if left < offset:
                return 0
            found &= row[left - offset] if left - offset < len(row) else row[-1]
        return found


_NOWHERE = _Bound(NEVER, ())


class FrontierSearch(JointSearch):
    """One search by sets of states; after `Outcome.FOUND`, `plan` holds the paths as cell indices."""

    def __init__(
        self,
        board: BitSpace,
        starts: list[int],
        goals: list[int],
        *,
        wait_free: bool = False,
        cap: int | None = None,
        deadline: int | None = None,
        by_time: bool = False,
    ) -> None:
        """Sets up the search; the arguments are those of `ConflictSearch`.

        Args:
            board: The board.
            starts: Cell index per agent.
            goals: Cell index per agent.
            wait_free: Allow no wait before an agent's arrival for good.
            cap: Look only for plans whose sum of costs (makespan, when `by_time`) is at most this.
            deadline: Look only for plans whose makespan is at most this.
            by_time: Minimise the makespan, whatever the sum of costs, instead of (sum of costs, makespan).
        """
        super().__init__(board, starts, goals, wait_free=wait_free, cap=cap, deadline=deadline)
        self._by_time = by_time
        self._timed = by_time or deadline is not None
        self._last = len(goals) - 1
        self._goal = 1 << goals[-1]
        top = board.free.bit_length()
        self._parked_code = top
        self._parked = 1 << top
        self._bits = top.bit_length()
        self._place_mask = (1 << self._bits) - 1
        groups = [tuple(range(first, min(first + 2, self._last))) for first in range(0, self._last, 2)]
        self._groups: list[Group] = groups
        self._edges: dict[tuple[int, int], int] = {}
        self._moves: dict[tuple[int, int], list[_Move]] = {}
        self._masks = [sum(self._place_mask << self._bits * agent for agent in group) for group in groups]
        self._rows: dict[Group, dict[int, Row]] = {}
        self._time_rows: dict[Group, dict[int, Row]] = {}
        self._bound_of: dict[int, _Bound] = {}
        self._time_bound_of: dict[int, _Bound] = {}
        self._seen: dict[int, list[int]] = {}  # per choice of places what was visited by each timestep
        self._trail: list[dict[tuple[int, int], int]] = []  # timestep to cost and places to those of the last agent

    def _search(self, budget: Budget, limit: int) -> Outcome:
        self._rows = {group: self._table_rows(group, table) for group, table in self._tables.items() if self._last in group}
        self._time_rows = {pair: self._table_rows(pair, table) for pair, table in self._times.items() if self._last in pair}
        goal_key = self._pack((PARKED,) * self._last)
        pending: dict[int, Layer] = {}
        for state in self._first_states():
            _layer(pending, 0)[0][self._pack(state[:-1])] |= self._parked if state[-1] == PARKED else 1 << state[-1]
        allowed = 0
        while pending and allowed <= self._cap:
            postponed: dict[int, Layer] = {}
            while pending:
                time = min(pending)
                layer = pending.pop(time)
                while len(self._trail) <= time:
                    self._trail.append({})
                trail = self._trail[time]
                following = _layer(pending, time + 1)
                for cost, frontier in layer.items():
                    left = allowed - (time if self._by_time else cost)
                    for key, places in frontier.items():
                        fresh = self._visit(key, places, time, left, cost, postponed)
                        if not fresh:
                            continue
                        trail[cost, key] = trail.get((cost, key), 0) | fresh
                        if key == goal_key and fresh & self._parked:
                            self.plan = self._trace(time, cost)
                            return Outcome.FOUND
                        if limit <= 0 or not budget.spend():
                            return Outcome.LIMIT
                        limit -= 1
                        self._advance(key, fresh, cost, following)
                if not following:
                    del pending[time + 1]
            pending = postponed
            allowed += 1
        return Outcome.EXHAUSTED

    def _visit(self, key: int, places: int, time: int, left: int, cost: int, postponed: dict[int, Layer]) -> int:
        """Returns the states to go on from; those beyond the limit are postponed, visited and hopeless ones dropped."""
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = [0] * (1 if self._deadline is None else self._deadline + 1)
        moment = 0 if self._deadline is None else time
        fresh = places & ~seen[moment]
        if self._deadline is not None and fresh:
            fresh &= self._time_bound(key).within(self._deadline - time)
        if not fresh:
            return 0
        bound = self._time_bound(key) if self._by_time else self._bound(key)
        later = fresh & ~bound.within(left)
        if later:
            fresh ^= later
            if later := later & bound.within(NEVER - 1):
                _layer(postponed, time)[cost][key] |= later
        if fresh:
            for index in range(moment, len(seen)):
                seen[index] |= fresh
        return fresh

    def _advance(self, key: int, places: int, cost: int, following: Layer) -> None:
        """Adds the states that one timestep leads to from a choice of the others' places and a set of the last agent's."""
        partial: list[tuple[int, int, tuple[tuple[int, int], ...]]] = [(0, 0, ())]
        for number, mask in enumerate(self._masks):
            moves = self._group_moves(number, key & mask)
            partial = [(a | b, x | y, m + n) for a, x, m in partial for b, y, n in moves if not x & y] if number else list(moves)
        active = 0
        if not self._by_time:
            active = sum(key >> self._bits * agent & self._place_mask != self._parked_code for agent in range(self._last))
        if places & self._parked:
            goal = self._goal
            children = following[cost + active]
            for code, clash, _ in partial:
                if not clash & goal:
                    children[code] |= self._parked
            places ^= self._parked
        if places:
            self._advance_active(places, partial, following[cost + active + (not self._by_time)])

    def _advance_active(
        self, places: int, partial: list[tuple[int, int, tuple[tuple[int, int], ...]]], children: defaultdict[int, int]
    ) -> None:
        """The same where the last agent has not arrived for good."""
        goal, parked, neighbours = self._goal, self._parked, self._board.neighbours
        near = self._board.near(places) if self._wait_free else self._board.spread(places)
        arrives = places & neighbours[self._goals[-1]]
        for code, clash, moved in partial:
            after = near & ~clash
            if places & clash:
                for bit, left in moved:
                    if places & bit and after >> left & 1 and not (places ^ bit) & neighbours[left]:
                        after ^= 1 << left  # the last agent could enter it by exchanging cells alone
            if after & goal and arrives:
                after |= parked
            if after:
                children[code] |= after

    def _group_moves(self, number: int, code: int) -> list[_Move]:
        """Lists what a group may do without conflicts among itself."""
        known = self._moves.get((number, code))
        if known is not None:
            return known
        group = self._groups[number]
        table = self._tables.get(group)
        found = []
        for steps in product(*(self._options(agent, self._place(code, agent)) for agent in group)):
            after = tuple(step.place for step in steps)
            if table is not None and after not in table:
                continue
            clash, free = 0, True
            moved = []
            for agent, step in zip(group, steps, strict=True):
                place = self._place(code, agent)
                origin = self._goals[agent] if place == PARKED else place
                bits = 1 << step.cell
                if origin != step.cell:
                    moved.append((1 << step.cell, origin))
                    edge = (min(origin, step.cell), max(origin, step.cell))
                    bits |= 2 * self._parked << self._edges.setdefault(edge, len(self._edges))
                free &= not clash & bits
                clash |= bits
            if free:
                packed = sum(self._code(place) << self._bits * agent for agent, place in zip(group, after, strict=True))
                found.append(_Move(packed, clash, tuple(moved)))
        self._moves[number, code] = found
        return found

    def _code(self, place: int) -> int:
        return self._parked_code if place == PARKED else place

    def _place(self, key: int, agent: int) -> int:
        code = key >> self._bits * agent & self._place_mask
        return PARKED if code == self._parked_code else code

    def _pack(self, places: State) -> int:
        return sum(self._code(place) << self._bits * agent for agent, place in enumerate(places))

    def _table_rows(self, group: Group, table: Mapping[tuple[int, ...], int]) -> dict[int, Row]:
        """Turns a table of the last agent, alone or with another one, into rows by the other one's place."""
        found: dict[int, Row] = {}
        for places, least in table.items():
            row = found.setdefault(places[0] if len(group) == 2 else 0, [])
            row += [0] * (least + 1 - len(row))
            row[least] |= 1 << self._code(places[-1])
        for row in found.values():
            for index in range(1, len(row)):
                row[index] |= row[index - 1]
        return found

    def _bound(self, key: int) -> _Bound:
        """Returns what the sums over pairs of agents say about the rest of the sum of costs."""
        known = self._bound_of.get(key)
        if known is None:
            known = self._bound_of[key] = self._sum_bound(tuple(self._place(key, agent) for agent in range(self._last)))
        return known

    def _sum_bound(self, places: State) -> _Bound:
        offsets: dict[Group, int] = {}
        for partition in self._partitions:
            offset, partner = 0, ()  # type: tuple[int, Group]
            for group in partition:
                if self._last in group:
                    partner = group
                else:
                    offset += self._tables[group].get(tuple([places[k] for k in group]), NEVER)
            offsets[partner] = max(offset, offsets.get(partner, 0))
        if max(offsets.values()) >= NEVER:
            return _NOWHERE
        rows = []
        for group, offset in offsets.items():
            row = self._rows[group].get(places[group[0]] if len(group) == 2 else 0)
            if row is None:
                return _NOWHERE
            rows.append((offset, row))
        return _Bound(0, tuple(rows))

    def _time_bound(self, key: int) -> _Bound:
        """Returns what pairs of agents say about the rest of the makespan."""
        known = self._time_bound_of.get(key)
        if known is not None:
            return known
        places = tuple(self._place(key, agent) for agent in range(self._last))
        least = max((self._bounds[agent][place] for agent, place in enumerate(places)), default=0)
        rows = [(0, self._rows[self._last,][0])]
        for (i, j), table in self._times.items():
            if j != self._last:
                least = max(least, table.get((places[i], places[j]), NEVER))
            else:
                row = self._time_rows[i, j].get(places[i])
                least, rows = (NEVER, rows) if row is None else (least, [*rows, (0, row)])
        known = self._time_bound_of[key] = _NOWHERE if least >= NEVER else _Bound(least, tuple(rows))
        return known

    def _trace(self, time: int, cost: int) -> list[list[int]]:
        """Goes back from the goals to a start, a timestep at a time, and returns each agent's path."""
        state: State = (PARKED,) * (self._last + 1)
        states = [state]
        for earlier in range(time - 1, -1, -1):
            cost, state = self._predecessor(earlier, cost, state)
            states.append(state)
        states.reverse()
        paths = []
        for agent, goal in enumerate(self._goals):
            places = [visited[agent] for visited in states]
            paths.append([*places[: places.index(PARKED)], goal])
        return paths

    def _predecessor(self, time: int, cost: int, state: State) -> tuple[int, State]:
        """Returns a state visited at a timestep, and its cost, from which one conflict-free move leads to `state`."""
        trail = self._trail[time]
        for before in product(*(self._origins(agent, place) for agent, place in enumerate(state))):
            spent = cost - (0 if self._by_time else sum(place != PARKED for place in before))
            visited = trail.get((spent, self._pack(before[:-1])), 0)
            if visited >> self._code(before[-1]) & 1 and self._is_move(before, state):
                return spent, before
        raise AssertionError("a visited state has a visited predecessor")

    def _origins(self, agent: int, place: int) -> list[int]:
        """Lists the places from which an agent's move may lead to a place."""
        goal = self._goals[agent]
        if place == PARKED:
            return [PARKED, *indices(self._board.neighbours[goal])]
        return list(indices((self._board.neighbours if self._wait_free else self._board.reachable)[place]))

    def _is_move(self, before: State, after: State) -> bool:
        """Tells whether the agents may go from one state to another together; each of them alone may."""
        sources = [goal if place == PARKED else place for place, goal in zip(before, self._goals, strict=True)]
        targets = [goal if place == PARKED else place for place, goal in zip(after, self._goals, strict=True)]
        moves = {(source, target) for source, target in zip(sources, targets, strict=True) if source != target}
        return len(set(targets)) == len(targets) and not any((target, source) in moves for source, target in moves)


def _layer(layers: dict[int, Layer], time: int) -> Layer:
    """Returns the layer of a timestep, made when it is new."""
    found = layers.get(time)
    if found is None:
        found = layers[time] = defaultdict(lambda: defaultdict(int))
    return found
