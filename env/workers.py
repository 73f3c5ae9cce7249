"""Processes that share out independent pieces of work; the results come in order and never depend on their number."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Self, TypeVar

from envwright.env.errors import UserError

__all__ = ["MAX_WORKERS", "Workers"]

T = TypeVar("T")
R = TypeVar("R")

MAX_WORKERS = 64
"""Most processes that may be asked for."""
_CHUNK = 8


class Workers:
    """Maps a function over items, in this process (1 worker) or over several; a context manager.

    Several processes are spawned, so the function must be importable, and a script that asks for them needs the usual
    `if __name__ == "__main__":`. They start when the first long sequence comes.
    """

    def __init__(self, workers: int = 1) -> None:
        if not 1 <= workers <= MAX_WORKERS:
            raise UserError(f"workers must be between 1 and {MAX_WORKERS}, got {workers!r}")
        self._workers = workers
        self._executor: Executor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Yield `function(item)` for every item, in order; short sequences are not worth sending away."""
        if self._workers == 1 or len(items) <= _CHUNK:
            return map(function, items)
        if self._executor is None:
            self._executor = ProcessPoolExecutor(self._workers, mp_context=multiprocessing.get_context("spawn"))
        return self._executor.map(function, items, chunksize=_CHUNK)
