"""Which boards are the same, and which split a board belongs to.

Two boards are the same when they agree up to the 8 symmetries of the square and the renaming of agents. The content
hash is taken of the smallest such form, and alone decides the split, so no seed can leak a board between splits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache

__all__ = ["Split", "canonical_form", "content_hash", "split_of_hash"]

Cell = tuple[int, int]


class Split(StrEnum):
    """What a board may be used for."""

    TRAIN = "train"
    """Policies are trained on these boards: 80 % of all."""
    VALIDATION = "validation"
    """The evidence that engineers read, and the gate: 10 %."""
    BENCHMARK = "benchmark"
    """Held out for the final figures: 10 %."""


@lru_cache(maxsize=128)
def _symmetries(size: int) -> tuple[tuple[int, ...], ...]:
    """The 8 symmetries of the square as permutations of cell indices `row * size + col`."""
    last = size - 1
    tables = []
    for transpose in (False, True):
        for flip_rows in (False, True):
            for flip_cols in (False, True):
                table = []
                for row in range(size):
                    for col in range(size):
                        a, b = (col, row) if transpose else (row, col)
                        table.append((last - a if flip_rows else a) * size + (last - b if flip_cols else b))
                tables.append(tuple(table))
    return tuple(tables)


def canonical_form(
    size: int, holes: Iterable[Cell], starts: Sequence[Cell], goals: Sequence[Cell]
) -> tuple[int, int, tuple[tuple[int, int], ...]]:
    """Return `(size, holes as a bit set, sorted (start, goal) indices)`, the least over the 8 symmetries."""
    hole_cells = [row * size + col for row, col in holes]
    pairs = [(s[0] * size + s[1], g[0] * size + g[1]) for s, g in zip(starts, goals, strict=True)]
    best: tuple[int, tuple[tuple[int, int], ...]] | None = None
    for table in _symmetries(size):
        mask = 0
        for cell in hole_cells:
            mask |= 1 << table[cell]
        if best is not None and mask > best[0]:
            continue
        form = (mask, tuple(sorted((table[s], table[g]) for s, g in pairs)))
        if best is None or form < best:
            best = form
    assert best is not None
    return (size, *best)


def content_hash(size: int, holes: Iterable[Cell], starts: Sequence[Cell], goals: Sequence[Cell]) -> str:
    """Return the board's content hash: 16 hex digits of the SHA-256 of its canonical form."""
    side, mask, pairs = canonical_form(size, holes, starts, goals)
    text = f"{side}|{mask:x}|{pairs}"
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def split_of_hash(digest: str) -> Split:
    """Return the one split that a content hash belongs to."""
    share = int(digest[:8], 16) / 2**32
    return Split.TRAIN if share < 0.8 else Split.VALIDATION if share < 0.9 else Split.BENCHMARK
