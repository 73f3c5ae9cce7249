"""All boards of a small stratum, one of each kind up to symmetry and agent names.

Small strata run out of new boards. Listing them proves that they have, and finds the last ones that sampling would
take long to meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, permutations
from math import comb, perm

import numpy as np

from envwright.env.canonical import Split, canonical_form
from envwright.env.independent import cell_bits
from envwright.env.labelling import Labelled, judge
from envwright.env.sampling import Draw
from envwright.env.strata import Stratum

__all__ = ["all_boards", "is_listable", "turned"]

MAX_PLACEMENTS = 29_000
"""Most placements of the agents, symmetric sets of holes left out, that are gone through: seconds."""
MAX_HOLE_SETS = 5_000
"""Most sets of holes, symmetric ones included, that are gone through."""


def is_listable(stratum: Stratum) -> bool:
    """Tell whether the stratum is small enough to list its boards."""
    hole_sets = comb(stratum.size * stratum.size, stratum.holes)
    placements = comb(stratum.num_free, stratum.num_agents) * perm(stratum.num_free, stratum.num_agents)
    return hole_sets <= MAX_HOLE_SETS and max(1, hole_sets // 8) * placements <= MAX_PLACEMENTS


@lru_cache(maxsize=8)
def all_boards(stratum: Stratum, split: Split) -> tuple[Labelled, ...]:
    """Return every board of a listable stratum that belongs to the split, each once, in a fixed order."""
    found: dict[str, Labelled] = {}
    for draw in _placements(stratum):
        board = judge(draw, stratum, split)
        if not isinstance(board, str):
            found.setdefault(board.digest, board)
    return tuple(found.values())


def _placements(stratum: Stratum) -> Iterator[Draw]:
    """Yield boards so that every board agrees with one of them up to symmetry and agent names."""
    size, cells, bits = stratum.size, range(stratum.size * stratum.size), cell_bits(stratum.size)
    for holes in combinations(cells, stratum.holes):
        places = [divmod(cell, size) for cell in holes]
        if canonical_form(size, places, (), ())[1] != sum(1 << cell for cell in holes):
            continue
        free_cells = [cell for cell in cells if cell not in holes]
        free = sum(bits[cell] for cell in free_cells)
        for starts in combinations(free_cells, stratum.num_agents):
            for goals in permutations(free_cells, stratum.num_agents):
                if all(start != goal for start, goal in zip(starts, goals, strict=True)):
                    yield Draw(list(holes), free, list(starts), list(goals))


def turned(board: Labelled, size: int, rng: np.random.Generator) -> Labelled:
    """Return the same board under a random symmetry of the square and with its agents in random order."""
    quarter_turns, mirrored = int(rng.integers(4)), bool(rng.integers(2))
    last = size - 1

    def move(cell: tuple[int, int]) -> tuple[int, int]:
        row, col = cell
        for _ in range(quarter_turns):
            row, col = col, last - row
        return (row, last - col) if mirrored else (row, col)

    order = rng.permutation(len(board.starts)).tolist()
    return Labelled(
        digest=board.digest,
        holes=tuple(sorted(map(move, board.holes))),
        starts=tuple(move(board.starts[agent]) for agent in order),
        goals=tuple(move(board.goals[agent]) for agent in order),
        cost=board.cost,
        makespan=board.makespan,
    )
