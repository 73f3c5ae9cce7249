"""Random streams: one `numpy` generator per purpose, spawned from the run's seed by name and index.

Streams are keyed by words and integers, so adding a purpose never shifts another one, and the number of workers never
matters. No global generator is ever touched.
"""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["derive_seed", "random_stream"]


def _word(part: str | int) -> int:
    if isinstance(part, int):
        return part
    return int.from_bytes(hashlib.sha256(part.encode("utf-8")).digest()[:4], "big")


def random_stream(seed: int, *key: str | int) -> np.random.Generator:
    """Return the generator of the stream named by `key` ("instances", stage, size, index, ...) under `seed`."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=tuple(_word(part) for part in key))))


def derive_seed(seed: int, *key: str | int) -> int:
    """Return a 31-bit seed for libraries that want one integer."""
    return int(random_stream(seed, *key).integers(0, 2**31 - 1))
