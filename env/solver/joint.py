"""A* over all agents at once: the first fallback on small crowded boards, where CBS gives up.

A state is where every agent is and which of them have arrived for good ("parked"), so it needs no clock unless there
is a deadline; costs are compared as (sum of costs, makespan), which makes the tie-break exact. The bound adds up the agents' own
distances and what the best matching of agents into pairs must spend beyond them. Successors come by partial expansion:
a popped state generates only the children whose bound exceeds its own by a given amount, and goes back into the
queue for the next amount (EPEA*, Goldenberg et al., "Enhanced partial expansion A*", JAIR 2014). The state space
is finite, so exhausting it proves that there is no plan.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from itertools import combinations, product
from typing import NamedTuple, TypeAlias

from envwright.env.solver.budget import Budget, Outcome, TimeUpError
from envwright.env.solver.mdd import NEVER
from envwright.env.solver.pairtable import PARKED, Step, matchings, pair_costs, pair_times
from envwright.env.solver.space import BitSpace, indices

State: TypeAlias = tuple[int, ...]
"""Per agent its cell index, or `PARKED`."""

_SUM = 1 << 20
"""One unit of the sum of costs; the makespan is counted in units of 1."""


Group: TypeAlias = tuple[int, ...]
"""One agent, or two whose joint costs are tabled."""

MAX_TABLE_CELLS = 100
"""Components larger than this are searched without pair tables, which would cost more than they save."""


class _GroupStep(NamedTuple):
    """What the agents of a group may do together in a timestep."""

    growth: int  # of the lower bound on the group's cost
    places: tuple[int, ...]
    cells: tuple[int, ...]
    mask: int  # the same cells as a bit set


class JointSearch:
    """One joint search; after `Outcome.FOUND`, `plan` holds the paths as cell indices."""

    def __init__(
        self,
        board: BitSpace,
        starts: list[int],
        goals: list[int],
        *,
        wait_free: bool = False,
        cap: int | None = None,
        deadline: int | None = None,
    ) -> None:
        """Sets up the search; the arguments are those of `ConflictSearch`."""
        self.plan: list[list[int]] = []
        self._board = board
        self._starts = starts
        self._goals = goals
        self._wait_free = wait_free
        self._cap = NEVER if cap is None else cap
        self._deadline = deadline
        self._timed = deadline is not None  # whether bounds on the makespan are wanted
        self._steps: list[dict[int, list[Step]]] = [{} for _ in goals]
        self._bounds: list[dict[int, int]] = [self._bound_table(goal) for goal in goals]
        self._tables: dict[Group, Mapping[tuple[int, ...], int]] = {}
        self._times: dict[tuple[int, int], Mapping[tuple[int, ...], int]] = {}
        self._partitions: list[list[Group]] = []
        self._group_steps: dict[tuple[Group, tuple[int, ...]], list[_GroupStep]] = {}

    def run(self, budget: Budget, limit: int) -> Outcome:
        """Searches until the optimum, the proof that there is none, or `limit` expansions; call it once."""
        try:
            self._set_tables(budget)
        except TimeUpError:
            return Outcome.LIMIT
        return self._search(budget, limit)

    def _search(self, budget: Budget, limit: int) -> Outcome:
        best: dict[State, int] = {}  # state -> lexicographic cost so far, see `_SUM`
        parents: dict[State, State] = {}
        clock = self._deadline is not None
        heap: list[tuple[int, int, int, int, State, int]] = []  # bound, of which to come, growth, cost, state, partition
        stride = 2 if self._wait_free and self._board.bipartite else 1  # without waits each bound grows by an even number

        def push(state: State, cost: int) -> None:
            rest, longest, partition = self._estimate(state)
            if self._deadline is not None and cost % _SUM + self._longest(state, longest) > self._deadline:
                return
            if cost // _SUM + rest <= self._cap:
                best[(*state, cost % _SUM) if clock else state] = cost
                heappush(heap, (cost + rest * _SUM + longest, rest, 0, cost, state, partition))

        for state in self._first_states():
            push(state, 0)
        while heap:
            bound, rest, growth, cost, state, partition = heappop(heap)
            key = (*state, cost % _SUM) if clock else state
            if cost != best[key]:
                continue
            if not rest:
                self.plan = self._paths(key, parents)
                return Outcome.FOUND
            if limit <= 0 or not budget.spend():
                return Outcome.LIMIT
            limit -= 1
            after = cost + 1 + _SUM * sum(place != PARKED for place in state)
            children, most = self._successors(state, self._partitions[partition], growth)
            for child in children:
                child_key = (*child, after % _SUM) if clock else child
                if after < best.get(child_key, after + 1):
                    parents[child_key] = key
                    push(child, after)
            if growth + stride <= most and bound // _SUM + stride <= self._cap:
                heappush(heap, (bound + stride * _SUM, rest, growth + stride, cost, state, partition))
        return Outcome.EXHAUSTED

    def _bound_table(self, goal: int) -> dict[int, int]:
        """Returns the least cost left from each cell; an agent on its goal but not parked has to come back."""
        table = {cell: steps for steps, ring in enumerate(self._board.rings(goal)) for cell in indices(ring)}
        table[goal] = 2
        table[PARKED] = 0
        return table

    def _first_states(self) -> list[State]:
        """Lists the starting states: an agent that starts on its goal may or may not stay there for good."""
        choices = [(s, PARKED) if s == g else (s,) for s, g in zip(self._starts, self._goals, strict=True)]
        return [state for state in product(*choices) if all(place in bounds for place, bounds in zip(state, self._bounds, strict=True))]

    def _set_tables(self, budget: Budget) -> None:
        """Tables the costs of single agents and pairs, and lists how pairs and a single can make up the whole."""
        agents = range(len(self._goals))
        self._tables = {(k,): {(place,): cost for place, cost in self._bounds[k].items()} for k in agents}
        if len(self._bounds[0]) > MAX_TABLE_CELLS:
            self._partitions = [[(k,) for k in agents]]
            return
        steps = [{place: self._options(k, place) for place in self._bounds[k]} for k in agents]
        for i, j in combinations(agents, 2):
            budget.check()
            self._tables[i, j] = pair_costs(steps[i], steps[j], self._goals[i], self._goals[j])
            if self._timed:
                self._times[i, j] = pair_times(steps[i], steps[j], self._goals[i], self._goals[j])
        for pairs in matchings(agents):
            paired = {k for pair in pairs for k in pair}
            self._partitions.append([*pairs, *((k,) for k in agents if k not in paired)])

    def _estimate(self, state: State) -> tuple[int, int, int]:
        """Returns bounds on the rest of the sum of costs and of the makespan, and the partition behind the first."""
        costs = {group: table.get(tuple([state[k] for k in group]), NEVER) for group, table in self._tables.items()}
        totals = [sum([costs[group] for group in partition]) for partition in self._partitions]
        rest = max(totals)
        longest = max([table[place] for table, place in zip(self._bounds, state, strict=True)])
        return rest, longest, totals.index(rest)

    def _longest(self, state: State, longest: int) -> int:
        """Returns a bound on the rest of the makespan that looks at pairs of agents, too."""
        times = [table.get((state[i], state[j]), NEVER) for (i, j), table in self._times.items()]
        return max(times, default=longest)

    def _options(self, agent: int, place: int) -> list[Step]:
        """Lists what an agent may do, least growth of its bound first."""
        known = self._steps[agent].get(place)
        if known is not None:
            return known
        goal = self._goals[agent]
        if place == PARKED:
            options = [Step(0, PARKED, goal)]
        else:
            bounds = self._bounds[agent]
            reachable = self._board.neighbours if self._wait_free else self._board.reachable
            options = [Step(1 + bounds[cell] - bounds[place], cell, cell) for cell in indices(reachable[place])]
            if place != goal and self._board.neighbours[place] >> goal & 1:
                options.append(Step(0, PARKED, goal))
            options.sort()
        self._steps[agent][place] = options
        return options

    def _group_options(self, group: Group, places: tuple[int, ...]) -> list[_GroupStep]:
        """Lists what a group may do without conflicts among itself, least growth of its bound first."""
        known = self._group_steps.get((group, places))
        if known is not None:
            return known
        table = self._tables[group]
        now = table[places] - sum(place != PARKED for place in places)
        cells = [self._goals[k] if place == PARKED else place for k, place in zip(group, places, strict=True)]
        found = []
        for steps in product(*(self._options(k, place) for k, place in zip(group, places, strict=True))):
            after = tuple(step.place for step in steps)
            to = tuple(step.cell for step in steps)
            if after not in table or (len(group) == 2 and (to[0] == to[1] or list(to) == cells[::-1])):
                continue
            found.append(_GroupStep(table[after] - now, after, to, sum(1 << cell for cell in to)))
        found.sort()
        self._group_steps[group, places] = found
        return found

    def _successors(self, state: State, groups: list[Group], growth: int) -> tuple[list[State], int]:
        """Lists the conflict-free joint moves that let the groups' bounds grow by `growth` in all.

        Returns:
            The states they lead to, and the largest growth that could lead to any.
        """
        options = [self._group_options(group, tuple([state[k] for k in group])) for group in groups]
        most = [0] * (len(groups) + 1)  # growth that the groups from this one on can take together
        for index in range(len(groups) - 1, -1, -1):
            if not options[index]:
                return [], 0
            most[index] = most[index + 1] + options[index][-1].growth
        sources = [goal if place == PARKED else place for place, goal in zip(state, self._goals, strict=True)]
        standing = {cell: agent for agent, cell in enumerate(sources)}
        targets = [-1] * len(state)
        places = [0] * len(state)
        found: list[State] = []

        def assign(index: int, left: int, used: int) -> None:
            if index == len(groups):
                found.append(tuple(places))
                return
            group = groups[index]
            least = left - most[index + 1]
            for taken, after, cells, mask in options[index]:
                if taken > left:
                    break
                if taken < least or used & mask:
                    continue
                for k, place, cell in zip(group, after, cells, strict=True):
                    other = standing.get(cell, k)
                    if other != k and targets[other] == sources[k]:
                        break
                    places[k] = place
                else:
                    for k, cell in zip(group, cells, strict=True):
                        targets[k] = cell
                    assign(index + 1, left - taken, used | mask)
                    for k in group:
                        targets[k] = -1

        assign(0, growth, 0)
        return found, most[0]

    def _paths(self, state: State, parents: dict[State, State]) -> list[list[int]]:
        """Follows the parents back to a start and returns each agent's path up to its arrival for good."""
        states = [state]
        while state in parents:
            state = parents[state]
            states.append(state)
        states.reverse()
        paths = []
        for agent, goal in enumerate(self._goals):
            places = [s[agent] for s in states]
            path = places[: places.index(PARKED)]
            paths.append([*path, goal])
        return paths
