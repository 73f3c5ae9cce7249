"""`solve`: validation, one search per connected component, and the answers put together.

Called by the generator, the dataset statistics and the command line; see `Solution` for what comes back.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from envwright.env.solver.bitboard import BitBoard, Cell
from envwright.env.solver.budget import Budget, Outcome
from envwright.env.solver.labels import is_wait_required, makespan, sum_of_costs, tighten_makespan
from envwright.env.solver.search import Plan, SearchResult, plan_search
from envwright.env.solver.solution import Solution, SolveStatus


def solve(
    size: int,
    holes: Iterable[Cell],
    starts: Sequence[Cell],
    goals: Sequence[Cell],
    *,
    time_limit: float | None = None,
    node_limit: int | None = None,
    label_waits: bool = True,
    break_ties: bool = True,
    board: BitBoard | None = None,
) -> Solution:
    """Finds a plan of minimal sum of costs, or proves that there is none.

    Args:
        size: Cells per side.
        holes: Cells nobody may enter, as (row, col).
        starts: Start cell per agent; distinct.
        goals: Goal cell per agent; distinct. It may be the agent's own start, or another agent's.
        time_limit: Seconds for the board, labels included; None reads no clock, and the result is deterministic.
        node_limit: Search nodes for the board, labels included; None leaves the built-in bounds.
        label_waits: Decide `wait_required`.
        break_ties: Decide `makespan`, and return a plan that has it.
        board: A board to reuse for its cached distances; it must be the one that size and holes describe.

    Returns:
        The answer. A board whose cost is found but a label of which is not stays optimal, see `undecided`.

    Raises:
        ValueError: Different numbers of starts and goals, no agents, a cell off the board or on a hole, equal
            starts, equal goals, or a `board` other than the one described.
    """
    holes = list(holes)
    if board is None:
        board = BitBoard(size, holes)
    elif not board.describes(size, holes):
        raise ValueError(f"board of size {board.size} is not the one that size {size!r} and the holes describe")
    first, last = _validated(board, starts, goals)
    distances = [board.steps(start, goal) for start, goal in zip(first, last, strict=True)]
    alone = [distance for distance in distances if distance is not None]
    if len(alone) < len(distances):
        return Solution(SolveStatus.UNSOLVABLE, None, None, None, None, None)
    budget = Budget(time_limit, node_limit)
    groups = _by_component(board, first)
    results: list[SearchResult] = []
    for members in groups:
        result = plan_search(board, [first[k] for k in members], [last[k] for k in members], budget)
        if result.outcome is Outcome.EXHAUSTED:
            return Solution(SolveStatus.UNSOLVABLE, None, None, None, None, sum(alone))
        results.append(result)
    if any(result.outcome is Outcome.LIMIT for result in results):
        return Solution(SolveStatus.BUDGET, None, None, None, None, sum(alone))
    return _labelled(board, groups, results, alone, budget, label_waits=label_waits, break_ties=break_ties)


def _labelled(
    board: BitBoard,
    groups: list[list[int]],
    results: list[SearchResult],
    distances: list[int],
    budget: Budget,
    *,
    label_waits: bool,
    break_ties: bool,
) -> Solution:
    """Adds the labels that were asked for to the optimal plans of the components."""
    undecided = []
    smallest: int | None = None
    if break_ties:
        proved, results = _tightened(board, results, max(distances), budget)
        smallest = max(makespan(result.plan) for result in results) if proved else None
        if not proved:
            undecided.append("makespan")
    waits: bool | None = None
    if label_waits:
        waits = False
        for members, result in zip(groups, results, strict=True):
            needed = is_wait_required(board, result, sum(distances[k] for k in members), budget)
            if needed:
                waits = True
                break
            if needed is None:
                waits = None
        if waits is None:
            undecided.append("wait_required")
    plans = [result.plan for result in results]
    return Solution(
        status=SolveStatus.OPTIMAL,
        sum_of_costs=sum(map(sum_of_costs, plans)),
        makespan=smallest,
        wait_required=waits,
        plan=_letters(board, groups, plans),
        sum_of_distances=sum(distances),
        undecided=tuple(undecided),
    )


def _tightened(board: BitBoard, results: list[SearchResult], longest: int, budget: Budget) -> tuple[bool, list[SearchResult]]:
    """Shortens the makespan of the whole: only components that decide it have to be searched."""
    results = results.copy()
    for index in sorted(range(len(results)), key=lambda k: -makespan(results[k].plan)):
        proved, results[index] = tighten_makespan(board, results[index], longest, budget)
        if not proved:
            return False, results
        longest = max(longest, makespan(results[index].plan))
    return True, results


def _validated(board: BitBoard, starts: Sequence[Cell], goals: Sequence[Cell]) -> tuple[list[int], list[int]]:
    """Returns starts and goals as cell indices, or raises a ValueError that names the bad value."""
    if len(starts) != len(goals):
        raise ValueError(f"{len(starts)} starts but {len(goals)} goals")
    if not starts:
        raise ValueError("a board needs at least 1 agent, got 0")
    found = []
    for what, cells in (("start", starts), ("goal", goals)):
        seen: dict[int, int] = {}
        for agent, cell in enumerate(cells):
            index = board.index(cell, f"{what} of agent {agent}")
            if not board.free >> index & 1:
                raise ValueError(f"{what} of agent {agent} {cell!r} is a hole")
            if index in seen:
                raise ValueError(f"agents {seen[index]} and {agent} have the same {what} {cell!r}")
            seen[index] = agent
        found.append(list(seen))
    return found[0], found[1]


def _by_component(board: BitBoard, starts: list[int]) -> list[list[int]]:
    """Groups the agents that can meet at all."""
    groups: dict[int, list[int]] = {}
    for agent, start in enumerate(starts):
        cells = next((cells for cells in groups if cells >> start & 1), 0) or board.ball(start)[-1]
        groups.setdefault(cells, []).append(agent)
    return list(groups.values())


def _letters(board: BitBoard, groups: list[list[int]], plans: list[Plan]) -> tuple[str, ...]:
    """Writes the paths of all agents as actions."""
    names = {-board.width: "U", board.width: "D", -1: "L", 1: "R", 0: "W"}
    written = [""] * sum(map(len, groups))
    for members, plan in zip(groups, plans, strict=True):
        for agent, path in zip(members, plan, strict=True):
            written[agent] = "".join(names[after - cell] for cell, after in pairwise(path))
    return tuple(written)
