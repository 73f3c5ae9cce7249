"""Keeps freed memory in the process while training on a CPU.

PyTorch allocates and frees large tensors thousands of times a step. glibc returns each to the system and asks for it again,
and the page faults cost up to half the time of a step (docs/notes/pocket-policy.md). No effect on other C libraries.
"""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8  # glibc's malloc.h


def keep_freed_memory() -> bool:
    """Tell glibc's allocator to keep what is freed; returns False where there is no glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    settings = ((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1))
    return all(mallopt(parameter, value) == 1 for parameter, value in settings)
