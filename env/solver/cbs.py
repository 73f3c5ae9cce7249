"""Conflict-based search on bit-set MDDs: the solver's work horse.

Conflict-based search (Sharon et al., AIJ 2015) with

* prioritised conflicts and bypassing (Boyarski et al., "ICBS", IJCAI 2015; "Don't split, try to work it out",
  ICAPS 2015), and conflict-avoiding choice of paths;
* target splitting (Li et al., "Pairwise symmetry reasoning for multi-agent path finding search", AIJ 2021);
* the pairwise WDG heuristic (Li et al., IJCAI 2019), computed when a node is popped, a few units at a time.

It does not end on some unsolvable boards, hence the node limit: `plan_search` turns to other searches then.
"""

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import combinations
from operator import or_

from envwright.env.solver.budget import Budget, Outcome, TimeUpError
from envwright.env.solver.conflicts import Conflict, ConflictKind, choose_conflict, conflicts_between
from envwright.env.solver.mdd import NEVER, ConstrainedAgent, Mdd
from envwright.env.solver.pairs import WEIGHT_LIMIT, WEIGHT_STEP, Pair, cover_weight, pair_increase
from envwright.env.solver.paths import choose_path, conflict_free_path, fewest_conflicts
from envwright.env.solver.space import BitSpace

DETOUR_LIMIT = 12
"""How many timesteps later than it could an agent may arrive to stay out of the others' way, in a greedy search."""


@dataclass(slots=True, eq=False)
class _Node:
    """A node of the constraint tree: constraints, and one shortest path per agent that satisfies them."""

    agents: list[ConstrainedAgent]
    costs: list[int]
    mdds: list[Mdd]
    paths: list[list[int]]
    conflicts: dict[Pair, list[Conflict]]  # only pairs that have some
    bounds: dict[Pair, int]  # lower bounds on the joint costs of pairs, as far as known; they hold below, too
    cost: int
    clashes: int


class ConflictSearch:
    """One CBS run that can be continued; after `Outcome.FOUND`, `plan` holds the paths as cell indices."""

    def __init__(
        self,
        board: BitSpace,
        starts: list[int],
        goals: list[int],
        *,
        wait_free: bool = False,
        cap: int | None = None,
        deadline: int | None = None,
        greedy: bool = False,
    ) -> None:
        """Sets up the root node.

        Args:
            board: The board.
            starts: Cell index per agent.
            goals: Cell index per agent.
            wait_free: Allow no wait before an agent's arrival for good.
            cap: Look only for plans whose sum of costs is at most this.
            deadline: Look only for plans whose makespan is at most this.
            greedy: Any plan within the deadline will do, whatever its sum of costs: the nodes with the fewest conflicts come
                first, and an agent makes a detour rather than collide.
        """
        self.plan: list[list[int]] = []
        self._greedy = greedy
        self._cut_short = False  # in the middle of a node, whose children are lost: an empty queue proves nothing then
        self._cap = NEVER if cap is None else cap
        self._weights: dict[tuple[ConstrainedAgent, ConstrainedAgent, int, int], tuple[int, bool]] = {}
        self._covers: dict[tuple[tuple[Pair, int], ...], int] = {}
        self._serial = 0
        self._heap: list[tuple[int, int, int, _Node]] = []
        high = NEVER if deadline is None else deadline
        root = self._root([ConstrainedAgent(board, s, g, wait_free=wait_free, high=high) for s, g in zip(starts, goals, strict=True)])
        if root is not None:
            self._push(root.cost, root)
        self.clashing: frozenset[Pair] = frozenset() if root is None else frozenset(root.conflicts)
        """The pairs of agents whose paths at the root collide; any other pair is known to get along."""

    def run(self, budget: Budget, node_limit: int) -> Outcome:
        """Expands at most `node_limit` nodes; call again to go on after `Outcome.LIMIT`."""
        if self._cut_short:
            return Outcome.LIMIT
        try:
            return self._search(budget, node_limit)
        except TimeUpError:
            self._cut_short = True
            return Outcome.LIMIT

    def _search(self, budget: Budget, node_limit: int) -> Outcome:
        while self._heap:
            bound, _, _, node = self._heap[0]
            if bound > self._cap:
                self._heap.clear()
                break
            if not node.clashes:
                self.plan = node.paths
                return Outcome.FOUND
            if node_limit <= 0 or not budget.spend():
                return Outcome.LIMIT
            heappop(self._heap)
            if not self._greedy:
                raised = node.cost + self._increase(node, budget)
                if raised > bound:
                    self._push(raised, node)
                    continue
            node_limit -= 1
            self._expand(bound, node, budget)
        return Outcome.EXHAUSTED

    def _push(self, bound: int, node: _Node) -> None:
        if self._greedy:
            bound = 0
        if bound <= self._cap:
            self._serial += 1
            heappush(self._heap, (bound, node.clashes, -self._serial if self._greedy else self._serial, node))

    def _root(self, agents: list[ConstrainedAgent]) -> _Node | None:
        """Builds the root node, None when an agent has no path even alone."""
        mdds: list[Mdd] = []
        for agent in agents:
            cost = agent.minimal_cost()
            mdd = None if cost is None else agent.mdd(cost)
            if mdd is None:
                return None
            mdds.append(mdd)
        paths, clashing = self._greedy_paths(agents, mdds) if self._greedy else _first_paths(agents, mdds)
        costs = [len(path) - 1 for path in paths]
        conflicts = {}
        for i, j in combinations(range(len(paths)), 2) if clashing else ():
            if j in clashing and (found := conflicts_between(i, paths[i], j, paths[j])):
                conflicts[i, j] = found
        return _Node(agents, costs, mdds, paths, conflicts, {}, sum(costs), sum(map(len, conflicts.values())))

    def _greedy_paths(self, agents: list[ConstrainedAgent], mdds: list[Mdd]) -> tuple[list[list[int]], set[int]]:
        """Chooses paths one by one, with detours, and replaces the MDDs by theirs; any agent may collide."""
        paths: list[list[int]] = []
        for k, agent in enumerate(agents):
            path, mdds[k] = self._choose(agent, mdds[k], paths)
            paths.append(path)
        return paths, set(range(len(agents)))

    def _choose(self, agent: ConstrainedAgent, mdd: Mdd, others: list[list[int]]) -> tuple[list[int], Mdd]:
        """Returns a path that collides little, and its MDD: the given one, or when greedy one of a longer path."""
        if self._greedy:
            crossed = max((time for path in others for time, cell in enumerate(path) if cell == agent.goal), default=-1)
            cost = max(len(mdd) - 1, crossed + 1)
            for longer in range(cost, min(cost + DETOUR_LIMIT, agent.high) + 1):
                wider = agent.mdd(longer)
                path = None if wider is None else conflict_free_path(agent, wider, others)
                if wider is not None and path is not None:
                    return path, wider
        return choose_path(agent, mdd, others), mdd

    def _increase(self, node: _Node, budget: Budget) -> int:
        """Returns a lower bound on how much the node's cost must still grow; another call may tighten it."""
        costs, bounds = node.costs, node.bounds.copy()
        for i, j in node.conflicts:
            least = costs[i] + costs[j]
            key = (node.agents[i], node.agents[j], costs[i], costs[j])
            known, settled = self._weights.get(key, (0, False))
            known = max(known, bounds.get((i, j), 0) - least)
            if not settled and known < WEIGHT_LIMIT:
                limit = min(known + WEIGHT_STEP, self._cap - node.cost + 1)
                known, settled = pair_increase(*key, known=known, limit=limit, budget=budget)
                self._weights[key] = known, settled
            bounds[i, j] = least + known
        node.bounds = bounds
        weights = tuple([(pair, bound - costs[pair[0]] - costs[pair[1]]) for pair, bound in bounds.items()])
        cover = self._covers.get(weights)
        if cover is None:
            cover = self._covers[weights] = cover_weight({pair: weight for pair, weight in weights if weight > 0}, budget)
        return cover

    def _expand(self, bound: int, node: _Node, budget: Budget) -> None:
        """Splits a node on one conflict, after working out for free what conflicts it can (bypass)."""
        while True:
            children = []
            conflict = choose_conflict(node.conflicts.values(), node.mdds)
            for changes in self._split(node, conflict):
                child = self._child(node, changes, budget)
                if child is None:
                    continue
                if child.clashes < node.clashes and (self._greedy or child.cost == node.cost):
                    break
                children.append(child)
            else:
                for child in children:
                    self._push(max(bound, child.cost), child)
                return
            if self._greedy:
                node = replace(child, agents=node.agents)
            else:
                node = replace(node, paths=child.paths, conflicts=child.conflicts, clashes=child.clashes)
            if not node.clashes:
                self._push(bound, node)
                return

    @staticmethod
    def _split(node: _Node, conflict: Conflict) -> list[dict[int, ConstrainedAgent]]:
        """Returns two sets of tighter constraints; every plan that satisfies the node satisfies one of them."""
        kind, i, j, time, origin, cell = conflict
        first, second = node.agents[i], node.agents[j]
        here = 1 << cell
        if kind is ConflictKind.VERTEX:
            return [{i: first.avoiding(time, here)}, {j: second.avoiding(time, here)}]
        if kind is ConflictKind.SWAP:
            return [{i: first.avoiding_move(time, (origin, cell))}, {j: second.avoiding_move(time, (cell, origin))}]
        early = {k: agent.avoiding_from(time, here) for k, agent in enumerate(node.agents) if k != i}
        early[i] = first.arriving(high=time)
        return [{i: first.arriving(low=time + 1)}, early]

    def _child(self, node: _Node, changes: dict[int, ConstrainedAgent], budget: Budget) -> _Node | None:
        """Returns the node under tighter constraints, None when an agent has no path left."""
        agents, costs, mdds, paths = node.agents.copy(), node.costs.copy(), node.mdds.copy(), node.paths.copy()
        stale = []
        for k, agent in changes.items():
            budget.check()
            cost = agent.minimal_cost(0 if self._greedy else costs[k])
            mdd = None if cost is None else agent.mdd(cost)
            if cost is None or mdd is None:
                return None
            agents[k] = agent
            if self._greedy and agent.allows(paths[k]):
                continue
            if cost != costs[k] or not agent.allows(paths[k]):
                stale.append(k)
            costs[k], mdds[k] = cost, mdd
        conflicts = node.conflicts
        if stale:
            kept = {k: path for k, path in enumerate(paths) if k not in stale}
            for k in stale:
                paths[k], mdds[k] = self._choose(agents[k], mdds[k], list(kept.values()))
                kept[k] = paths[k]
                costs[k] = len(paths[k]) - 1
            conflicts = _recount(conflicts, paths, stale)
        return _Node(agents, costs, mdds, paths, conflicts, node.bounds, sum(costs), sum(map(len, conflicts.values())))


def _first_paths(agents: list[ConstrainedAgent], mdds: list[Mdd]) -> tuple[list[list[int]], set[int]]:
    """Chooses paths one by one, and tells which agents may collide with one before them."""
    paths: list[list[int]] = []
    clashing = set()
    horizon = max(map(len, mdds))
    traffic = [0] * horizon
    for k, (agent, mdd) in enumerate(zip(agents, mdds, strict=True)):
        path = conflict_free_path(agent, mdd, paths, traffic)
        if path is None:
            path = fewest_conflicts(agent, mdd, paths)
            clashing.add(k)
        bits = [1 << cell for cell in path]
        if any(map(bits[-1].__and__, traffic[len(path) :])):  # somebody passes over its goal later
            clashing.add(k)
        bits += bits[-1:] * (horizon - len(path))
        traffic = list(map(or_, traffic, bits))
        paths.append(path)
    return paths, clashing


def _recount(conflicts: dict[Pair, list[Conflict]], paths: list[list[int]], stale: list[int]) -> dict[Pair, list[Conflict]]:
    """Returns the conflicts by pair after the paths of the `stale` agents changed."""
    kept = {}
    for i, j in combinations(range(len(paths)), 2):
        if i in stale or j in stale:
            if found := conflicts_between(i, paths[i], j, paths[j]):
                kept[i, j] = found
        elif (i, j) in conflicts:
            kept[i, j] = conflicts[i, j]
    return kept
