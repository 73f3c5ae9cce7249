"""How long a tool call may take: tools ask between two pieces of work, so an answer within the bound never depends on the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from envwright.tools.errors import ToolError, ToolErrorCode

__all__ = ["check_time", "time_bound"]


@dataclass(frozen=True, slots=True)
class _Bound:
    """The bound on the call that is being carried out."""

    seconds: float
    ends: float
    clock: Callable[[], float]


_BOUND: ContextVar[_Bound | None] = ContextVar("bound", default=None)


@contextmanager
def time_bound(seconds: float | None, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Bound the time of what is called inside.

    Args:
        seconds: the bound; None for none.
        clock: seconds, from any start.
    """
    token = _BOUND.set(None if seconds is None else _Bound(seconds, clock() + seconds, clock))
    try:
        yield
    finally:
        _BOUND.reset(token)


def check_time(progress: str) -> None:
    """End the call when its time is over; does nothing where no bound is set.

    Args:
        progress: what was done so far and how to ask for less, such as "2 of 8 sizes were tried; ask for fewer boards with n".

    Raises:
        ToolError: `timeout`.
    """
    bound = _BOUND.get()
    if bound is not None and bound.clock() >= bound.ends:
        raise ToolError(ToolErrorCode.TIMEOUT, f"the call took longer than {bound.seconds:g} s: {progress}")
