"""Choosing one path of an MDD that collides little with the other agents' paths.

CBS has to branch on every conflict between the paths it holds, so among the equally short ones it takes those
with few conflicts (the conflict-avoidance table of Sharon et al., "Conflict-based search", AIJ 2015).
"""

from collections.abc import Sequence
from itertools import islice
from operator import and_

from envwright.env.solver.mdd import ConstrainedAgent, Mdd, Move, without_moves


def choose_path(agent: ConstrainedAgent, mdd: Mdd, others: list[list[int]]) -> list[int]:
    """Returns a path of the MDD with the fewest conflicts with the paths of `others`.

    Args:
        agent: Whose path it is; its forbidden moves are honoured.
        mdd: Its MDD of the wanted cost.
        others: Paths as cell indices, each parked at its end for good.
    """
    return conflict_free_path(agent, mdd, others) or fewest_conflicts(agent, mdd, others)


def _traffic(others: list[list[int]], until: int) -> list[int]:
    """Returns the cells that the others are on at each timestep up to `until`."""
    occupied = [0] * (until + 1)
    for path in others:
        for time, cell in zip(range(until + 1), path, strict=False):
            occupied[time] |= 1 << cell
        parked = 1 << path[-1]
        for time in range(len(path), until + 1):
            occupied[time] |= parked
    return occupied


def _meets(mdd: Mdd, traffic: list[int]) -> bool:
    """Tells whether some path of an MDD could meet the traffic on a cell or halfway; it need not."""
    if any(map(and_, mdd, traffic)):
        return True
    return any(map(and_, mdd, islice(traffic, 1, None))) and any(map(and_, islice(mdd, 1, None), traffic))


def _swaps(others: list[list[int]], time: int) -> list[Move]:
    """Lists the moves to `time` that would exchange cells with one of the others."""
    return [(p[time], p[time - 1]) for p in others if time < len(p) and p[time] != p[time - 1]]


def conflict_free_path(agent: ConstrainedAgent, mdd: Mdd, others: list[list[int]], traffic: list[int] | None = None) -> list[int] | None:
    """Returns a path that meets nobody up to its arrival, None when there is none.

    Args:
        agent: Whose path it is; its forbidden moves are honoured.
        mdd: Its MDD of the wanted cost.
        others: Paths as cell indices, each parked at its end for good.
        traffic: The cells that the others are on at each timestep, at least up to the cost, when known.
    """
    width, near, moving, adjacency = agent.board.width, agent.board.near, agent.wait_free, agent.adjacency
    cost = len(mdd) - 1
    if traffic is None:
        traffic = _traffic(others, cost)
    if not agent.forbidden_moves and not _meets(mdd, traffic):
        return _lowest_path(agent, mdd)
    cells = mdd[0]
    reach = [cells]
    banned: dict[int, Sequence[Move]] = {}
    forbidden = agent.forbidden_moves
    for time in range(1, cost + 1):
        before, occupied = cells, traffic[time]
        cells = before << 1 | before >> 1 | before << width | before >> width if width else near(before)
        if not moving:
            cells |= before
        cells &= mdd[time] & ~occupied
        moves: Sequence[Move] = forbidden.get(time, ()) if forbidden else ()
        if before & occupied and cells & traffic[time - 1]:  # else nobody can be met halfway
            moves = [*_swaps(others, time), *moves]
        if moves:
            cells = without_moves(cells, before, moves, adjacency)
            banned[time] = moves
        if not cells:
            return None
        reach.append(cells)
    if not banned:
        return _lowest_path(agent, reach)
    cell = agent.goal
    path = [cell]
    for time in range(cost, 0, -1):
        sources = reach[time - 1] & adjacency[cell]
        for source, target in banned.get(time, ()):
            if target == cell:
                sources &= ~(1 << source)
        cell = (sources & -sources).bit_length() - 1
        path.append(cell)
    path.reverse()
    return path


def _lowest_path(agent: ConstrainedAgent, layers: Mdd) -> list[int]:
    """Walks back from the goal through the layers, always to the lowest cell that leads on."""
    width, near, moving = agent.board.width, agent.board.near, agent.wait_free
    here = 1 << agent.goal
    path = [agent.goal]
    for cells in layers[-2::-1]:
        sources = here << 1 | here >> 1 | here << width | here >> width if width else near(here)
        if not moving:
            sources |= here
        sources &= cells
        here = sources & -sources
        path.append(here.bit_length() - 1)
    path.reverse()
    return path


def fewest_conflicts(agent: ConstrainedAgent, mdd: Mdd, others: list[list[int]]) -> list[int]:
    """Returns the path with the fewest conflicts, by dynamic programming over the MDD."""
    counts = {agent.start: 0}
    adjacency = agent.adjacency
    history: list[dict[int, int]] = []
    for time in range(1, len(mdd)):
        occupied: dict[int, int] = {}
        for path in others:
            cell = path[time] if time < len(path) else path[-1]
            occupied[cell] = occupied.get(cell, 0) + 1
        swaps = set(_swaps(others, time))
        forbidden = agent.forbidden_moves.get(time, ())
        special = swaps.union(forbidden)
        best: dict[int, int] = {}
        came_from: dict[int, int] = {}
        layer = mdd[time]
        for source, count in counts.items():
            rest = adjacency[source] & layer
            while rest:
                bit = rest & -rest
                rest ^= bit
                target = bit.bit_length() - 1
                total = count + occupied[target] if target in occupied else count
                if special and (source, target) in special:
                    if (source, target) in forbidden:
                        continue
                    total += 1
                if target not in best or total < best[target]:
                    best[target] = total
                    came_from[target] = source
        counts = best
        history.append(came_from)
    path = [agent.goal]
    for came_from in reversed(history):
        path.append(came_from[path[-1]])
    path.reverse()
    return path
