"""What a person reads in a conversation: tool calls folded to a line or unfolded, configs, patches, and text as it arrives.

Plain lines for a given width, without escape sequences but for the boards, whose style is the caller's. Whatever a model wrote is
shown with its control characters escaped.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from envwright.agent.chat import NumberedCall
from envwright.agent.visible import visible
from envwright.env.config import KNOBS, GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.grading import read_answer
from envwright.env.instance import Instance
from envwright.env.jsonio import dump_json, parse_json
from envwright.env.patch import PatchCheck
from envwright.env.pictures.story import story_of
from envwright.env.pictures.text import TextStyle, draw_story, story_legend, verdict_line
from envwright.env.rules import Outcome
from envwright.tools.evidence import Evidence

__all__ = ["StreamWrap", "config_lines", "folded", "patch_lines", "unfolded"]

_NAME = 22
"""Columns of a group's name."""
_LONGEST = 60
"""Lines of JSON that are shown of a call."""


class StreamWrap:
    """Breaks text into lines of at most `width` columns while it arrives, at spaces where there are any."""

    def __init__(self, width: int) -> None:
        self.width, self._column = width, 0
        self._space, self._word = "", ""

    def feed(self, text: str) -> str:
        """Return what can be printed now: all but the word that may go on."""
        return "".join(self._taken(char) for char in visible(text, lines=True).replace("\t", "    "))

    def end(self) -> str:
        """Return the rest, with a line break when the line is begun."""
        rest = self._word_out()
        column, self._column = self._column, 0
        return rest + ("\n" if column else "")

    def _taken(self, char: str) -> str:
        if char == "\n":
            shown = self._word_out() + char
            self._column, self._space = 0, ""
            return shown
        if char == " ":
            shown = self._word_out()
            self._space += char
            return shown
        self._word += char
        return self._word_out() if len(self._word) >= self.width else ""

    def _word_out(self) -> str:
        """Return the word with the spaces before it, on a new line where it does not fit; spaces at a line's end are dropped."""
        if not self._word:
            return ""
        space, word = self._space, self._word
        self._space, self._word = "", ""
        if self._column and self._column + len(space) + len(word) > self.width:
            self._column = len(word)
            return "\n" + word
        space = space[: self.width - self._column - len(word)]
        self._column += len(space) + len(word)
        return space + word


def folded(call: NumberedCall, width: int = 80) -> str:
    """Return a call as one line: its number, what was asked, what came back, and how long it took."""
    asked = f"[{call.number}] {visible(call.call.function.name)}({_asked(call.call.function.arguments)})"
    took = "" if call.seconds is None else f", {call.seconds:.2f} s"
    came = f" -> {_came_back(call)}{took}"
    room = width - len(came)
    if room < width // 3:
        came, room = _cut(came, 2 * width // 3), width - min(len(came), 2 * width // 3)
    return _cut(asked, room) + came


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def _asked(arguments: str) -> str:
    try:
        given = parse_json(arguments)
    except UserError:
        return _cut(visible(arguments), 30)
    if not isinstance(given, dict):
        return _cut(visible(arguments), 30)
    return ", ".join(f"{visible(str(key))}={_brief(value)}" for key, value in given.items() if key != "summary")


def _brief(value: Any) -> str:
    if isinstance(value, list):
        if all(isinstance(item, str) for item in value):
            return ",".join(visible(item) for item in value) or "none"
        return _count(len(value), "item")
    return visible(value) if isinstance(value, str) else visible(dump_json(value))


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def _came_back(call: NumberedCall) -> str:
    answer = call.answer
    if answer.error is not None:
        return f"{answer.error.code}: {visible(answer.error.message)}"
    content = answer.content or {}
    tellers: dict[str, Callable[[dict[str, Any]], str]] = {
        "failure_breakdown": lambda got: f"{len(got['rows'])} groups of {got['totals']['n']} completions",
        "env_stats": lambda got: f"{len(got['buckets'])} sizes",
        "sample_maps": lambda got: f"{len(got['samples'])} of {got['matching']} boards",
        "simulate_config": lambda got: f"{len(got['buckets'])} sizes, {'feasible' if got['feasible'] else 'infeasible'}",
        "propose_patch": lambda got: "passed the checks" if got["accepted"] else f"refused, {_count(len(got['errors']), 'error')}",
    }
    return tellers[answer.name](content) if answer.name in tellers else f"{len(content)} fields"


def unfolded(call: NumberedCall, evidence: Evidence, style: TextStyle) -> Iterator[str]:
    """Yield a call and its answer in full: counts as a table, boards drawn, a patch with its reasons, anything else as JSON."""
    content = call.answer.content
    yield f"{visible(call.call.function.name)} {visible(call.call.function.arguments)}" if content is None else f"result {call.answer.id}"
    if content is None:
        yield from textwrap.wrap(_came_back(call), style.width)
    elif call.answer.name == "failure_breakdown":
        yield from _counts(content)
    elif call.answer.name == "sample_maps":
        for sample in content["samples"]:
            yield from _board(sample, evidence, style)
    elif call.answer.name == "propose_patch":
        yield from patch_lines(PatchCheck.model_validate(content), style.width)
    else:
        lines = dump_json(content, indent=1).split("\n")
        yield from (_cut(visible(line), style.width) for line in lines[:_LONGEST])
        if len(lines) > _LONGEST:
            yield f"... {len(lines) - _LONGEST} more lines; `envwright tool {call.answer.name} --json` prints them"


def _counts(content: dict[str, Any]) -> Iterator[str]:
    yield f"{content['split']} boards, stage {content['stage']}"
    yield f"{'':22}{'n':>6}   valid [  95 %  ]  optimal  most frequent failure"
    for row in (*content["rows"], content["totals"]):
        name = " ".join(_group(key, value) for key, value in row["group"].items()) or "all"
        valid, optimal = row["valid"], row["optimal"]
        failures = [(count, outcome) for outcome, count in row["outcomes"].items() if not Outcome(outcome).valid]
        worst = "{1} {0}".format(*max(failures)) if failures else ""
        interval = f"[{100 * valid['low']:3.0f}, {100 * valid['high']:3.0f}]"
        figures = f"{row['n']:>6} {100 * valid['rate']:5.1f} % {interval}  {100 * optimal['rate']:5.1f} %  {worst}"
        if len(name) > _NAME:
            yield name
            name = ""
        yield f"{name:<{_NAME}}{figures}"


def _group(key: str, value: Any) -> str:
    """Name a group as briefly as can be understood."""
    words = {"size": f"{value}x{value}", "num_agents": f"{value} agents", "outcome": str(value), "hole_ratio": f"holes {value}"}
    return ("wait" if value else "no wait") if key == "wait_required" else words.get(key, f"{key}={value}")


def _board(sample: dict[str, Any], evidence: Evidence, style: TextStyle) -> Iterator[str]:
    instance = _instance(sample, evidence)
    yield f"{sample['instance']}: {sample['outcome']}; an optimal plan costs {sample['optimal_cost']}: {_plan(sample['optimal_plan'])}"
    yield from textwrap.wrap(f"completion: {visible(sample['completion'])}", style.width)
    answer = Outcome.PARSE_ERROR if instance is None else read_answer(instance, _completion(sample, evidence))
    if instance is None or isinstance(answer, Outcome):
        yield from sample["board"].split("\n")
    else:
        story = story_of(instance, answer)
        yield from f"{story_legend(story, style)}\n{verdict_line(story, style)}\n\n{draw_story(story, style)}".split("\n")
    yield ""


def _plan(plan: list[str] | None) -> str:
    return "not found" if plan is None else " ".join(letters or "-" for letters in plan)


def _instance(sample: dict[str, Any], evidence: Evidence) -> Instance | None:
    return next((rollout.instance for rollout in evidence.rollouts if rollout.instance.id == sample["instance"]), None)


def _completion(sample: dict[str, Any], evidence: Evidence) -> str:
    """The whole completion, of which a sample may show a part."""
    texts = [rollout.completion for rollout in evidence.rollouts if rollout.instance.id == sample["instance"]]
    same = [text for text in texts if len(text) == sample["completion_length"] and text[:20] == sample["completion"][:20]]
    return same[0] if same else str(sample["completion"])


def config_lines(config: GeneratorConfig) -> Iterator[str]:
    """Yield the config as a table."""
    yield f"{config.num_agents} agents a board"
    yield f"{'map':>7}" + "".join(f"{knob:>12}" for knob in KNOBS)
    for bucket, knobs in config.buckets():
        yield f"{f'{bucket}x{bucket}':>7}" + "".join(f"{getattr(knobs, knob):12.3f}" for knob in KNOBS)


def patch_lines(check: PatchCheck, width: int = 80) -> Iterator[str]:
    """Yield what a patch does and why, or why it was refused."""
    if check.patch is not None:
        yield from textwrap.wrap(visible(check.patch.summary), width)
    edits = {edit.path: edit for edit in check.patch.edits} if check.patch is not None else {}
    for change in check.diff:
        yield f"  {change.path:<22} {change.before:.3f} -> {change.after:.3f}"
        edit = edits.get(change.path)
        reason = "scaled so that the shares sum to 1" if edit is None else f"{edit.reason} [{', '.join(edit.evidence) or 'no evidence'}]"
        yield from textwrap.wrap(visible(reason), width, initial_indent="    ", subsequent_indent="    ")
    for kind, problems in (("refused", check.errors), ("warning", check.warnings)):
        for problem in problems:
            told = f"{kind}: {visible(problem.path)}: {visible(problem.message)}"
            yield from textwrap.wrap(told, width, initial_indent="  ", subsequent_indent="    ")
