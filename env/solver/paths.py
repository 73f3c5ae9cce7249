"""Choosing one path of an MDD that collides little with the other agents' paths.

CBS has to branch on every conflict between the paths it holds, so among the equally short ones it takes those
with few conflicts (the conflict-avoidance table of Sharon et al., "Conflict-based search", AIJ 2015).
"""

from envwright.env.solver.bitboard import indices
from envwright.env.solver.mdd import ConstrainedAgent, Mdd, Move, without_moves


def choose_path(agent: ConstrainedAgent, mdd: Mdd, others: list[list[int]]) -> list[int]:
    """Returns a path of the MDD with the fewest conflicts with the paths of `others`.

    Args:
        agent: Whose path it is; its forbidden moves are honoured.
        mdd: Its MDD of the wanted cost.
        others: Paths as cell indices, each parked at its end for good.
    """
    return _conflict_free(agent, mdd, others) or _fewest_conflicts(agent, mdd, others)


def _swaps(others: list[list[int]], time: int) -> list[Move]:
    """Lists the moves to `time` that would exchange cells with one of the others."""
    return [(p[time], p[time - 1]) for p in others if time < len(p) and p[time] != p[time - 1]]


def _conflict_free(agent: ConstrainedAgent, mdd: Mdd, others: list[list[int]]) -> list[int] | None:
    """Returns a path that meets nobody, None when there is none."""
    width, moving, adjacency = agent.board.width, agent.wait_free, agent.adjacency
    cost = len(mdd) - 1
    reach = [mdd[0]]
    banned: list[list[Move]] = [[]]
    cells = mdd[0]
    for time in range(1, cost + 1):
        occupied = 0
        for path in others:
            occupied |= 1 << (path[time] if time < len(path) else path[-1])
        moves = _swaps(others, time)
        moves += agent.forbidden_moves.get(time, ())
        before = cells
        cells = before << 1 | before >> 1 | before << width | before >> width
        if not moving:
            cells |= before
        cells &= mdd[time] & ~occupied
        if moves:
            cells = without_moves(cells, before, moves, adjacency)
        if not cells:
            return None
        reach.append(cells)
        banned.append(moves)
    cell = agent.goal
    path = [cell]
    for time in range(cost, 0, -1):
        sources = reach[time - 1] & adjacency[cell]
        for source, target in banned[time]:
            if target == cell:
                sources &= ~(1 << source)
        cell = (sources & -sources).bit_length() - 1
        path.append(cell)
    path.reverse()
    return path


def _fewest_conflicts(agent: ConstrainedAgent, mdd: Mdd, others: list[list[int]]) -> list[int]:
    """Returns the path with the fewest conflicts, by dynamic programming over the MDD."""
    counts = {agent.start: 0}
    history: list[dict[int, int]] = []
    for time in range(1, len(mdd)):
        occupied: dict[int, int] = {}
        for path in others:
            cell = path[time] if time < len(path) else path[-1]
            occupied[cell] = occupied.get(cell, 0) + 1
        swaps = set(_swaps(others, time))
        forbidden = agent.forbidden_moves.get(time, ())
        best: dict[int, int] = {}
        came_from: dict[int, int] = {}
        for source, count in counts.items():
            for target in indices(agent.adjacency[source] & mdd[time]):
                if (source, target) in forbidden:
                    continue
                total = count + occupied.get(target, 0) + ((source, target) in swaps)
                if total < best.get(target, total + 1):
                    best[target] = total
                    came_from[target] = source
        counts = best
        history.append(came_from)
    path = [agent.goal]
    for came_from in reversed(history):
        path.append(came_from[path[-1]])
    path.reverse()
    return path
