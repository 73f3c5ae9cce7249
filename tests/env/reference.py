"""The grader read off its definition, one agent and one timestep after the other: what the fast one must agree with."""

from __future__ import annotations

from envwright.env.chat import read_chat_answer, strip_thinking
from envwright.env.grading import Grade
from envwright.env.instance import Instance
from envwright.env.rules import Outcome

Cell = tuple[int, int]
MOVES = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}


def reference_grade(instance: Instance, completion: str) -> Grade:
    paths = _read(instance, completion)
    return Grade(paths) if isinstance(paths, Outcome) else reference_verdict(instance, paths)


def reference_verdict(instance: Instance, paths: list[list[Cell | None]]) -> Grade:
    horizon = max(len(path) for path in paths)
    places: list[list[Cell | None]] = []
    for start, path in zip(instance.starts, paths, strict=True):
        walked: list[Cell | None] = [start, *path]
        places.append(walked + [walked[-1]] * (horizon + 1 - len(walked)))
    for step in range(1, horizon + 1):
        found = _broken(instance, [place[step - 1] for place in places], [place[step] for place in places])
        if found is not None:
            return Grade(found[0], step, found[1])
    away = tuple(agent for agent, place in enumerate(places) if place[-1] != instance.goals[agent])
    if away:
        return Grade(Outcome.GOAL_NOT_REACHED, horizon, away)
    costs = [
        next(step for step in range(horizon + 1) if all(cell == goal for cell in place[step:]))
        for place, goal in zip(places, instance.goals, strict=True)
    ]
    best = sum(costs) == instance.optimal_cost
    return Grade(Outcome.OPTIMAL if best else Outcome.SUBOPTIMAL, cost=sum(costs), makespan=max(costs))


def _broken(instance: Instance, before: list[Cell | None], after: list[Cell | None]) -> tuple[Outcome, tuple[int, ...]] | None:
    agents = range(len(before))
    jumps = [agent for agent in agents if not _is_move(before[agent], after[agent])]
    if jumps:
        return Outcome.ILLEGAL_MOVE, tuple(jumps)
    cells = [cell for cell in after if cell is not None]
    outside = [agent for agent in agents if not all(0 <= part < instance.size for part in cells[agent])]
    if outside:
        return Outcome.OUT_OF_BOUNDS, tuple(outside)
    fallen = [agent for agent in agents if cells[agent] in instance.holes]
    if fallen:
        return Outcome.HOLE, tuple(fallen)
    for agent in agents:
        together = [other for other in agents if cells[other] == cells[agent]]
        if len(together) > 1:
            return Outcome.VERTEX_CONFLICT, tuple(together)
    for agent in agents:
        for other in range(agent + 1, len(before)):
            if after[agent] == before[other] and after[other] == before[agent]:
                return Outcome.SWAP_CONFLICT, (agent, other)
    return None


def _is_move(before: Cell | None, after: Cell | None) -> bool:
    return before is not None and after is not None and (after[0] - before[0], after[1] - before[1]) in MOVES.values()


def _read(instance: Instance, completion: str) -> list[list[Cell | None]] | Outcome:
    words = completion.split()
    agents = len(instance.starts)
    if words and all(word == "end" or (len(word) == 2 and word.isascii() and word.isdigit()) for word in words):
        if "end" not in words:
            return Outcome.TRUNCATED
        words = words[: words.index("end")]
        if len(words) % agents:
            return Outcome.PARSE_ERROR
        return [[(int(word[0]), int(word[1])) for word in words[agent::agents]] for agent in range(agents)]
    answer = strip_thinking(completion)
    if answer is None:
        return Outcome.TRUNCATED
    plan = read_chat_answer(answer, agents)
    if plan is None:
        return Outcome.TRUNCATED if _inside_json(answer) else Outcome.PARSE_ERROR
    return [_walk(start, letters) for start, letters in zip(instance.starts, plan, strict=True)]


def _walk(cell: Cell, letters: list[str]) -> list[Cell | None]:
    path: list[Cell | None] = []
    for letter in letters:
        if letter not in MOVES:
            return [*path, None]
        cell = (cell[0] + MOVES[letter][0], cell[1] + MOVES[letter][1])
        path.append(cell)
    return path


def _inside_json(text: str) -> bool:
    depth, quoted, escaped = 0, False, False
    for char in text:
        if quoted:
            escaped, quoted = (not escaped and char == "\\"), not (char == '"' and not escaped)
        elif char == '"':
            quoted = depth > 0
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth = max(0, depth - 1)
    return depth > 0
