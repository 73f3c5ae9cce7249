"""A conversation with an engineer: what is pending, what is applied, what the model is told, what a person sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.agent.chat import REJECTION, Chat
from envwright.agent.chat_rule import ChattingRule
from envwright.agent.chat_view import StreamWrap, folded, patch_lines, unfolded
from envwright.agent.events import Event, MessageAdded, TextDelta, ToolFinished
from envwright.agent.guardrails import GuardRails
from envwright.agent.messages import AssistantMessage, Message, UserMessage
from envwright.agent.models import Completion
from envwright.agent.scripted import ScriptedModel
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.agent.work_settings import WorkSettings
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json
from envwright.env.patch import read_patch
from envwright.env.pictures.text import PLAIN
from envwright.tools.evidence import Evidence
from tests.agent.evidence_maker import make_config, make_evidence


def proposal(patch: dict[str, Any], value: float) -> tuple[str, dict[str, Any]]:
    edits = [{**edit, "value": value} for edit in patch["edits"]]
    return "propose_patch", {**patch, "edits": edits}


def test_words_are_an_answer_and_change_nothing(evidence: Evidence) -> None:
    chat = Chat(ScriptedModel(["6x6 fails most: 45 of 120 valid.", "Yes."]), evidence)
    assert chat.say("where does it fail?").stop_reason is StopReason.NO_PATCH
    chat.say("are you sure?")
    assert [message.content for message in chat.messages[2:]] == [
        "where does it fail?", "6x6 fails most: 45 of 120 valid.", "are you sure?", "Yes.",
    ]  # fmt: skip
    assert chat.pending is None
    with pytest.raises(UserError, match="no patch is pending"):
        chat.approve()


def test_a_proposal_is_pending_until_it_is_approved(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    chat = Chat(ScriptedModel([proposal(patch_arguments, 0.3)]), evidence)
    chat.say("propose")
    assert chat.pending is not None
    assert (chat.approved, chat.evidence.config) == (None, evidence.config)
    approved = chat.approve()
    assert chat.pending is None
    assert approved.config.sizes["4"].wait_ratio == 0.3
    assert isinstance(chat.messages[-1], UserMessage)
    assert chat.messages[-1].content.startswith("I approve")


def test_the_reason_of_a_rejection_goes_back_to_the_model_which_may_propose_again(
    evidence: Evidence, patch_arguments: dict[str, Any]
) -> None:
    model = ScriptedModel([proposal(patch_arguments, 0.3), proposal(patch_arguments, 0.2)])
    chat = Chat(model, evidence)
    chat.say("propose")
    chat.reject("half as much")
    model.assert_consumed()
    assert model.seen[1][-1] == UserMessage(content=f"{REJECTION}half as much")
    assert chat.pending is not None
    assert chat.approve().config.sizes["4"].wait_ratio == 0.2


def test_a_rejection_without_a_reason_leaves_the_patch_pending(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    chat = Chat(ScriptedModel([proposal(patch_arguments, 0.3)]), evidence)
    chat.say("propose")
    with pytest.raises(UserError, match="needs a reason"):
        chat.reject("  ")
    assert chat.pending is not None


def test_guard_rails_hold_in_a_conversation_and_for_the_persons_own_patches(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    far = proposal(patch_arguments, 1.0)
    narrow = WorkSettings(guard_rails=GuardRails(bounds="refuse"))
    chat = Chat(ScriptedModel([far, "it was refused"]), evidence, work=narrow)
    chat.say("propose something bold")
    own = chat.call(far[0], dump_json(far[1]))
    assert chat.pending is None
    assert own.answer.content is not None
    assert [error["code"] for error in own.answer.content["errors"]] == ["step_too_large"]


def test_a_saved_conversation_is_gone_on_with_its_calls_and_its_pending_patch(
    evidence: Evidence, patch_arguments: dict[str, Any], tmp_path: Path
) -> None:
    looks = ("failure_breakdown", {"by": ["size"]})
    chat = Chat(ScriptedModel([looks, proposal(patch_arguments, 0.3), looks, proposal(patch_arguments, 0.2)]), evidence)
    chat.say("propose")
    chat.reject("less")
    chat.save(tmp_path / "chat.jsonl")
    again = Chat(ScriptedModel(["here I am"]), evidence)
    again.load(tmp_path / "chat.jsonl")
    assert again.messages == chat.messages
    assert [call.answer for call in again.calls] == [call.answer for call in chat.calls]
    assert [call.answer.id for call in again.calls] == ["failure_breakdown#1", "propose_patch#1", "failure_breakdown#2", "propose_patch#2"]
    assert again.pending == chat.pending
    again.approve()
    again.save(tmp_path / "approved.jsonl")
    assert read_transcript(tmp_path / "approved.jsonl").end.patch == chat.pending.patch if chat.pending else False
    third = Chat(ScriptedModel([]), evidence)
    third.load(tmp_path / "approved.jsonl")
    assert (third.pending, third.approved and third.approved.config) == (None, again.approved and again.approved.config)


def test_a_conversation_about_another_config_is_not_taken_up(evidence: Evidence, tmp_path: Path) -> None:
    Chat(ScriptedModel([]), make_evidence({"3": (1, 2)}, config=make_config([3]))).save(tmp_path / "chat.jsonl")
    chat = Chat(ScriptedModel([]), evidence)
    before = chat.messages
    with pytest.raises(UserError, match="is about another config"):
        chat.load(tmp_path / "chat.jsonl")
    assert chat.messages == before


class Interrupted(ScriptedModel):
    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        raise KeyboardInterrupt


def test_an_interrupted_answer_leaves_a_conversation_that_goes_on(evidence: Evidence) -> None:
    chat = Chat(Interrupted([]), evidence)
    assert chat.say("think hard").stop_reason is StopReason.CANCELLED
    chat.model = ScriptedModel(["done"])
    chat.say("go on")
    assert [message.content for message in chat.messages[2:]] == ["think hard", "go on", "done"]


class Streaming(ScriptedModel):
    def stream(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], on_text: Callable[[str], None]) -> Completion:
        completion = self.complete(messages, tools)
        for char in completion.message.content or "":
            on_text(char)
        return completion


def test_a_listener_gets_the_text_as_it_arrives_and_no_message_twice(evidence: Evidence) -> None:
    events: list[Event] = []
    chat = Chat(Streaming([("failure_breakdown", {"by": []}), "one", "two"]), evidence, on_event=events.append)
    chat.say("first")
    chat.say("second")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "onetwo"
    said = [event.message for event in events if isinstance(event, MessageAdded)]
    assert [message.content for message in said if isinstance(message, AssistantMessage)] == [None, "one", "two"]
    assert sum(isinstance(event, ToolFinished) for event in events) == 1


def test_the_rule_says_what_it_can_do_and_proposes_when_it_is_asked(evidence: Evidence) -> None:
    chat = Chat(ChattingRule(), evidence)
    assert "not a language model" in chat.say("why does 6x6 fail?").note
    assert chat.say("please propose a patch").stop_reason is StopReason.PATCH_ACCEPTED
    first = chat.pending
    assert first is not None
    assert "not a language model" in chat.reject("propose smaller steps").note
    assert chat.pending is None
    chat.say("propose")
    assert chat.pending is not None
    assert [change.after for change in chat.pending.diff] == [change.after for change in first.diff]
    ids = [call.id for message in chat.messages if isinstance(message, AssistantMessage) for call in message.tool_calls]
    assert len(set(ids)) == len(ids) == len(chat.calls)


def test_a_patch_by_somebody_else_can_be_approved(evidence: Evidence, patch_arguments: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "patch.json").write_text(dump_json({"schema_version": 1, **proposal(patch_arguments, 0.3)[1]}), encoding="utf-8")
    chat = Chat(ChattingRule(), evidence)
    assert chat.offer(read_patch(tmp_path / "patch.json"), "mcp").accepted
    assert chat.proposer == "mcp"
    assert chat.approve().config.sizes["4"].wait_ratio == 0.3


HOSTILE = "\x1b[31mred\x07\x9b2J\u202eback"


def test_what_a_model_writes_is_shown_and_never_carried_out(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    name, arguments = proposal(patch_arguments, 0.3)
    arguments = {"summary": HOSTILE, "edits": [{**edit, "reason": HOSTILE, "evidence": [HOSTILE]} for edit in arguments["edits"]]}
    chat = Chat(ScriptedModel([(HOSTILE, {HOSTILE: HOSTILE}), (name, arguments), "ok"]), evidence)
    chat.say("propose")
    assert chat.pending is not None
    shown = [*patch_lines(chat.pending)]
    for call in chat.calls:
        shown += [folded(call), *unfolded(call, chat.evidence, PLAIN)]
    assert all(line.isprintable() for line in shown)
    assert any("\\x1b[31mred" in line for line in shown)


@given(st.text(alphabet=st.sampled_from("ab \n\té\x1b\x00"), max_size=120), st.integers(5, 30), st.integers(1, 7))
def test_streamed_text_keeps_its_words_in_lines_of_the_width(text: str, width: int, piece: int) -> None:
    wrap = StreamWrap(width)
    shown = "".join(wrap.feed(text[start : start + piece]) for start in range(0, len(text), piece)) + wrap.end()
    whole = StreamWrap(width)
    assert shown == whole.feed(text) + whole.end()
    assert "".join(shown.split()) == "".join(text.replace("\x1b", "\\x1b").replace("\x00", "\\x00").split())
    assert all(len(line) <= width and (line.isprintable()) for line in shown.split("\n"))


def test_a_folded_call_fits_on_a_line_of_80_columns(evidence: Evidence) -> None:
    chat = Chat(ScriptedModel([]), evidence)
    calls = [
        chat.call("failure_breakdown", dump_json({"by": ["size", "num_agents", "wait_required", "outcome", "hole_ratio"]})),
        chat.call("sample_maps", '{"n": 1, "size": 99}'),
        chat.call("no_tool_of_this_name_" * 5, "{" * 300),
    ]
    assert all(len(folded(call)) <= 80 for call in calls)
    assert folded(calls[0]).endswith("groups of 480 completions")
