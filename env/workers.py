"""Processes that share out independent pieces of work; the results come in order and never depend on their number."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from time import process_time
from typing import Protocol, Self, TypeVar

from envwright.env.errors import UserError

__all__ = ["MAX_WORKERS", "Pool", "Workers"]

T = TypeVar("T")
R = TypeVar("R")

MAX_WORKERS = 64
"""Most processes that may be asked for."""
START_WORTH, SHARE_WORTH = 4.0, 0.1
"""CPU seconds of work left from which on processes are started (each costs about half a second), or those that run are used."""
TRIAL, CHUNK = 0.2, 0.05
"""CPU seconds of work done in this process first, to see what an item costs, and of the work sent away at a time."""


class Pool(Protocol):
    """Shares out independent pieces of work."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Yield `function(item)` for every item, in order."""


class Workers:
    """Maps a function over items, in this process (1 worker) or over several; a context manager.

    Several processes are spawned, so the function must be importable, and a script that asks for them needs the usual
    `if __name__ == "__main__":`. They start when there is work enough to be worth it.
    """

    def __init__(self, workers: int = 1, expected: int = 0) -> None:
        """Take the number of processes, and how many items all the sequences may have together, 0 when that is not known."""
        if not 1 <= workers <= MAX_WORKERS:
            raise UserError(f"workers must be between 1 and {MAX_WORKERS}, got {workers!r}")
        self._workers, self._expected = workers, expected
        self._executor: Executor | None = None
        self._done, self._spent = 0, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Yield `function(item)` for every item, in order; the clock decides where it is worked out, never what comes out."""
        spent = 0.0
        for done, item in enumerate(items):
            each = spent / done if done else 0.0
            if self._workers > 1 and done and self._is_worth(each, len(items) - done):
                chunk = min(int(CHUNK / each) + 1 if each else len(items), (len(items) - done) // (2 * self._workers) + 1)
                yield from self._pool().map(function, items[done:], chunksize=chunk)
                return
            begin = process_time()
            result = function(item)
            spent += process_time() - begin
            self._done, self._spent = self._done + 1, self._spent + process_time() - begin
            yield result

    def _is_worth(self, each: float, left: int) -> bool:
        """Tell whether so many items that cost so much should go to other processes."""
        if self._executor is None:
            seconds_left = self._spent / self._done * max(left, self._expected - self._done)
            if self._spent < TRIAL or seconds_left < START_WORTH:
                return False
        return each * left >= SHARE_WORTH

    def _pool(self) -> Executor:
        if self._executor is None:
            self._executor = ProcessPoolExecutor(self._workers, mp_context=multiprocessing.get_context("spawn"))
        return self._executor
