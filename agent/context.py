"""What an engineer is told before it looks at the evidence: a system prompt and one user message.

Both are made of sections, each a function from a `Briefing` to a text or None. Which of them speak is up to the context
modules (`envwright.agent.context_modules`); role, knobs, rules, ending and current config always do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from envwright.agent.context_modules import DEFAULT_CONTEXT, ContextModules, parse_context
from envwright.agent.evidence_text import failures_text, history_text
from envwright.agent.limits import Limits
from envwright.agent.loop import KEEP
from envwright.agent.messages import Message, SystemMessage, UserMessage
from envwright.agent.work_settings import Answer
from envwright.env.base import FrozenModel
from envwright.env.config import KNOB_BOUNDS, Knobs
from envwright.env.jsonio import dump_json
from envwright.tools.evidence import Evidence

__all__ = ["SYSTEM_SECTIONS", "USER_SECTIONS", "Bookkeeping", "Briefing", "Section", "build_context"]


class Bookkeeping(FrozenModel):
    """Where the run stands."""

    stage: int = Field(ge=0)
    """The stage that has just ended, from 0."""
    stages: int | None = Field(default=None, ge=1)
    """Stages in the whole run."""
    instances: int | None = Field(default=None, ge=1)
    """Instances that the next stage will draw."""
    training: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    """The training's hyper-parameters by name; shown only when the context says T in full."""


@dataclass(frozen=True, slots=True)
class Briefing:
    """Everything that sections may draw on."""

    evidence: Evidence
    """The evidence of the run."""
    bookkeeping: Bookkeeping
    """Where the run stands."""
    limits: Limits
    """What the session may use."""
    modules: ContextModules = field(default_factory=lambda: parse_context(DEFAULT_CONTEXT))
    """What is shown."""
    answer: Answer | None = None
    """What the one answer of direct mode is; None for a session with tools."""


Section = Callable[[Briefing], str | None]
"""Makes one part of a message; None leaves it out."""


_WAYS: dict[Answer | None, str] = {
    None: "Look at the evidence with the tools, then propose one patch.",
    "patch": "Read the evidence below, then answer once, with one patch.",
    "config": "Read the evidence below, then answer once, with the whole next config.",
}


def role(briefing: Briefing) -> str:
    """Say who the engineer is and what it decides."""
    return (
        "You are the environment engineer of a reinforcement-learning run. A policy trains in stages on generated multi-agent "
        "path-finding boards "
        "(frozen lake, several agents, collisions forbidden). Between two stages you decide how the generator's config "
        "changes. You set knobs only: "
        "boards, rewards and training settings are out of your reach. " + _WAYS[briefing.answer]
    )


def knobs(briefing: Briefing) -> str:
    """List the knobs with their bounds."""
    lines = []
    for name, (low, high) in KNOB_BOUNDS.items():
        lines.append(f"- /sizes/<size>/{name} ({low:g} to {high:g}): {Knobs.model_fields[name].description}")
    return f"Knobs, one set per map size ({', '.join(briefing.evidence.config.sizes)}):\n" + "\n".join(lines)


def rules(briefing: Briefing) -> str | None:
    """Say what makes a patch acceptable."""
    if briefing.answer == "config":
        return None
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


def guideline(briefing: Briefing) -> str | None:
    """Say what good redesigns have in common (context module G)."""
    if not briefing.modules.guideline:
        return None
    trial = "" if briefing.answer else "\n- Try a change with simulate_config before you propose it."
    return _GUIDELINE + trial


_GUIDELINE = (
    "Guideline.\n"
    "- Aim practice at the competence frontier: boards on which the policy is just beginning to succeed. Several completions are sampled "
    "per board, and a board teaches only when some succeed and some fail; boards always solved or never solved teach nothing.\n"
    "- Ask first where the policy fails and how. Compare boards that require waiting with boards that do not, size by size, and read raw "
    "counts before you draw conclusions. Few samples are weak evidence.\n"
    "- Preserve what works. Leave sizes alone that are near the frontier, edit few knobs, and move each by a moderate step: you will be "
    "asked again after the next stage.\n"
    "- Do not abandon a size. When it is beyond the policy, make it easier rather than dropping it; when it is mastered, make it harder or "
    "give part of its share to sizes that still teach.\n"
    "- Give each edit a reason with the counts behind it, and cite the results you read them from."
)


def ending(briefing: Briefing) -> str:
    """Say how a session ends, and what it may use."""
    if briefing.answer is not None:
        return _ANSWERS[briefing.answer]
    limits = briefing.limits
    return (
        "The session ends when propose_patch is accepted. To keep the config as it is, reply without a tool call and begin "
        f"with the word {KEEP}, then your reason. Text alone never changes the config. You have at most {limits.request_limit} replies "
        f"and {limits.tool_calls_limit} tool calls."
    )


_ANSWERS: dict[Answer, str] = {
    "patch": (
        'Answer with one JSON object and nothing else: {"summary": "what the patch is for", "edits": [{"op": "replace", "path": '
        '"/sizes/<size>/<knob>", "value": <number>, "reason": "the counts behind it", "evidence": ["<result id>"]}]}. '
        "An empty list of edits keeps the config as it is; the summary then says why."
    ),
    "config": (
        'Answer with one JSON object and nothing else: {"summary": "what changes and why", "evidence": ["<result id>"], "sizes": '
        '{"<size>": {"data_ratio": <number>, "hole_ratio": <number>, "wait_ratio": <number>}}}, with every size of the current config. '
        "The data ratios sum to 1. The current values keep the config as it is."
    ),
}


def current_config(briefing: Briefing) -> str:
    """Show the config that a patch changes."""
    return f"Current config:\n{dump_json(briefing.evidence.config.to_json())}"


def bookkeeping(briefing: Briefing) -> str | None:
    """Say where the run stands, and with T in full how it is trained (context module T)."""
    if briefing.modules.training == "off":
        return None
    books = briefing.bookkeeping
    of_all = f" ({books.stage + 1} of {books.stages})" if books.stages is not None else ""
    budget = f" The next stage draws {books.instances} instances." if books.instances is not None else ""
    told = f"Stage {books.stage}{of_all} has ended.{budget}"
    if briefing.modules.training == "full" and books.training:
        told += "\nTraining: " + ", ".join(f"{name} {value}" for name, value in books.training.items())
    return told


def failures(briefing: Briefing) -> str | None:
    """Show the raw failure breakdown (context module F)."""
    return failures_text(briefing.evidence) if briefing.modules.failures else None


def history(briefing: Briefing) -> str | None:
    """Show earlier configs and what they led to (context module H); the evidence holds those that may be seen."""
    return history_text(briefing.evidence) if briefing.modules.history != "off" else None


def task(_briefing: Briefing) -> str:
    """Ask for the redesign."""
    return "Read the evidence and redesign the config for the next stage."


SYSTEM_SECTIONS: tuple[Section, ...] = (role, knobs, rules, guideline, ending)
"""Sections of the system prompt, in order."""

USER_SECTIONS: tuple[Section, ...] = (current_config, bookkeeping, failures, history, task)
"""Sections of the first user message, in order."""


def build_context(
    briefing: Briefing, system: Sequence[Section] = SYSTEM_SECTIONS, user: Sequence[Section] = USER_SECTIONS
) -> tuple[Message, ...]:
    """Return the messages that a session begins with."""
    return SystemMessage(content=_joined(briefing, system)), UserMessage(content=_joined(briefing, user))


def _joined(briefing: Briefing, sections: Sequence[Section]) -> str:
    return "\n\n".join(text for section in sections if (text := section(briefing)) is not None)
