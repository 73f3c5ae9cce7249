"""`solve`: agents on a square grid with holes.

Called by the generator, the dataset statistics and the command line; see `Solution` for what comes back.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from envwright.env.solver.answer import answer
from envwright.env.solver.bitboard import BitBoard, Cell
from envwright.env.solver.budget import Budget
from envwright.env.solver.solution import Objective, Solution


def solve(
    size: int,
    holes: Iterable[Cell],
    starts: Sequence[Cell],
    goals: Sequence[Cell],
    *,
    objective: Objective | str = Objective.SUM_OF_COSTS,
    time_limit: float | None = None,
    node_limit: int | None = None,
    label_waits: bool = True,
    break_ties: bool = True,
    board: BitBoard | None = None,
) -> Solution:
    """Finds a plan that is minimal for the objective, or proves that there is none.

    Args:
        size: Cells per side.
        holes: Cells nobody may enter, as (row, col).
        starts: Start cell per agent; distinct.
        goals: Goal cell per agent; distinct. It may be the agent's own start, or another agent's.
        objective: What to minimise: an `Objective` or its value, "sum_of_costs" or "makespan".
        time_limit: Seconds for the board, labels included; None reads no clock, and the result is deterministic.
        node_limit: Search nodes for the board, labels included; None leaves the built-in bounds.
        label_waits: Decide `wait_required`.
        break_ties: Decide the figure that the objective leaves open, and return a plan that has it.
        board: A board to reuse for its cached distances; it must be the one that size and holes describe.

    Returns:
        The answer. A board whose minimum is found but a label of which is not stays optimal, see `undecided`.

    Raises:
        ValueError: Different numbers of starts and goals, no agents, a cell off the board or on a hole, equal
            starts, equal goals, an unknown objective, or a `board` other than the one described.
    """
    objective = read_objective(objective)
    holes = list(holes)
    if board is None:
        board = BitBoard(size, holes)
    elif not board.describes(size, holes):
        raise ValueError(f"board of size {board.size} is not the one that size {size!r} and the holes describe")
    first, last = _validated(board, starts, goals)
    budget = Budget(time_limit, node_limit)
    found = answer(board, first, last, objective, budget, label_waits=label_waits, break_ties=break_ties)
    return Solution(
        status=found.status,
        sum_of_costs=found.sum_of_costs,
        makespan=found.makespan,
        wait_required=found.wait_required,
        plan=None if found.plan is None else _letters(board, found.plan),
        sum_of_distances=found.sum_of_distances,
        undecided=found.undecided,
        objective=objective,
    )


def read_objective(objective: Objective | str) -> Objective:
    """Returns the objective that a value names, or raises a ValueError that lists them."""
    try:
        return Objective(objective)
    except ValueError:
        raise ValueError(f"objective must be one of {', '.join(Objective)}, got {objective!r}") from None


def check_counts(starts: Sequence[object], goals: Sequence[object]) -> None:
    """Raises a ValueError unless there is at least one agent, and one start and one goal for each."""
    if len(starts) != len(goals):
        raise ValueError(f"{len(starts)} starts but {len(goals)} goals")
    if not starts:
        raise ValueError("a board needs at least 1 agent, got 0")


def _validated(board: BitBoard, starts: Sequence[Cell], goals: Sequence[Cell]) -> tuple[list[int], list[int]]:
    """Returns starts and goals as cell indices, or raises a ValueError that names the bad value."""
    check_counts(starts, goals)
    found = []
    for what, cells in (("start", starts), ("goal", goals)):
        seen: dict[int, int] = {}
        for agent, cell in enumerate(cells):
            try:
                row, col = cell
            except (TypeError, ValueError):
                row = -1
            on_board = 0 <= row < board.size and 0 <= col < board.size
            index = row * board.width + col if on_board else board.index(cell, f"{what} of agent {agent}")
            if not board.free >> index & 1:
                raise ValueError(f"{what} of agent {agent} {cell!r} is a hole")
            if index in seen:
                raise ValueError(f"agents {seen[index]} and {agent} have the same {what} {cell!r}")
            seen[index] = agent
        found.append(list(seen))
    return found[0], found[1]


def _letters(board: BitBoard, plan: list[list[int]]) -> tuple[str, ...]:
    """Writes the paths of all agents as actions."""
    names = {-board.width: "U", board.width: "D", -1: "L", 1: "R", 0: "W"}
    return tuple("".join(names[after - cell] for cell, after in pairwise(path)) for path in plan)
