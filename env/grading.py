"""From a completion to its outcome: read the answer in either notation, simulate it, compare with the optimum."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envwright.env.cells import END, is_cell_answer, read_cell_answer
from envwright.env.chat import read_chat_answer, strip_thinking
from envwright.env.instance import Instance
from envwright.env.rules import BoardLike, Outcome, Simulation, paths_from_moves, simulate

__all__ = ["Grade", "grade_completion", "read_answer", "solution_answer"]

Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one completion."""

    outcome: Outcome
    failure_step: int | None = None
    """Timestep of the first violation, counted from 1."""
    failure_agents: tuple[int, ...] = ()
    """Agents at fault."""
    cost: int | None = None
    """Sum of costs of a valid plan."""
    makespan: int | None = None
    """Makespan of a valid plan."""


def read_answer(board: BoardLike, completion: str) -> list[list[Cell | None]] | Outcome:
    """Return each agent's path, or `parse_error` or `truncated`.

    A completion made of cells alone is read in the cell notation, where a missing `end` means truncated. Anything else
    is read as a chat answer after its `</think>`; thinking or JSON that never closes means truncated.
    """
    num_agents = len(board.starts)
    if is_cell_answer(completion):
        if END not in completion:
            return Outcome.TRUNCATED
        paths = read_cell_answer(completion, num_agents)
        return Outcome.PARSE_ERROR if paths is None else paths
    answer = strip_thinking(completion)
    if answer is None:
        return Outcome.TRUNCATED
    plan = _plain_plan(answer, num_agents) or read_chat_answer(answer, num_agents)
    if plan is not None:
        return paths_from_moves(board.starts, plan)
    return Outcome.TRUNCATED if _unclosed(answer) else Outcome.PARSE_ERROR


_PLAIN = re.compile(
    r'{[ \t\n\r]*"plan"[ \t\n\r]*:[ \t\n\r]*\[((?:[ \t\n\r]*"[UDLRWudlrw ]*"[ \t\n\r]*,)*[ \t\n\r]*"[UDLRWudlrw ]*")[ \t\n\r]*\][ \t\n\r]*}'
)
"""The answer that the prompt asks for, and nothing unusual in it: what JSON's grammar and `read_chat_answer` make of it is known."""


def _plain_plan(text: str, num_agents: int) -> list[str] | None:
    """Return what `read_chat_answer` returns, faster, for an answer in its plainest form; None when it has another form."""
    start = text.find("{")
    found = _PLAIN.match(text, start) if start >= 0 else None
    if found is None:
        return None
    plan = found[1].upper().replace(" ", "").split('"')[1::2]
    return plan if len(plan) == num_agents else None


_MARK = re.compile(r'["{}\[\]]')
_REST_OF_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def _unclosed(text: str) -> bool:
    """True when a JSON object or list was begun and the text ends inside it; quotes count inside brackets alone."""
    depth, position = 0, 0
    while (mark := _MARK.search(text, position)) is not None:
        position = mark.end()
        if mark[0] in "{[":
            depth += 1
        elif mark[0] != '"':
            depth = max(0, depth - 1)
        elif depth:
            string = _REST_OF_STRING.match(text, position)
            if string is None:
                return True
            position = string.end()
    return depth > 0


def judge(instance: Instance, simulation: Simulation) -> Grade:
    """Return the verdict on a simulated plan."""
    if simulation.violation is not None:
        return Grade(simulation.violation, simulation.step, simulation.agents)
    optimal = simulation.sum_of_costs == instance.optimal_cost
    return Grade(Outcome.OPTIMAL if optimal else Outcome.SUBOPTIMAL, cost=simulation.sum_of_costs, makespan=simulation.makespan)


def grade_completion(instance: Instance, completion: str) -> Grade:
    """Grade one completion against its instance."""
    paths = read_answer(instance, completion)
    return Grade(paths) if isinstance(paths, Outcome) else judge(instance, simulate(instance, paths))


def solution_answer(plan: tuple[str, ...]) -> str:
    """Return a plan of action letters as the chat answer that states it."""
    return '{"plan": [' + ", ".join(f'"{letters}"' for letters in plan) + "]}"
