"""Conflicts between two paths, and which of them CBS should split on first.

The rules: agents stay on their goals; two agents may neither share a cell nor exchange cells, parked ones
included. Following, and rotations of three or more, are legal.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from envwright.env.solver.mdd import Mdd


class ConflictKind(Enum):
    """What two agents do to each other."""

    VERTEX = auto()
    """Both are on `cell` at `time`, neither of them parked for good."""

    SWAP = auto()
    """`first` moves from `origin` to `cell`, arriving at `time`, and `second` the other way."""

    TARGET = auto()
    """`second` enters `cell` at `time`, where `first` has already arrived for good."""


class Conflict(NamedTuple):
    """One conflict; cells are indices."""

    kind: ConflictKind
    first: int
    second: int
    time: int
    origin: int
    cell: int


def conflicts_between(first: int, path: list[int], second: int, other: list[int]) -> list[Conflict]:
    """Lists the conflicts of two paths, at most one target conflict (the earliest) among them."""
    if set(path).isdisjoint(other):
        return []
    found = []
    shorter = min(len(path), len(other))
    for time in range(1, shorter):
        mine, theirs = path[time], other[time]
        if mine == theirs:
            found.append(Conflict(ConflictKind.VERTEX, first, second, time, mine, mine))
        elif mine == other[time - 1] and theirs == path[time - 1]:
            found.append(Conflict(ConflictKind.SWAP, first, second, time, theirs, mine))
    if len(path) > len(other):
        first, path, second, other = second, other, first, path
    goal = path[-1]
    for time in range(shorter, len(other)):
        if other[time] == goal:
            found.append(Conflict(ConflictKind.TARGET, first, second, time, goal, goal))
            break
    return found


def _cardinality(conflict: Conflict, mdds: Sequence[Mdd]) -> int:
    """Counts the agents whose cost must grow to avoid the conflict (2 cardinal, 1 semi-cardinal)."""
    kind, first, second, time, origin, cell = conflict
    here = 1 << cell
    if kind is ConflictKind.TARGET:
        return 1 + (mdds[second][time] == here)
    if kind is ConflictKind.VERTEX:
        return (mdds[first][time] == here) + (mdds[second][time] == here)
    there = 1 << origin
    return (mdds[first][time] == here and mdds[first][time - 1] == there) + (mdds[second][time] == there and mdds[second][time - 1] == here)


def choose_conflict(conflicts: Iterable[Sequence[Conflict]], mdds: Sequence[Mdd]) -> Conflict:
    """Returns the conflict to split on: most cardinal first, then target conflicts, then the earliest.

    Prioritised conflicts: Boyarski et al., "ICBS: improved conflict-based search", IJCAI 2015.
    """
    ranked = (
        (-_cardinality(conflict, mdds), conflict.kind is not ConflictKind.TARGET, conflict.time, conflict)
        for group in conflicts
        for conflict in group
    )
    return min(ranked, key=lambda entry: entry[:3])[3]
