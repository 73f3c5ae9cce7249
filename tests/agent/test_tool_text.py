"""Tool calls written as text."""

from __future__ import annotations

import json

import pytest

from envwright.agent.tool_text import read_text_calls


def read(text: str) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in read_text_calls(text).calls]


ONE = '{"name": "env_stats", "arguments": {"stage": 1}}'
TWO = '{"name": "sample_maps", "arguments": {"n": 2}}'
BOTH = [("env_stats", {"stage": 1}), ("sample_maps", {"n": 2})]


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{ONE}\n</tool_call>\n<tool_call>{TWO}</tool_call>",
        f"<tool_call>{ONE}\n{TWO}</tool_call>",
        f"<tool_call>[{ONE}, {TWO}]</tool_call>",
        f"I look.\n```json\n{ONE}\n```\nand\n```\n{TWO}\n```",
        f"```json\n[{ONE},{TWO}]\n```",
        f"```json\n{ONE}\n{TWO}\n```",
        f"[{ONE}, {TWO}]",
        f"<think>maybe <tool_call>{TWO}</tool_call></think><tool_call>{ONE}</tool_call><tool_call>{TWO}",
        f"maybe {TWO}</think><tool_call>{ONE}</tool_call> then <tool_call>{TWO}</tool_call>",
    ],
)
def test_two_calls_come_out_in_order(text: str) -> None:
    assert read(text) == BOTH


def test_tags_and_braces_inside_strings_do_not_count() -> None:
    arguments = {"summary": 'a } brace, a </tool_call> tag, a \\" quote and ``` a fence', "edits": [{"a": {"b": 1}}]}
    call = json.dumps({"name": "propose_patch", "arguments": arguments})
    for text in (f"<tool_call>{call}</tool_call>", f"```json\n{call}\n```", call):
        assert read(text) == [("propose_patch", arguments)]


def test_arguments_as_a_json_string_are_kept_at_one_level_of_encoding() -> None:
    text = json.dumps({"name": "env_stats", "arguments": json.dumps({"stage": 1})})
    assert read(f"<tool_call>{text}</tool_call>") == [("env_stats", {"stage": 1})]


@pytest.mark.parametrize(
    "text",
    [
        "I updated the config.",
        f"<think>I could write <tool_call>{ONE}</tool_call></think> The config is fine.",
        f"<think>never ends <tool_call>{ONE}</tool_call>",
        '```json\n{"summary": "a patch", "edits": []}\n```',
        '```python\nprint("hi")\n```',
        "a { b",
        "```",
        "",
    ],
)
def test_other_text_holds_no_call_and_no_problem(text: str) -> None:
    found = read_text_calls(text)
    assert (found.calls, found.problem) == ((), None)


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ('{"name": "env_stats", "arguments": {"stage": 1}', "not whole"),
        ('{"name": "env_stats", "name": "x"}', "repeated"),
        ('{"arguments": {}}', "must hold"),
        ("", "empty"),
        ("env_stats(1)", "not whole"),
        ('{"name": "propose_patch", "arguments": {"value": NaN}}', "NaN"),
    ],
)
def test_a_block_that_cannot_be_read_is_a_clear_problem_and_no_half_of_the_message_acts(block: str, words: str) -> None:
    found = read_text_calls(f"<tool_call>{ONE}</tool_call><tool_call>{block}</tool_call>")
    assert found.calls == ()
    assert found.problem is not None
    assert words in found.problem


def test_text_around_calls_is_kept_without_the_thinking() -> None:
    assert read_text_calls(f"<think>hm</think>First the stats. <tool_call>{ONE}</tool_call>").rest == "First the stats."
