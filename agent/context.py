"""What an engineer is told before it looks at the evidence: a system prompt and one user message.

Both are made of sections, each a function from a `Briefing` to a text or None, so that context modules can be added or
switched without touching the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field

from envwright.agent.limits import Limits
from envwright.agent.loop import KEEP
from envwright.agent.messages import Message, SystemMessage, UserMessage
from envwright.env.base import FrozenModel
from envwright.env.config import KNOB_BOUNDS, Knobs
from envwright.env.jsonio import dump_json
from envwright.tools.evidence import Evidence, StageRecord

__all__ = ["SYSTEM_SECTIONS", "USER_SECTIONS", "Bookkeeping", "Briefing", "Section", "build_context"]

HISTORY_STAGES = 4
"""Stages shown in the first message: enough to see a trend; `env_stats` has them all."""


class Bookkeeping(FrozenModel):
    """Where the run stands. Counts only: training hyper-parameters are no business of the engineer's."""

    stage: int = Field(ge=0)
    """The stage that has just ended, from 0."""
    stages: int | None = Field(default=None, ge=1)
    """Stages in the whole run."""
    instances: int | None = Field(default=None, ge=1)
    """Instances that the next stage will draw."""


@dataclass(frozen=True, slots=True)
class Briefing:
    """Everything that sections may draw on."""

    evidence: Evidence
    """The evidence of the run."""
    bookkeeping: Bookkeeping
    """Where the run stands."""
    limits: Limits
    """What the session may use."""


Section = Callable[[Briefing], str | None]
"""Makes one part of a message; None leaves it out."""


def role(_briefing: Briefing) -> str:
    """Say who the engineer is and what it decides."""
    return (
        "You are the environment engineer of a reinforcement-learning run. A policy trains in stages on generated multi-agent "
        "path-finding boards "
        "(frozen lake, several agents, collisions forbidden). Between two stages you decide how the generator's config "
        "changes. You set knobs only: "
        "boards, rewards and training settings are out of your reach. Look at the evidence with the tools, then propose one patch."
    )


def knobs(briefing: Briefing) -> str:
    """List the knobs with their bounds."""
    lines = []
    for name, (low, high) in KNOB_BOUNDS.items():
        lines.append(f"- /sizes/<size>/{name} ({low:g} to {high:g}): {Knobs.model_fields[name].description}")
    return f"Knobs, one set per map size ({', '.join(briefing.evidence.config.sizes)}):\n" + "\n".join(lines)


def rules(_briefing: Briefing) -> str:
    """Say what makes a patch acceptable."""
    return (
        "A patch is a list of edits, each with op 'replace', a path, a value (a number), a reason and the ids of the results "
        "that support it "
        "(such as failure_breakdown#1). It applies whole or not at all. A path appears once, names a size and a knob that "
        "exist, and its value lies "
        "within the bounds. A data_ratio that you edit keeps the value you give and the sizes you leave out are scaled so that "
        "all sum to 1; if you "
        "edit every size they must sum to 1. A patch that changes nothing is refused. A refusal names each fault: mend it and "
        "propose again."
    )


def guideline(_briefing: Briefing) -> str:
    """Say what good redesigns have in common."""
    return (
        "Guideline.\n"
        "- Aim practice at the competence frontier: boards on which the policy sometimes succeeds. Several completions are "
        "sampled per board, and a "
        "board teaches only when some succeed and some fail; boards always solved or never solved teach nothing.\n"
        "- Ask first where the policy fails and how. Compare boards that require waiting with boards that do not, size by "
        "size, and read raw counts "
        "before you draw conclusions. Few samples are weak evidence.\n"
        "- Preserve what works. Leave sizes alone that are near the frontier, edit few knobs, and move each by a moderate "
        "step: you will be asked "
        "again after the next stage.\n"
        "- Do not abandon a size. When it is beyond the policy, make it easier rather than dropping it; when it is mastered, "
        "make it harder or give "
        "part of its share to sizes that still teach.\n"
        "- Try a change with simulate_config before you propose it.\n"
        "- Give each edit a reason with the counts behind it, and cite the results you read them from."
    )


def ending(briefing: Briefing) -> str:
    """Say how a session ends, and what it may use."""
    limits = briefing.limits
    return (
        "The session ends when propose_patch is accepted. To keep the config as it is, reply without a tool call and begin "
        f"with the word {KEEP}, then "
        f"your reason. Text alone never changes the config. You have at most {limits.request_limit} replies and "
        f"{limits.tool_calls_limit} tool calls."
    )


def current_config(briefing: Briefing) -> str:
    """Show the config that a patch changes."""
    return f"Current config:\n{dump_json(briefing.evidence.config.to_json())}"


def bookkeeping(briefing: Briefing) -> str:
    """Say where the run stands."""
    books = briefing.bookkeeping
    of_all = f" of {books.stages}" if books.stages is not None else ""
    budget = f" The next stage draws {books.instances} instances." if books.instances is not None else ""
    return f"Stage {books.stage + 1}{of_all} has ended.{budget}"


def history(briefing: Briefing) -> str | None:
    """Show the latest stages: what each trained on and what validation said after it."""
    records = briefing.evidence.history[-HISTORY_STAGES:]
    if not records:
        return None
    return "Stages so far (data / hole / wait ratio per size -> validation valid rate):\n" + "\n".join(map(_record_line, records))


def _record_line(record: StageRecord) -> str:
    parts = []
    for bucket, values in record.config.buckets():
        rates = record.by_bucket.get(bucket)
        reached = "no data" if rates is None or rates.n == 0 else f"{rates.valid:.2f} of {rates.n}"
        parts.append(f"{bucket}: {values.data_ratio:.3f}/{values.hole_ratio:.3f}/{values.wait_ratio:.3f} -> {reached}")
    return f"stage {record.stage + 1}: all {record.validation.valid:.2f} of {record.validation.n}; " + "; ".join(parts)


def task(_briefing: Briefing) -> str:
    """Ask for the redesign."""
    return "Read the evidence and redesign the config for the next stage."


SYSTEM_SECTIONS: tuple[Section, ...] = (role, knobs, rules, guideline, ending)
"""Sections of the system prompt, in order."""

USER_SECTIONS: tuple[Section, ...] = (current_config, bookkeeping, history, task)
"""Sections of the first user message, in order."""


def build_context(
    briefing: Briefing, system: Sequence[Section] = SYSTEM_SECTIONS, user: Sequence[Section] = USER_SECTIONS
) -> tuple[Message, ...]:
    """Return the messages that a session begins with."""
    return SystemMessage(content=_joined(briefing, system)), UserMessage(content=_joined(briefing, user))


def _joined(briefing: Briefing, sections: Sequence[Section]) -> str:
    return "\n\n".join(text for section in sections if (text := section(briefing)) is not None)
