"""`sample_maps`: single boards with what the policy wrote, where it broke, and an optimal plan beside it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from pydantic import Field

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.canonical import Split
from envwright.env.drawing import draw_board, draw_plan
from envwright.env.grading import grade_completion, read_answer
from envwright.env.instance import Instance
from envwright.env.rollout import Rollout
from envwright.env.rules import MOVES, Outcome
from envwright.env.seeding import random_stream
from envwright.env.solver import solve
from envwright.tools.errors import ToolError, ToolErrorCode
from envwright.tools.evidence import Evidence
from envwright.tools.selection import select

__all__ = ["MapSample", "SampleMaps", "SampleMapsArguments", "run"]

COMPLETION_LIMIT = 2_000
"""Characters of a completion that are shown: the first and the last half of this."""
DRAWING_LIMIT = 4_000
"""Characters, about, of a drawn plan; of a longer one the last timesteps are drawn."""
_SOLVER_NODES = 200_000
_LETTERS = {change: letter for letter, change in MOVES.items()}
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

Cell = tuple[int, int]
Paths = Sequence[Sequence[Cell | None]]


class SampleMapsArguments(FrozenModel):
    """Show a uniform sample of single boards: drawn as text, the policy's raw completion, where it broke, and an optimal plan."""

    n: StrictInt = Field(default=3, ge=1, le=20)
    """How many boards to show, 1 to 20; a larger n adds boards to those of a smaller one."""
    size: StrictInt | None = Field(default=None, ge=1)
    """Only boards of this map size."""
    outcome: Outcome | None = None
    """Only completions that ended so."""
    wait_required: bool | None = Field(default=None, strict=True)
    """Only boards on which every optimal plan must wait (true), or need not (false)."""
    num_agents: StrictInt | None = Field(default=None, ge=1)
    """Only boards with this many agents."""
    split: Split = Split.VALIDATION
    """Which rollouts to draw from: those on validation boards (default) or those of training."""
    stage: StrictInt | None = Field(default=None, ge=0)
    """Stage of the run, from 0; null means the latest one that has rollouts of this split."""


class MapSample(FrozenModel):
    """One completion on one board."""

    instance: str
    """Id of the instance."""
    bucket: str
    """Bucket of the instance: its map size."""
    wait_required: bool
    """Whether every optimal plan must wait."""
    board: str
    """The board: `.` ice, `#` hole, A B ... agents at their starts, a b ... their goals (an agent hides a goal below it)."""
    agents: tuple[str, ...]
    """Start and goal of each agent as (row, col), agent 0 is A."""
    completion: str
    """What the policy wrote; control characters are written as escapes, a long middle is left out and counted."""
    completion_length: int
    """Length of the whole completion, in characters."""
    outcome: Outcome
    """How it ended."""
    failure_step: int | None
    """Timestep at which the plan broke, counted from 1; null for a valid plan and when none could be read."""
    failure_agents: tuple[int, ...]
    """Agents at fault, counted from 0."""
    cost: int | None
    """Sum of costs of a valid plan."""
    plan: tuple[str, ...] | None
    """Each agent's actions as read, up to the failing timestep; `?` is no legal action. Null when no plan could be read."""
    drawing: str | None
    """The plan timestep by timestep, up to the failing one; `@` is an agent on its goal."""
    optimal_cost: int
    """Minimal sum of costs."""
    optimal_plan: tuple[str, ...] | None
    """Each agent's actions in one optimal plan; null when it was not found within the solver's budget."""


class SampleMaps(FrozenModel):
    """Answer of `sample_maps`."""

    stage: int
    """Stage of the rollouts."""
    split: Split
    """Split of the rollouts."""
    matching: int
    """Rollouts that match the filter, of which the samples are a uniform choice."""
    samples: tuple[MapSample, ...]
    """The samples, at most n."""


def run(arguments: SampleMapsArguments, evidence: Evidence) -> SampleMaps:
    """Draw a deterministic uniform sample of the matching rollouts.

    Raises:
        ToolError: `not_found` when the split or stage has no rollouts, or none matches; the message says what there is.
    """
    stage, rollouts = select(evidence, arguments.split, arguments.stage)
    matching = [rollout for rollout in rollouts if _matches(rollout, arguments)]
    if not matching:
        raise ToolError(ToolErrorCode.NOT_FOUND, _nothing_matches(rollouts, arguments, stage))
    order = random_stream(evidence.seed, "sample_maps", arguments.split.value, stage).permutation(len(matching))
    samples = tuple(_sample(matching[int(index)]) for index in order[: arguments.n])
    return SampleMaps(stage=stage, split=arguments.split, matching=len(matching), samples=samples)


def _properties(rollout: Rollout) -> dict[str, int | bool | str]:
    """What a rollout can be filtered by."""
    instance = rollout.instance
    return {
        "size": instance.size,
        "outcome": rollout.verdict.value,
        "wait_required": instance.wait_required,
        "num_agents": instance.num_agents,
    }


def _matches(rollout: Rollout, arguments: SampleMapsArguments) -> bool:
    instance = rollout.instance
    return (
        (arguments.size is None or instance.size == arguments.size)
        and (arguments.outcome is None or rollout.verdict == arguments.outcome)
        and (arguments.wait_required is None or instance.wait_required == arguments.wait_required)
        and (arguments.num_agents is None or instance.num_agents == arguments.num_agents)
    )


def _nothing_matches(rollouts: list[Rollout], arguments: SampleMapsArguments, stage: int) -> str:
    asked = arguments.model_dump(mode="json", include={"size", "outcome", "wait_required", "num_agents"}, exclude_none=True)
    present: dict[str, set[int | bool | str]] = {key: set() for key in asked}
    for rollout in rollouts:
        values = _properties(rollout)
        for key in asked:
            present[key].add(values[key])
    wanted = " and ".join(f"{key} {value}" for key, value in asked.items())
    there = "; ".join(f"{key} takes {', '.join(str(value) for value in sorted(values))}" for key, values in present.items())
    return f"none of the {len(rollouts)} {arguments.split} rollouts of stage {stage} has {wanted}; there, {there}"


def _sample(rollout: Rollout) -> MapSample:
    instance, outcome = rollout.instance, rollout.verdict
    step, at_fault = _where_it_broke(rollout)
    answer = read_answer(instance, rollout.completion)
    paths = None if isinstance(answer, Outcome) else [path[:step] for path in answer]
    solution = solve(instance.size, instance.holes, instance.starts, instance.goals, node_limit=_SOLVER_NODES, label_waits=False)
    return MapSample(
        instance=_visible(instance.id),
        bucket=instance.bucket,
        wait_required=instance.wait_required,
        board=draw_board(instance),
        agents=tuple(
            f"{index}: {start} -> {goal}" for index, (start, goal) in enumerate(zip(instance.starts, instance.goals, strict=True))
        ),
        completion=_shown_completion(rollout.completion),
        completion_length=len(rollout.completion),
        outcome=outcome,
        failure_step=step,
        failure_agents=at_fault,
        cost=rollout.cost,
        plan=None if paths is None else tuple(_letters(start, path) for start, path in zip(instance.starts, paths, strict=True)),
        drawing=None if paths is None else _drawn(instance, paths),
        optimal_cost=instance.optimal_cost,
        optimal_plan=solution.plan,
    )


def _where_it_broke(rollout: Rollout) -> tuple[int | None, tuple[int, ...]]:
    """The failing timestep and agents: as handed over, or graded when a trainer gave the outcome alone."""
    if rollout.failure_step is not None or rollout.verdict.valid:
        return rollout.failure_step, rollout.failure_agents
    grade = grade_completion(rollout.instance, rollout.completion)
    if grade.outcome != rollout.verdict:
        return None, rollout.failure_agents
    return grade.failure_step, grade.failure_agents


def _shown_completion(text: str) -> str:
    """Return a completion, a long one without its middle, with everything that a terminal would act on made visible."""
    if len(text) <= COMPLETION_LIMIT:
        return _visible(text)
    half = COMPLETION_LIMIT // 2
    return f"{_visible(text[:half])}\n[... {len(text) - 2 * half} characters left out ...]\n{_visible(text[-half:])}"


def _visible(text: str) -> str:
    """Return text with control, format and unassigned characters as escapes; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in "\n\t" or unicodedata.category(char) not in _HIDDEN_CATEGORIES else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _letters(start: Cell, path: Sequence[Cell | None]) -> str:
    """Return the actions along a path."""
    letters, here = [], start
    for cell in path:
        letters.append("?" if cell is None else _LETTERS.get((cell[0] - here[0], cell[1] - here[1]), "?"))
        here = here if cell is None else cell
    return "".join(letters)


def _drawn(instance: Instance, paths: Paths) -> str:
    """Draw a plan side by side, or only its last timesteps, one below the other, when the whole is too long."""
    horizon = max(len(path) for path in paths)
    per_frame = (instance.size + 5) * (instance.size + 2)
    frames = max(2, DRAWING_LIMIT // per_frame)
    if horizon < frames:
        return draw_plan(instance, paths)
    positions: list[Cell] = list(instance.starts)
    drawn = [f"[timesteps 0 to {horizon - frames} left out]"]
    for step in range(1, horizon + 1):
        for agent, path in enumerate(paths):
            cell = path[step - 1] if step <= len(path) else None
            positions[agent] = cell if cell is not None else positions[agent]
        if step > horizon - frames:
            drawn.append(f"t={step}\n{draw_board(instance, positions)}")
    return "\n".join(drawn)
