"""Mutated model messages: each ends in a valid call or a typed error, and only an accepted proposal can change a config."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from envwright.agent.tool_text import read_text_calls
from envwright.env.jsonio import dump_json, parse_json
from envwright.tools.errors import ToolErrorCode
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox
from tests.agent.evidence_maker import make_evidence

MESSAGES = 12_000
EDIT = {"op": "replace", "path": "/sizes/4/wait_ratio", "value": 0.2, "reason": "4x4: {6} of 60", "evidence": ["failure_breakdown#1"]}
CALLS = [
    ("propose_patch", {"summary": 'wait "more" <tool_call> } at 4x4', "edits": [EDIT]}),
    ("propose_patch", {"summary": "less holes", "edits": [{**EDIT, "path": "/sizes/4/hole_ratio", "value": "0.15"}]}),
    ("failure_breakdown", {"by": ["size", "wait_required"]}),
    ("failure_breakdown", {"by": '["outcome"]', "split": "validation", "stage": None}),
    ("sample_maps", {"n": 1, "size": 4, "wait_required": True}),
    ("env_stats", {"stage": 3}),
]
PIECES = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "```",
    "```json\n",
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "NaN",
    "Infinity",
]
PIECES += [
    "-1e999",
    "null",
    "\x00",
    "\x1b[31m",
    "\x9b",
    "\ud800",
    "\u2028",
    "é",
    '"name"',
    '"arguments"',
    "propose_patch",
    " ",
    "\n",
    "0",
    "1e5",
]


def written(rng: random.Random) -> str:
    """A message as a model might write it: one or two calls in one of the usual forms, with or without words around them."""
    parts = []
    for name, arguments in rng.sample(CALLS, rng.choice([1, 1, 2])):
        given = rng.choice([arguments, json.dumps(arguments), json.dumps(json.dumps(arguments))])
        call = json.dumps({"name": name, "arguments": given})
        forms = [
            f"<tool_call>\n{call}\n</tool_call>",
            f"```json\n{call}\n```",
            call,
            f"<tool_call>{call}",
            f"```\n<tool_call>{call}</tool_call>\n```",
        ]
        parts.append(rng.choice(forms))
    before = rng.choice(["", "", "I look first. ", f"<think>{parts[0]}</think>", "KEEP? No: "])
    return before + rng.choice(["\n", ""]).join(parts) + rng.choice(["", "", " Note [1].", "}"])


def mutated(text: str, other: str, rng: random.Random) -> str:
    for _ in range(rng.choice([0, 1, 1, 2, 3, 6])):
        at = rng.randrange(len(text) + 1)
        until = min(len(text), at + rng.choice([1, 1, 2, 5, 20]))
        kind = rng.randrange(7)
        if kind == 0:
            text = text[:at] + text[until:]
        elif kind == 1:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif kind == 2:
            text = text[:at] + rng.choice(PIECES) + text[until:]
        elif kind == 3:
            text = text[:at]
        elif kind == 4:
            text = text[:at] + text[at:until] * 2 + text[until:]
        elif kind == 5:
            cut = rng.randrange(len(other) + 1)
            text = text[:at] + other[cut:]
        else:
            text = text[:at] + chr(rng.choice([rng.randrange(128), rng.randrange(0x110000)])) + text[at:]
    return text


@pytest.fixture(scope="module")
def small() -> Evidence:
    return make_evidence({"4": (6, 48)}, n=4)


def outcome(toolbox: Toolbox, name: str, arguments: str) -> str:
    """Carry out a call and check what may have changed."""
    before, config = toolbox.accepted, toolbox.evidence.config.to_json()
    result = toolbox.call(name, arguments)
    parse_json(dump_json(result.to_json()))
    assert toolbox.evidence.config.to_json() == config
    accepted = result.error is None and name == "propose_patch" and (result.content or {})["accepted"]
    assert (toolbox.accepted is not before) == accepted
    if result.error is None:
        return "refused patch" if name == "propose_patch" and not accepted else "accepted patch" if accepted else "answer"
    assert result.error.code in ToolErrorCode
    assert result.error.message
    assert "\n" not in result.error.message
    return result.error.code.value


def test_every_mutated_message_ends_in_a_valid_call_or_a_typed_error(small: Evidence) -> None:
    rng, ends = random.Random(0), Counter[str]()
    for index in range(MESSAGES):
        if index % 50 == 0:
            toolbox = Toolbox(small)
        text = mutated(written(rng), written(rng), rng)
        read = read_text_calls(text)
        assert not (read.calls and read.problem)
        if read.problem is not None:
            assert read.problem.strip()
            ends["unreadable"] += 1
        elif not read.calls:
            ends["no call"] += 1
        for call in read.calls:
            ends[outcome(toolbox, call.name, call.arguments)] += 1
    assert sum(ends.values()) >= MESSAGES
    for kind in ("unreadable", "no call", "answer", "accepted patch", "bad_json", "validation_failed", "unknown_tool", "not_found"):
        assert ends[kind] >= 20, (kind, ends)


def test_every_mutated_argument_text_of_a_tool_call_ends_in_an_answer_or_a_typed_error(small: Evidence) -> None:
    rng, ends = random.Random(1), Counter[str]()
    for index in range(4_000):
        if index % 50 == 0:
            toolbox = Toolbox(small)
        name, arguments = rng.choice(CALLS)
        other = json.dumps(rng.choice(CALLS)[1])
        ends[outcome(toolbox, mutated(name, name, rng) if rng.random() < 0.05 else name, mutated(json.dumps(arguments), other, rng))] += 1
    assert min(ends[kind] for kind in ("answer", "accepted patch", "bad_json", "validation_failed", "unknown_tool", "not_found")) >= 10, (
        ends
    )


def test_unmutated_messages_are_never_read_as_nothing(small: Evidence) -> None:
    rng = random.Random(2)
    for _ in range(500):
        text = written(rng)
        read = read_text_calls(text)
        assert read.calls or read.problem, text
        if text.startswith(("<tool_call>", "```", "{")) and text.count("}") == text.count("{") and "Note" not in text:
            assert read.calls, text
