"""Boards whose agents have walked: the starts are uniform, the goals are where a legal joint walk has led the agents.

A crowd in corridors seldom has a plan at all when its goals are drawn freely, and proving it either way is what costs. After
a walk there is a plan by construction, and a short one, so that the solver finds the optimum soon. The price is a
population of its own: the goals lie nearer than free ones, and boards that need long detours are rare.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from envwright.env.independent import cell_bits, distance_layers
from envwright.env.sampling import Draw, largest_component, layouts
from envwright.env.strata import Stratum

__all__ = ["walk_draws"]

WALK_LENGTH = 1.5
"""Longest walk in board sides; lengths are uniform from one timestep on."""
SPARE_STEPS = 6
"""Timesteps that a walk may be longer when agents stand on their starts at its end."""
YIELDING = 0.3
"""Chance that an agent whose way is taken steps aside instead of waiting."""


def walk_draws(rng: np.random.Generator, stratum: Stratum) -> Iterator[Draw | str]:
    """Yield boards of the largest component whose goals are the ends of a joint walk, without end; a reason in place of a failed one."""
    agents, longest = stratum.num_agents, max(2, int(WALK_LENGTH * stratum.size))
    for holes, free, order, _ in layouts(rng, stratum):
        cells = largest_component(stratum.size, free)
        starts = [cell for cell in order if cell_bits(stratum.size)[cell] & cells][:agents]
        if len(starts) < agents:
            yield "too few connected cells"
            continue
        goals = _Walk(stratum.size, cells, starts, rng).run(1 + int(rng.integers(longest)))
        yield "an agent starts at its goal" if goals is None else Draw(holes, free, starts, goals)


class _Walk:
    """Agents that head for places of their own, one after another within a timestep, each into an empty cell.

    Cells are indices. Moves into cells that were left in the same timestep are follows, so the walk is a legal plan.
    """

    def __init__(self, size: int, cells: int, starts: list[int], rng: np.random.Generator) -> None:
        self._size, self._cells, self._rng = size, cells, rng
        self._places = [index for index, bit in enumerate(cell_bits(size)) if bit & cells]
        self._near = {place: self._neighbours(place) for place in self._places}
        self._starts, self._at = starts, list(starts)
        self._occupied = set(starts)
        self._far = [self._new_target() for _ in starts]

    def run(self, steps: int) -> list[int] | None:
        """Walk for so many timesteps, and a few more while an agent stands on its start; None when one still does."""
        for step in range(steps + SPARE_STEPS):
            if step >= steps and self._all_away():
                break
            for agent in self._rng.permutation(len(self._at)).tolist():
                self._move(agent)
        return self._at if self._all_away() else None

    def _all_away(self) -> bool:
        return all(start != cell for start, cell in zip(self._starts, self._at, strict=True))

    def _move(self, agent: int) -> None:
        cell, far = self._at[agent], self._far[agent]
        if far[cell] == 0:
            far = self._far[agent] = self._new_target()
        open_cells = [near for near in self._near[cell] if near not in self._occupied]
        closer = [near for near in open_cells if far[near] < far[cell]]
        chance, choice = self._rng.random(2).tolist()
        options = closer or (open_cells if chance < YIELDING else [])
        if options:
            self._occupied.discard(cell)
            self._at[agent] = options[int(choice * len(options))]
            self._occupied.add(self._at[agent])

    def _new_target(self) -> dict[int, int]:
        """Return the distances to a random cell."""
        bits = cell_bits(self._size)
        target = self._places[int(self._rng.integers(len(self._places)))]
        layers = distance_layers(self._cells, self._size + 1, bits[target])
        return {place: steps for place in self._places for steps, layer in enumerate(layers) if bits[place] & layer}

    def _neighbours(self, place: int) -> list[int]:
        width, bits = self._size + 1, cell_bits(self._size)
        bit = bits[place]
        around = (bit << 1 | bit >> 1 | bit << width | bit >> width) & self._cells
        return [other for other in self._places if bits[other] & around]
