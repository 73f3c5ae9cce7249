"""The processes of one `accelerate launch`: who is the main one, and how they share out work and hand each other results.

One process needs none of it, and imports nothing for it. Every call but `num_processes` and `is_main` is made by all processes
together, in the same order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

__all__ = ["SharedWork", "by_main", "gather_lists", "is_main", "num_processes", "plain_model", "process_index", "share", "wait"]

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
_ITEMS_PER_ROUND = 256
"""Items between two meetings of the processes."""


def num_processes() -> int:
    """Number of processes; 1 outside of `accelerate launch` and torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def process_index() -> int:
    """Number of this process, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_main() -> bool:
    """True for the process that writes files and talks."""
    return process_index() == 0


def gather_lists(part: list[T]) -> list[list[T]]:
    """Return every process's list, in the order of their numbers."""
    if num_processes() == 1:
        return [part]
    from accelerate.utils import gather_object

    _state()
    return cast("list[list[T]]", gather_object([part]))


def share(value: T) -> T:
    """Return the main process's value."""
    if num_processes() == 1:
        return value
    from accelerate.utils import broadcast_object_list

    _state()
    holder = [value]
    broadcast_object_list(holder, from_process=0)
    return holder[0]


class SharedWork:
    """Maps a function over items, each process taking its share; every process gets all results, in order."""

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Yield `function(item)` for every item; all processes take as many results as each other."""
        for first in range(0, len(items), _ITEMS_PER_ROUND):
            some = items[first : first + _ITEMS_PER_ROUND]
            parts = gather_lists([function(item) for item in some[process_index() :: num_processes()]])
            for place in range(len(some)):
                yield parts[place % len(parts)][place // len(parts)]


def wait() -> None:
    """Return when all processes have come here."""
    if num_processes() > 1:
        _state().wait_for_everyone()


def plain_model(accelerator: Any, model: Any) -> Any:
    """Return a trained model as it was before its trainer wrapped it, for evaluation; what the trainer held on a GPU is freed."""
    import torch

    plain = accelerator.unwrap_model(model, keep_fp32_wrapper=False)
    accelerator.free_memory()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return plain.eval()


def by_main(function: Callable[P, None]) -> Callable[P, None]:
    """Let the main process alone do what a function does, and the others wait for it."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> None:
        if is_main():
            function(*args, **kwargs)
        wait()

    return called


def _state() -> Any:
    """The processes' common state; the first call joins them."""
    import torch
    from accelerate import PartialState

    is_cpu = os.environ.get("ACCELERATE_USE_CPU", "false") == "true"

    return PartialState(cpu=is_cpu or not torch.cuda.is_available(), timeout=timedelta(days=7))  # an engineer, or a person, may take long
