"""From vertex indices to the answer: one search per connected component, and the results put together.

`solve` and `solve_graph` check their input, call `answer` and write the paths down in their own terms.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from envwright.env.solver.budget import Budget, Outcome
from envwright.env.solver.labels import is_wait_required, makespan, sum_of_costs, tighten_makespan
from envwright.env.solver.makespan import fewest_costs, minimal_makespan, must_wait
from envwright.env.solver.search import SearchResult, plan_search
from envwright.env.solver.solution import Objective, SolveStatus
from envwright.env.solver.space import BitSpace


@dataclass(slots=True)
class Answer:
    """The fields of `Solution`, with the plan as a path of vertex indices per agent."""

    status: SolveStatus
    sum_of_costs: int | None = None
    makespan: int | None = None
    wait_required: bool | None = None
    plan: list[list[int]] | None = None
    sum_of_distances: int | None = None
    undecided: tuple[str, ...] = ()


def answer(
    board: BitSpace, starts: list[int], goals: list[int], objective: Objective, budget: Budget, *, label_waits: bool, break_ties: bool
) -> Answer:
    """Answers for agents at distinct, existing vertices; the arguments are those of `solve`."""
    distances = [board.steps(start, goal) for start, goal in zip(starts, goals, strict=True)]
    alone = [distance for distance in distances if distance is not None]
    if len(alone) < len(distances):
        return Answer(SolveStatus.UNSOLVABLE)
    groups = _by_component(board, starts, goals)
    floor = max(alone)
    results: list[SearchResult] = []
    for members in groups:
        first, last = [starts[k] for k in members], [goals[k] for k in members]
        if objective is Objective.MAKESPAN:
            floor, result = minimal_makespan(board, first, last, floor, budget)
        else:
            result = plan_search(board, first, last, budget)
        if result.outcome is Outcome.EXHAUSTED:
            return Answer(SolveStatus.UNSOLVABLE, sum_of_distances=sum(alone))
        results.append(result)
    if any(result.outcome is Outcome.LIMIT for result in results):
        return Answer(SolveStatus.BUDGET, sum_of_distances=sum(alone))
    apart = [sum(alone[k] for k in members) for members in groups]
    label = _label_makespan if objective is Objective.MAKESPAN else _label_costs
    found, results = label(board, results, floor, apart, budget, label_waits=label_waits, break_ties=break_ties)
    found.sum_of_distances = sum(alone)
    found.plan = [[] for _ in starts]
    for members, result in zip(groups, results, strict=True):
        for agent, path in zip(members, result.plan, strict=True):
            found.plan[agent] = path
    return found


def _label_costs(
    board: BitSpace, results: list[SearchResult], longest: int, distances: list[int], budget: Budget, *, label_waits: bool, break_ties: bool
) -> tuple[Answer, list[SearchResult]]:
    """Adds the labels that were asked for to plans of minimal sum of costs, one result and sum of distances per component."""
    undecided = []
    smallest: int | None = None
    if break_ties:
        proved, results = _tightened(board, results, longest, budget)
        smallest = max(makespan(result.plan) for result in results) if proved else None
        if not proved:
            undecided.append("makespan")
    waits: bool | None = None
    if label_waits:
        waits = _any(is_wait_required(board, result, alone, budget) for result, alone in zip(results, distances, strict=True))
        if waits is None:
            undecided.append("wait_required")
    total = sum(sum_of_costs(result.plan) for result in results)
    return Answer(SolveStatus.OPTIMAL, total, smallest, waits, undecided=tuple(undecided)), results


def _label_makespan(
    board: BitSpace,
    results: list[SearchResult],
    deadline: int,
    distances: list[int],
    budget: Budget,
    *,
    label_waits: bool,
    break_ties: bool,
) -> tuple[Answer, list[SearchResult]]:
    """The same for plans of minimal makespan, which is `deadline`; the tie-break comes last, as it may cost the most."""
    undecided = []
    waits: bool | None = None
    if label_waits:
        waits = _any(must_wait(board, result, deadline, budget) for result in results)
        if waits is None:
            undecided.append("wait_required")
    total: int | None = None
    if break_ties:
        cheapest = [fewest_costs(board, result, deadline, alone, budget) for result, alone in zip(results, distances, strict=True)]
        if all(result.outcome is Outcome.FOUND for result in cheapest):
            results = cheapest
            total = sum(sum_of_costs(result.plan) for result in results)
        else:
            undecided.insert(0, "sum_of_costs")
    return Answer(SolveStatus.OPTIMAL, total, deadline, waits, undecided=tuple(undecided)), results


def _any(verdicts: Iterable[bool | None]) -> bool | None:
    """Returns True at the first True, else None when some verdict is None."""
    unknown = False
    for verdict in verdicts:
        if verdict:
            return True
        unknown |= verdict is None
    return None if unknown else False


def _tightened(board: BitSpace, results: list[SearchResult], longest: int, budget: Budget) -> tuple[bool, list[SearchResult]]:
    """Shortens the makespan of the whole: only components that decide it have to be searched."""
    results = results.copy()
    for index in sorted(range(len(results)), key=lambda k: -makespan(results[k].plan)):
        proved, results[index] = tighten_makespan(board, results[index], longest, budget)
        if not proved:
            return False, results
        longest = max(longest, makespan(results[index].plan))
    return True, results


def _by_component(board: BitSpace, starts: list[int], goals: list[int]) -> list[list[int]]:
    """Groups the agents that can meet at all; each can reach its goal."""
    joined = 0
    for start, goal in zip(starts, goals, strict=True):
        region = (board.descent(start, goal) or [0])[-1]
        if joined and not joined & region:
            break
        joined |= region
    else:
        return [list(range(len(starts)))]
    groups: dict[int, list[int]] = {}
    for agent, start in enumerate(starts):
        cells = next((cells for cells in groups if cells >> start & 1), 0) or board.ball(start)[-1]
        groups.setdefault(cells, []).append(agent)
    return list(groups.values())
