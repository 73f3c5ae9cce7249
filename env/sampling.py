"""Random boards of a stratum, not labelled yet: uniform ones, and ones built around a crossing of two agents.

*Rejection* draws holes, starts and goals uniformly; the wait label decides what is kept. *Construction* makes boards on
which two agents are likely to want one cell at one time: a cell, two starts on a ring around it, goals beyond it on
shortest paths through it (or one goal on it), the other agents uniform. Cells are indices `row * size + col`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from envwright.env.independent import cell_bits, distance_layers
from envwright.env.strata import Stratum

__all__ = ["Draw", "Sampler", "constructed_draws", "largest_component", "layouts", "uniform_draws"]

COMPONENT_RATIO = 0.4
"""Above this share of holes starts and goals are drawn in the largest connected component, or most goals would be out of reach."""
CROWD_COMPONENT_RATIO = 0.15
"""The same for a crowd: of many agents one is soon in another component."""
PARKING_SHARE = 0.25
"""Share of constructed boards on which the one agent's goal is the cell itself, and the other passes later."""
NEARNESS = 3.0
"""Power that draws starts and goals towards the crossing; at 1 paths are longer than those of wait-required boards are by nature."""
_LARGEST_BATCH = 32


class Sampler(StrEnum):
    """How a board came about."""

    REJECTION = "rejection"
    """Holes, starts and goals uniform; kept when the label fits."""
    CONSTRUCTION = "construction"
    """Built around a crossing of two agents; kept when the label fits."""
    WALK = "walk"
    """Goals at the end of a joint walk from the starts; kept when the label fits. For crowds that the solver can hardly settle."""
    ENUMERATION = "enumeration"
    """Taken from the list of all boards of a small stratum, after the others had found nearly all of them."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A board without labels."""

    holes: list[int]
    """Holes."""
    free: int
    """The cells that are no holes, as a set laid out like `BitBoard`."""
    starts: list[int]
    """Start per agent."""
    goals: list[int]
    """Goal per agent."""


def uniform_draws(rng: np.random.Generator, stratum: Stratum) -> Iterator[Draw | str]:
    """Yield boards with uniform holes, starts and goals without end; a reason in place of a board that cannot be."""
    agents, connected = stratum.num_agents, _wants_component(stratum)
    for holes, free, order, targets in layouts(rng, stratum):
        if connected:
            order, targets = _in_largest_component(stratum.size, free, order, targets)
            if len(order) < max(agents, 2):
                yield "too few connected cells"
                continue
        starts, goals = order[:agents], targets[:agents]
        if any(start == goal for start, goal in zip(starts, goals, strict=True)):
            yield "an agent starts at its goal"
            continue
        yield Draw(holes, free, starts, goals)


def constructed_draws(rng: np.random.Generator, stratum: Stratum) -> Iterator[Draw | str]:
    """Yield boards on which agents are likely to cross without end; a reason in place of one that did not work out."""
    agents = stratum.num_agents
    for holes, free, order, targets in layouts(rng, stratum):
        pair = _crossing(rng.random(9).tolist(), free, stratum.size, order)
        if pair is None:
            yield "no crossing"
            continue
        starts, goals = (list(cells) for cells in pair)
        starts += [cell for cell in order if cell not in starts][: agents - 2]
        goals += [cell for cell in targets if cell not in goals][: agents - 2]
        if any(start == goal for start, goal in zip(starts, goals, strict=True)):
            yield "an agent starts at its goal"
            continue
        names = rng.permutation(agents).tolist()
        yield Draw(holes, free, [starts[name] for name in names], [goals[name] for name in names])


def layouts(rng: np.random.Generator, stratum: Stratum) -> Iterator[tuple[list[int], int, list[int], list[int]]]:
    """Yield holes, the set of free cells, and two independent random orders of the free cells."""
    cells, holes, bits = stratum.size * stratum.size, stratum.holes, cell_bits(stratum.size)
    everything, batch = sum(bits), 2
    while True:
        scores_2BC = rng.random((2, batch, cells))
        order_BC = scores_2BC[0].argsort(axis=1)
        np.put_along_axis(scores_2BC[1], order_BC[:, :holes], 2.0, axis=1)
        target_BC = scores_2BC[1].argsort(axis=1)[:, : cells - holes]
        for order, targets in zip(order_BC.tolist(), target_BC.tolist(), strict=True):
            lakes = order[:holes]
            free = everything
            for cell in lakes:
                free ^= bits[cell]
            yield lakes, free, order[holes:], targets
        batch = min(2 * batch, _LARGEST_BATCH)


def _wants_component(stratum: Stratum) -> bool:
    ratio = CROWD_COMPONENT_RATIO if stratum.is_crowd else COMPONENT_RATIO
    return stratum.holes > ratio * stratum.size * stratum.size


def largest_component(size: int, free: int) -> int:
    """Return the cells of the largest connected component of a set of cells."""
    width, rest, largest = size + 1, free, 0
    while rest.bit_count() > largest.bit_count():
        component = sum(distance_layers(rest, width, rest & -rest))
        rest ^= component
        largest = max(largest, component, key=int.bit_count)
    return largest


def _in_largest_component(size: int, free: int, order: list[int], targets: list[int]) -> tuple[list[int], list[int]]:
    """Keep the cells of the largest connected component, in order."""
    bits, largest = cell_bits(size), largest_component(size, free)
    return [cell for cell in order if bits[cell] & largest], [cell for cell in targets if bits[cell] & largest]


def _crossing(chances: list[float], free: int, size: int, order: list[int]) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Choose two agents that both have a shortest path through one cell; returns their starts and goals.

    Crossing: both are equally far from the cell, so that they can reach it at the same time. Parking: one agent's goal
    is the cell, and the other reaches it at that time or later.
    """
    width, bits = size + 1, cell_bits(size)
    rings = distance_layers(free, width, bits[order[0]])
    if len(rings) < 2:
        return None
    parking = chances[0] < PARKING_SHARE
    near = 1 + int(chances[1] ** NEARNESS * (len(rings) - 1))
    far = near + int(chances[2] * (len(rings) - near)) if parking else near
    first = _choose(rings[near], chances[3])
    second = _choose(rings[far] & ~first, chances[4])
    first_goal = rings[0] if parking else _goal_beyond(free, width, first, near, rings, chances[5], chances[6])
    second_goal = _goal_beyond(free, width, second, far, rings, chances[7], chances[8])
    if not (first and second and first_goal and second_goal) or first_goal == second_goal:
        return None
    a, b, c, d = (_index(cell, width) for cell in (first, second, first_goal, second_goal))
    return (a, b), (c, d)


def _goal_beyond(free: int, width: int, start: int, distance: int, rings: list[int], nearness: float, chance: float) -> int:
    """Choose a cell that a shortest path from `start` reaches after the middle of the rings, `distance` away; 0 when there is none."""
    if not start:
        return 0
    layers = distance_layers(free, width, start)
    beyond = [cells for ring, layer in zip(rings[1:], layers[distance + 1 :], strict=False) if (cells := ring & layer)]
    return _choose(beyond[int(nearness**NEARNESS * len(beyond))], chance) if beyond else 0


def _choose(cells: int, chance: float) -> int:
    """Return one cell of a set, by a number in [0, 1); 0 when the set is empty."""
    for _ in range(int(chance * cells.bit_count())):
        cells &= cells - 1
    return cells & -cells


def _index(cell: int, width: int) -> int:
    row, col = divmod(cell.bit_length() - 1, width)
    return row * (width - 1) + col
