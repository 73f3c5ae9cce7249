"""Which rollouts a question is about: a split and a stage, or a `not_found` that names those that exist."""

from __future__ import annotations

from envwright.env.canonical import Split
from envwright.env.rollout import Rollout
from envwright.tools.errors import ToolError, ToolErrorCode
from envwright.tools.evidence import Evidence

__all__ = ["available", "not_found", "select"]


def select(evidence: Evidence, split: Split, stage: int | None) -> tuple[int, list[Rollout]]:
    """Return the stage and its rollouts of a split; `stage` None means the latest stage that has any.

    Raises:
        ToolError: `not_found`, with the splits and stages that have rollouts.
    """
    wanted = max((number for kind, number in evidence.groups if kind == split), default=0) if stage is None else stage
    chosen = evidence.groups.get((split, wanted))
    if not chosen:
        raise not_found(evidence, split, stage)
    return wanted, list(chosen)


def not_found(evidence: Evidence, split: Split, stage: int | None) -> ToolError:
    """Return the error that a split, or a stage of it, has no rollouts; it names those that exist."""
    at = "" if stage is None else f" at stage {stage}"
    return ToolError(ToolErrorCode.NOT_FOUND, f"there are no rollouts of the {split} split{at}; {available(evidence)}")


def available(evidence: Evidence) -> str:
    """Say which splits and stages have rollouts."""
    stages: dict[str, set[int]] = {}
    for split, stage in evidence.groups:
        stages.setdefault(split, set()).add(stage)
    if not stages:
        return "the evidence holds no rollouts at all"
    parts = []
    for split in (split for split in Split if split in stages):
        numbers = sorted(stages[split])
        parts.append(f"{split} at stage{'s' if len(numbers) > 1 else ''} {', '.join(str(number) for number in numbers)}")
    return "there are: " + "; ".join(parts)
