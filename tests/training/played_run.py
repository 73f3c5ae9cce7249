"""A run of two stages, told to a Progress event by event as the stage loop tells it, with hand-made figures."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from envwright.agent.messages import Usage
from envwright.agent.redesign import Redesign
from envwright.agent.stop import StopReason
from envwright.env.canonical import Split
from envwright.env.generator import generate
from envwright.env.instance import Instance, parse_instance
from envwright.env.jsonio import dump_json
from envwright.env.patch import Edit, Patch, apply_patch, diff_configs
from envwright.env.rollout import Rollout, graded_rollout
from envwright.env.summary import RolloutSummary, summarise
from envwright.training.grpo import StepReport
from envwright.training.settings import RunSettings
from envwright.training.view.progress import Progress
from tests.cli.commands import rollout_lines


def report(step: int, **figures: float) -> StepReport:
    """A step's report; what is not given is 0."""
    values: dict[str, Any] = {field.name: 0.0 for field in fields(StepReport)}
    values |= {"step": step, "reward": 0.5, "signal": 0.25, "tokens": 10.0, "seconds": 2.0, "completions": 64, **figures}
    return StepReport(**values)


@cache
def rollouts() -> list[Rollout]:
    """300 graded completions on four boards."""
    boards: dict[str, Instance] = {}
    graded = []
    for line in rollout_lines():
        text = dump_json(line["instance"])
        boards[text] = boards.get(text) or parse_instance(line["instance"], "board")
        graded.append(graded_rollout(Rollout.model_validate({**line, "instance": boards[text]})))
    return graded


def summary() -> RolloutSummary:
    return summarise(rollouts())


def play(
    progress: Progress, settings: RunSettings, folder: Path, *, summary_of_patch: str = "more holes", stop_at: tuple[int, int] | None = None
) -> None:
    """Tell a whole run, or all until a stage has taken a step."""
    figures, config, steps = summary(), settings.config, settings.steps_per_stage
    progress.start(settings, folder, 0)
    progress.measured("base policy on held-out boards", figures, figures)
    for stage in range(settings.num_stages):
        progress.stage(stage, config, settings.instances_per_stage, 0.0)
        progress.generated(generate(config, 4, seed=0, split=Split.TRAIN, key=("stage", stage)), 0.5)
        for step in range(1, steps + 1):
            progress.step(report(step, reward=0.1 * (stage * steps + step)), steps)
            if (stage, step) == stop_at:
                return
        progress.validated(figures, figures)
        progress.completions(rollouts(), settings.log_completions)
        progress.asking(settings.engineer)
        edit = Edit(path="/sizes/4/hole_ratio", value=0.3 + 0.01 * stage, reason="they walk well")
        patch = Patch(summary=summary_of_patch, edits=(edit,))
        after = apply_patch(config, patch)
        redesign = Redesign(patch, after, diff_configs(config, after), StopReason.PATCH_ACCEPTED, "", Usage())
        progress.redesigned(redesign, last=stage == settings.num_stages - 1, seconds=9.0, engineer_seconds=1.0)
        config = after
    progress.finish(figures, figures, figures, figures, [{}] * settings.num_stages, folder)
