"""Sample boards: per map size one plan that failed and one that succeeded, drawn, with the policy's own words.

The choice is a rule, not a taste: the first completion in the file that ends in the size's most frequent failure, and the first
optimal one, on a board where every optimal plan must wait if there is such a one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from envwright.env.grading import read_answer
from envwright.env.pictures.layout import overview_picture
from envwright.env.pictures.story import Story, story_of
from envwright.env.pictures.svg import svg_text
from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome

__all__ = ["Sample", "sample_boards"]

_LONGEST = 2000
"""Letters of a completion that the page shows."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A board with what the policy wrote."""

    size: str
    heading: str
    line: int
    """Line of the rollout file."""
    instance_id: str
    outcome: str
    verdict: str
    """What became of the plan: the costs, or the first violation, when, who and where."""
    moves: str
    """Every agent's moves up to the end of the story."""
    completion: str
    svg: str
    """The drawing."""
    wide: bool
    """True when the drawing has two panels."""


def sample_boards(rollouts: Sequence[Rollout]) -> list[Sample]:
    """Return a failing and a solved sample per map size, smallest first; a size without one of them lacks it."""
    samples = []
    for bucket in sorted({rollout.instance.bucket for rollout in rollouts}, key=int):
        of_bucket = [(line, rollout) for line, rollout in enumerate(rollouts, start=1) if rollout.instance.bucket == bucket]
        failing = Counter(rollout.verdict for _, rollout in of_bucket if not rollout.verdict.valid)
        if failing:
            most = max(failing, key=lambda outcome: (failing[outcome], outcome.value))
            words = (
                f"{bucket}x{bucket}, the most frequent failure: {failing[most]} of {len(of_bucket)} end in {most.value.replace('_', ' ')}"
            )
            samples.append(_sample(*next(pair for pair in of_bucket if pair[1].verdict is most), words))
        solved = [pair for pair in of_bucket if pair[1].verdict.valid]
        if solved:
            best = min(solved, key=lambda pair: (pair[1].verdict is not Outcome.OPTIMAL, not pair[1].instance.wait_required))
            kind = "an optimal plan" if best[1].verdict is Outcome.OPTIMAL else "a valid plan"
            where = ", where every optimal plan must wait" if best[1].instance.wait_required else ""
            samples.append(_sample(*best, f"{bucket}x{bucket}, {kind}{where}"))
    return samples


def _sample(line: int, rollout: Rollout, heading: str) -> Sample:
    instance, answer = rollout.instance, read_answer(rollout.instance, rollout.completion)
    if isinstance(answer, Outcome):
        story = Story(instance, [[] for _ in instance.starts], None, note=f"{answer.value.replace('_', ' ')}: no plan could be read")
    else:
        story = story_of(instance, answer)
    moves = "; ".join(f"agent {agent}: {story.moves(agent) or 'none'}" for agent in range(story.num_agents))
    wide = story.violation is not None and instance.size <= 12
    text = rollout.completion
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text)} letters)"
    svg = svg_text(overview_picture(story)).strip()
    return Sample(instance.bucket, heading, line, instance.id, rollout.verdict.value, story.verdict(), moves, shown, svg, wide)
