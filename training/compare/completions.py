"""What the tables need of a run's rollouts, read fast: a stage may have trained on 100,000 completions.

The files are the run's own, so lines are not checked as `envwright.env.rollout.read_rollouts` checks those of others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from envwright.env.errors import UserError
from envwright.env.jsonio import read_text
from envwright.env.rules import Outcome

__all__ = ["DIMENSIONS", "Completion", "by_dimension", "count_outcomes", "read_completions", "validity_groups"]


class Completion(NamedTuple):
    """One graded completion."""

    board: str
    """Id of its board."""
    size: str
    """Map size."""
    num_agents: int
    """Agents on the board."""
    wait_required: bool
    """Whether every optimal plan must wait."""
    outcome: Outcome
    """The verdict."""
    tokens: int
    """Length in tokens; 0 where it is not recorded."""


DIMENSIONS: dict[str, Callable[[Completion], str]] = {
    "all": lambda _: "all",
    "size": lambda completion: completion.size,
    "num_agents": lambda completion: str(completion.num_agents),
    "wait_required": lambda completion: "required" if completion.wait_required else "free",
}
"""What completions are divided by -> the value of one."""

_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


def read_completions(path: Path) -> list[Completion]:
    """Read a rollout file of a run, in its order.

    Raises:
        UserError: the file is missing, cut off, or not a run's rollouts; file and line are named.
    """
    completions = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line:
            continue
        try:
            raw = json.loads(line)
            board = raw["instance"]
            completion = Completion(
                board["id"], str(board["size"]), len(board["starts"]), board["wait_required"], _OUTCOMES[raw["outcome"]], raw["tokens"] or 0
            )
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path} line {number}: not a graded rollout of a run; the file is damaged, so make the run again") from None
        completions.append(completion)
    return completions


def by_dimension(completions: Iterable[Completion], dimension: str) -> dict[str, list[Completion]]:
    """Divide completions by one of `DIMENSIONS`; values in order, sizes as numbers."""
    value_of, groups = DIMENSIONS[dimension], dict[str, list[Completion]]()
    for completion in completions:
        groups.setdefault(value_of(completion), []).append(completion)
    return {value: groups[value] for value in sorted(groups, key=lambda value: (len(value), value))}


def count_outcomes(completions: Iterable[Completion]) -> Counter[Outcome]:
    """Return how many completions ended in each way."""
    return Counter(completion.outcome for completion in completions)


def validity_groups(completions: Sequence[Completion], num_generations: int) -> list[tuple[Completion, int]]:
    """Return, per group of `num_generations` completions of one board in a row, its first completion and how many are valid.

    Raises:
        ValueError: the completions are not whole groups.
    """
    if len(completions) % num_generations:
        raise ValueError(f"{len(completions)} completions are not groups of {num_generations}")
    groups = []
    for first in range(0, len(completions), num_generations):
        group = completions[first : first + num_generations]
        groups.append((group[0], sum(completion.outcome.valid for completion in group)))
    return groups
