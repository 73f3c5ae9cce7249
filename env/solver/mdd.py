"""One agent under constraints: its minimal cost and its multi-valued decision diagrams (MDDs).

The MDD of cost `c` (Sharon et al., "The increasing cost tree search", AIJ 2013) holds, for each timestep
`0..c`, the cells that lie on some path of exactly that cost: here one bit set per timestep, the set reachable
from the start and-ed with the set that can still reach the goal in time. A cost counts the timesteps until the
agent is on its goal *for good*: it may cross the goal earlier, so the last move of a path always enters the goal.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from envwright.env.solver.space import BitSpace

Mdd: TypeAlias = list[int]
"""One bit set of cells per timestep."""

Move: TypeAlias = tuple[int, int]
"""`(from, to)`, as cell indices."""

NEVER = 1 << 30
"""A timestep later than any that occurs."""


def without_moves(targets: int, sources: int, moves: Iterable[Move], adjacency: Mapping[int, int]) -> int:
    """Drops from `targets` the cells that only a forbidden move reaches from `sources`."""
    banned: dict[int, int] = {}
    for source, target in moves:
        banned[target] = banned.get(target, 0) | 1 << source
    for target, mask in banned.items():
        if targets >> target & 1 and not sources & adjacency[target] & ~mask:
            targets ^= 1 << target
    return targets


class ConstrainedAgent:
    """An agent with the constraints of one CBS node; immutable, a method returns the tighter copy.

    Attributes:
        start: Cell index.
        goal: Cell index.
        distance: The fewest moves from start to goal, None when there is no way.
        wait_free: Whether the agent has to move in every timestep before its arrival for good.
        adjacency: Where one timestep may lead: with the cell itself unless `wait_free`.
        forbidden_moves: Timestep of arrival to the moves forbidden then.
    """

    __slots__ = (
        "_after",
        "_forbidden",
        "_last",
        "_mdds",
        "_reach",
        "adjacency",
        "board",
        "distance",
        "forbidden_moves",
        "goal",
        "high",
        "low",
        "start",
        "wait_free",
    )

    def __init__(self, board: BitSpace, start: int, goal: int, *, wait_free: bool = False, high: int = NEVER) -> None:
        self.board = board
        self.start = start
        self.goal = goal
        self.distance = board.steps(start, goal)
        self.wait_free = wait_free
        self.low = 0
        self.high = high
        self.adjacency: Mapping[int, int] = board.neighbours if wait_free else board.reachable
        self.forbidden_moves: dict[int, tuple[Move, ...]] = {}
        self._forbidden: dict[int, int] = {}  # timestep -> cells
        self._after: tuple[tuple[int, int], ...] = ()  # (timestep, cells): from then on, for ever
        self._last = 0  # after this timestep the constraints do not change any more
        self._reach = [1 << start]  # cells reachable at each timestep, extended on demand
        self._mdds: dict[int, Mdd | None] = {}

    def _copy(self, since: int | None = None) -> "ConstrainedAgent":
        """Copies the agent; what was computed is shared up to the timestep of a new constraint."""
        twin = ConstrainedAgent.__new__(ConstrainedAgent)
        twin.board, twin.start, twin.goal = self.board, self.start, self.goal
        twin.distance, twin.wait_free, twin.adjacency = self.distance, self.wait_free, self.adjacency
        twin.low, twin.high = self.low, self.high
        twin.forbidden_moves, twin._forbidden, twin._after = self.forbidden_moves, self._forbidden, self._after
        if since is None:
            twin._last, twin._reach, twin._mdds = self._last, self._reach, self._mdds
        else:
            twin._last, twin._reach, twin._mdds = max(self._last, since), self._reach[:since], {}
        return twin

    def avoiding(self, time: int, cells: int) -> "ConstrainedAgent":
        """Returns the agent that may not be on `cells` at `time` (at least 1)."""
        twin = self._copy(time)
        twin._forbidden = {**self._forbidden, time: self._forbidden.get(time, 0) | cells}
        return twin

    def avoiding_from(self, time: int, cells: int) -> "ConstrainedAgent":
        """Returns the agent that may not be on `cells` from `time` (at least 1) on."""
        twin = self._copy(time)
        twin._after = (*self._after, (time, cells))
        return twin

    def avoiding_move(self, time: int, move: Move) -> "ConstrainedAgent":
        """Returns the agent that may not make `move` to arrive at `time`."""
        twin = self._copy(time)
        twin.forbidden_moves = {**self.forbidden_moves, time: (*self.forbidden_moves.get(time, ()), move)}
        return twin

    def arriving(self, *, low: int = 0, high: int = NEVER) -> "ConstrainedAgent":
        """Returns the agent whose cost lies within the bounds, both included."""
        twin = self._copy()
        twin.low = max(self.low, low)
        twin.high = min(self.high, high)
        return twin

    def minimal_cost(self, floor: int = 0) -> int | None:
        """Returns the least cost of at least `floor` that the constraints allow, None when there is none.

        The search ends: once the constraints stop changing, a path that exists is no longer than the board has vertices.
        """
        distance = self.distance
        if distance is None or any(cells >> self.goal & 1 for _, cells in self._after):
            return None
        low = max(distance, self.low, floor)
        if low == distance and not self._last:
            return low if low <= self.high else None
        for time, cells in self._forbidden.items():
            if time >= low and cells >> self.goal & 1:
                low = time + 1
        high = min(self.high, max(low, self._last) + self.board.free.bit_count() + 1)
        for cost in range(low, high + 1):
            if self._arrives(cost):
                return cost
            if cost and not self._reach[cost]:
                return None
        return None

    def mdd(self, cost: int) -> Mdd | None:
        """Returns the MDD of exactly this cost (its `low` and `high` aside), None when no path has it."""
        try:
            return self._mdds[cost]
        except KeyError:
            pass
        if not self._last and cost == self.distance:
            found = self.board.shortest(self.start, self.goal)
        else:
            found = self._backward(cost) if self._arrives(cost) else None
        self._mdds[cost] = found
        return found

    def allows(self, path: list[int]) -> bool:
        """Tells whether a path of cell indices, parked at its end for good, satisfies every constraint."""
        cost = len(path) - 1
        if not self.low <= cost <= self.high:
            return False
        for time, cells in self._forbidden.items():
            if cells >> path[min(time, cost)] & 1:
                return False
        for time, moves in self.forbidden_moves.items():
            if time <= cost and (path[time - 1], path[time]) in moves:
                return False
        return not any(cells >> cell & 1 for since, cells in self._after for cell in path[min(since, cost) :])

    def _arrives(self, cost: int) -> bool:
        """Tells whether a move at timestep `cost` can enter the goal (cost 0: whether the agent starts there)."""
        if cost == 0:
            return self.start == self.goal
        if len(self._reach) <= cost:
            self._extend(cost)
        if not self._reach[cost] >> self.goal & 1:
            return False
        sources = self._reach[cost - 1] & self.board.neighbours[self.goal]
        for source, target in self.forbidden_moves.get(cost, ()):
            if target == self.goal:
                sources &= ~(1 << source)
        return sources != 0

    def _extend(self, until: int) -> None:
        """Computes the sets of reachable cells up to a timestep."""
        reach, width, near, free, moving = self._reach, self.board.width, self.board.near, self.board.free, self.wait_free
        cells = reach[-1]
        last = self._last
        for time in range(len(reach), until + 1):
            before = cells
            cells = before << 1 | before >> 1 | before << width | before >> width if width else near(before)
            if not moving:
                cells |= before
            cells &= free
            if time <= last:
                if time in self._forbidden:
                    cells &= ~self._forbidden[time]
                if time in self.forbidden_moves:
                    cells = without_moves(cells, before, self.forbidden_moves[time], self.adjacency)
            for since, blocked in self._after:
                if time >= since:
                    cells &= ~blocked
            reach.append(cells)

    def _backward(self, cost: int) -> Mdd:
        """Cuts the reachable sets down to the paths that enter the goal at timestep `cost`."""
        reach, width, near, moving = self._reach, self.board.width, self.board.near, self.wait_free
        layers = reach[: cost + 1]
        layers[cost] = cells = 1 << self.goal
        for time in range(cost - 1, -1, -1):
            after = cells
            cells = after << 1 | after >> 1 | after << width | after >> width if width else near(after)
            if not moving and time != cost - 1:
                cells |= after
            cells &= layers[time]
            if time + 1 in self.forbidden_moves:
                backward = [(target, source) for source, target in self.forbidden_moves[time + 1]]
                cells = without_moves(cells, after, backward, self.adjacency)
            layers[time] = cells
        return layers
