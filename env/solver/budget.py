"""How much work one board may cost, and how a search says that it ended."""

from enum import Enum, auto
from time import perf_counter


class Outcome(Enum):
    """How one search ended."""

    FOUND = auto()
    """It holds an optimal plan."""

    EXHAUSTED = auto()
    """Proved: there is no plan within what was asked for."""

    LIMIT = auto()
    """Its share of nodes, or the board's whole budget, was spent first."""


class TimeUpError(Exception):
    """The board's time limit passed in the middle of a node; the search that catches it answers `Outcome.LIMIT`."""


class Budget:
    """The time and nodes left for one board, shared by all the searches about it.

    Without a time limit no clock is read, so that results do not depend on the machine.
    """

    __slots__ = ("_deadline", "_nodes")

    def __init__(self, time_limit: float | None = None, node_limit: int | None = None) -> None:
        self._deadline = None if time_limit is None else perf_counter() + time_limit
        self._nodes = node_limit

    def spend(self) -> bool:
        """Takes one node off the budget; False when nothing is left."""
        if self._nodes is not None:
            if self._nodes <= 0:
                return False
            self._nodes -= 1
        return self._deadline is None or perf_counter() < self._deadline

    def check(self) -> None:
        """Looks at the clock inside a node that may take long.

        Raises:
            TimeUpError: The time limit has passed.
        """
        if self._deadline is not None and perf_counter() >= self._deadline:
            raise TimeUpError
