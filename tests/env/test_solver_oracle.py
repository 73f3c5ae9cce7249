"""The solver against a joint Dijkstra that shares no code or argument with it.

The oracle searches over (positions, who has arrived for good) with every combination of moves. Its cost is a pair:
the sum of costs first, then either elapsed time or the number of waits before arrival. So the smallest
makespan, and whether every optimal plan waits, come without deadlines, caps or the parity of the grid.
"""

import heapq
import random
from itertools import product

import pytest

from envwright.env.solver import Cell, Solution, SolveStatus, search, solve

MOVES = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}

Place = tuple[Cell, bool]
Board = tuple[int, list[Cell], list[Cell], list[Cell]]


def violation(board: Board, plan: tuple[str, ...]) -> str | None:
    """Returns what is wrong with a plan, None when it is valid."""
    size, holes, starts, goals = board
    horizon = max(map(len, plan))
    before = list(starts)
    for time in range(horizon):
        after = []
        for (row, col), actions in zip(before, plan, strict=True):
            down, right = MOVES[actions[time]] if time < len(actions) else (0, 0)
            after.append((row + down, col + right))
        for cell in after:
            if not (0 <= cell[0] < size and 0 <= cell[1] < size) or cell in holes:
                return f"{cell} at {time + 1}"
        if len(set(after)) < len(after):
            return f"vertex conflict at {time + 1}"
        for i, j in product(range(len(plan)), repeat=2):
            if i != j and after[i] == before[j] and after[j] == before[i]:
                return f"swap conflict at {time + 1}"
        before = after
    if before != list(goals):
        return "goal not reached"
    return "trailing wait" if any(actions.endswith("W") for actions in plan) else None


def _choices(size: int, holes: list[Cell], place: Place, goal: Cell) -> list[tuple[Place, int]]:
    """Lists where an agent may be next, each with the number of waits before arrival that it spends."""
    (row, col), parked = place
    if parked:
        return [(place, 0)]
    found: list[tuple[Place, int]] = [((place[0], False), 1)]
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        cell = (row + down, col + right)
        if 0 <= cell[0] < size and 0 <= cell[1] < size and cell not in holes:
            found.append(((cell, False), 0))
            if cell == goal:
                found.append(((cell, True), 0))
    return found


def oracle(board: Board, *, count_waits: bool) -> tuple[int, int] | None:
    """Returns the least (sum of costs, makespan or waits), None when there is no plan."""
    size, holes, starts, goals = board
    options = [[(s, False), (s, True)] if s == g else [(s, False)] for s, g in zip(starts, goals, strict=True)]
    best: dict[tuple[Place, ...], tuple[int, int]] = dict.fromkeys(product(*options), (0, 0))
    heap = [((0, 0), first) for first in best]
    known: list[dict[Place, list[tuple[Place, int]]]] = [{} for _ in starts]
    while heap:
        cost, state = heapq.heappop(heap)
        if cost > best[state]:
            continue
        if all(parked for _, parked in state):
            return cost
        total = cost[0] + sum(not parked for _, parked in state)
        for agent, place in enumerate(state):
            if place not in known[agent]:
                known[agent][place] = _choices(size, holes, place, goals[agent])
        partial: list[tuple[tuple[Place, ...], int]] = [((), 0)]
        for agent, (cell, _) in enumerate(state):
            partial = [
                ((*chosen, place), waits + wait)
                for chosen, waits in partial
                for place, wait in known[agent][state[agent]]
                if not any(place[0] == other or (place[0] == state[k][0] and other == cell) for k, (other, _) in enumerate(chosen))
            ]
        for child, waits in partial:
            spent = (total, cost[1] + (waits if count_waits else 1))
            if child not in best or spent < best[child]:
                best[child] = spent
                heapq.heappush(heap, (spent, child))
    return None


def random_board(rng: random.Random, size: int, agents: int) -> Board:
    """Draws a board on which nothing but the rules of an instance holds: it may be unsolvable."""
    cells = [(row, col) for row in range(size) for col in range(size)]
    rng.shuffle(cells)
    holes = cells[: rng.randint(0, size * size // 2)]
    free = cells[len(holes) :]
    if len(free) < agents:
        return random_board(rng, size, agents)
    return size, holes, rng.sample(free, agents), rng.sample(free, agents)


def expected(board: Board) -> tuple[SolveStatus, int | None, int | None, bool | None]:
    """Returns what the oracle says: status, sum of costs, makespan, wait required."""
    timed = oracle(board, count_waits=False)
    if timed is None:
        return SolveStatus.UNSOLVABLE, None, None, None
    waits = oracle(board, count_waits=True)
    assert waits is not None
    assert waits[0] == timed[0]
    return SolveStatus.OPTIMAL, timed[0], timed[1], waits[1] > 0


def disagreement(board: Board, found: Solution) -> str | None:
    """Returns how the solver and the oracle differ, None when they agree and the plan is valid."""
    wanted = expected(board)
    got = (found.status, found.sum_of_costs, found.makespan, found.wait_required)
    if got != wanted:
        return f"{board}: oracle {wanted}, solver {got}"
    if found.plan is None:
        return None
    wrong = violation(board, found.plan)
    if wrong is None and sum(map(len, found.plan)) != found.sum_of_costs:
        wrong = "the plan does not cost what it should"
    if wrong is None and max(map(len, found.plan)) != found.makespan:
        wrong = "the plan does not have the makespan it should"
    return f"{board}: {wrong}, {found.plan}" if wrong else None


@pytest.mark.parametrize(("size", "agents", "boards"), [(3, 1, 50), (3, 2, 200), (3, 3, 60), (4, 1, 50), (4, 2, 150), (3, 4, 8), (4, 3, 8)])
def test_solver_agrees_with_the_oracle_in_cost_makespan_and_wait(size: int, agents: int, boards: int) -> None:
    rng = random.Random(f"{size}-{agents}")
    for _ in range(boards):
        board = random_board(rng, size, agents)
        assert disagreement(board, solve(*board)) is None


@pytest.mark.parametrize(("size", "agents", "boards"), [(3, 2, 100), (3, 3, 40), (4, 2, 60), (3, 4, 6)])
def test_fallbacks_agree_with_the_oracle_when_cbs_gets_no_nodes(
    monkeypatch: pytest.MonkeyPatch, size: int, agents: int, boards: int
) -> None:
    for name in ("EASY_NODES", "MIN_NODES", "MAX_NODES"):
        monkeypatch.setattr(search, name, 0)
    rng = random.Random(f"fallback-{size}-{agents}")
    for _ in range(boards):
        board = random_board(rng, size, agents)
        assert disagreement(board, solve(*board)) is None
