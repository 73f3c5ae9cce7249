"""The tool loop with a scripted model."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from envwright.agent.engineers import ModelEngineer
from envwright.agent.events import Event, MessageAdded, Retried, SessionEnded, TextDelta, ToolFinished, ToolStarted
from envwright.agent.limits import Limits
from envwright.agent.loop import SessionResult, run_session
from envwright.agent.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from envwright.agent.models import Completion
from envwright.agent.scripted import ScriptedModel, call_message
from envwright.agent.stop import StopReason
from envwright.agent.transcript import RequestCost, SessionHeader, Transcript, read_transcript
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox

HEADER = SessionHeader(model="scripted", config_hash="0" * 16)
BREAKDOWN = ("failure_breakdown", {"by": ["size"]})


def play(evidence: Evidence, *steps: Any, limits: Limits | None = None, **options: Any) -> tuple[SessionResult, ScriptedModel]:
    model = ScriptedModel(steps)
    return run_session(model, Toolbox(evidence), [UserMessage(content="go")], header=HEADER, limits=limits, **options), model


def answers(result: SessionResult) -> list[dict[str, Any]]:
    return [json.loads(message.content) for message in result.messages if isinstance(message, ToolMessage)]


def test_an_accepted_proposal_ends_the_session(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    result, model = play(evidence, BREAKDOWN, ("propose_patch", patch_arguments))
    model.assert_consumed()
    assert result.stop_reason is StopReason.PATCH_ACCEPTED
    assert result.accepted is not None
    assert result.accepted.config.sizes["4"].wait_ratio == 0.5
    assert result.usage == Usage(requests=2, tool_calls=2)


def test_a_refused_proposal_goes_back_to_the_model_and_can_be_corrected(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    wrong = json.loads(json.dumps(patch_arguments))
    wrong["edits"][0]["path"] = "/sizes/11/wait_ratio"
    result, model = play(evidence, ("propose_patch", wrong), ("propose_patch", patch_arguments))
    model.assert_consumed()
    assert answers(result)[0]["accepted"] is False
    assert "3, 4, 5, 6" in answers(result)[0]["errors"][0]["message"]
    assert result.stop_reason is StopReason.PATCH_ACCEPTED


def test_a_misspelt_tool_is_answered_with_the_list_of_tools(evidence: Evidence) -> None:
    result, _ = play(evidence, ("failure_breakdwn", {"by": ["size"]}), "KEEP: enough")
    error = answers(result)[0]["error"]
    assert error["code"] == "unknown_tool"
    assert "failure_breakdown" in error["message"]
    assert "propose_patch" in error["message"]
    assert result.stop_reason is StopReason.KEPT


def test_words_alone_change_nothing_after_one_nudge(evidence: Evidence) -> None:
    result, model = play(evidence, "I updated the config.", "As I said, done.")
    model.assert_consumed()
    assert (result.stop_reason, result.accepted, result.note) == (StopReason.NO_PATCH, None, "As I said, done.")
    nudges = [message for message in result.messages if isinstance(message, UserMessage)][1:]
    assert len(nudges) == 1
    assert "propose_patch" in nudges[0].content
    assert "KEEP" in nudges[0].content


def test_a_nudged_model_can_go_on(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    result, model = play(evidence, "I updated the config.", ("propose_patch", patch_arguments))
    model.assert_consumed()
    assert result.stop_reason is StopReason.PATCH_ACCEPTED


@pytest.mark.parametrize("text", ["KEEP: all sizes are fine", "<think>change it? no</think>\n**KEEP** because", "KEEP"])
def test_keeping_is_said_with_one_word(evidence: Evidence, text: str) -> None:
    assert play(evidence, text)[0].stop_reason is StopReason.KEPT


def test_thinking_about_keeping_is_not_keeping(evidence: Evidence) -> None:
    assert play(evidence, "<think>\nKEEP</think> Hello", "I KEEP nothing")[0].stop_reason is StopReason.NO_PATCH


def test_in_a_conversation_with_a_person_a_plain_reply_is_the_answer(evidence: Evidence) -> None:
    result, model = play(evidence, "Mostly vertex conflicts.", nudges=0)
    model.assert_consumed()
    assert result.note == "Mostly vertex conflicts."


def test_the_request_limit_ends_the_session(evidence: Evidence) -> None:
    result, _ = play(evidence, BREAKDOWN, BREAKDOWN, BREAKDOWN, limits=Limits(request_limit=2))
    assert (result.stop_reason, result.usage.requests) == (StopReason.REQUEST_LIMIT, 2)


def test_the_tool_calls_limit_holds_within_one_message_and_every_call_is_answered(evidence: Evidence) -> None:
    result, _ = play(evidence, call_message(BREAKDOWN, BREAKDOWN, BREAKDOWN), limits=Limits(tool_calls_limit=2))
    assert (result.stop_reason, result.usage.tool_calls) == (StopReason.TOOL_CALLS_LIMIT, 2)
    assert [message.tool_call_id for message in result.messages if isinstance(message, ToolMessage)] == ["call_1", "call_2", "call_3"]


def test_calls_after_an_accepted_proposal_are_not_carried_out(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    result, _ = play(evidence, call_message(("propose_patch", patch_arguments), BREAKDOWN))
    assert (result.stop_reason, result.usage.tool_calls) == (StopReason.PATCH_ACCEPTED, 1)
    last = result.messages[-1]
    assert isinstance(last, ToolMessage)
    assert "not carried out" in last.content


class Chatterbox:
    """Calls a tool for ever, at a price."""

    name = "chatterbox"

    def complete(self, messages: Any, tools: Any) -> Completion:
        return Completion(call_message(BREAKDOWN, first_id=len(messages)), Usage(requests=1, prompt_tokens=600, completion_tokens=10))


def test_the_token_limit_ends_the_session(evidence: Evidence) -> None:
    result = run_session(Chatterbox(), Toolbox(evidence), [], header=HEADER, limits=Limits(total_tokens_limit=1_000))
    assert (result.stop_reason, result.usage.total_tokens) == (StopReason.TOTAL_TOKENS_LIMIT, 1_220)


def test_the_time_limit_ends_the_session(evidence: Evidence) -> None:
    ticks = count()
    result = run_session(Chatterbox(), Toolbox(evidence), [], header=HEADER, limits=Limits(seconds=5), clock=lambda: float(next(ticks)))
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert result.usage.requests < 5


def test_a_model_that_fails_ends_the_session_and_says_why(evidence: Evidence) -> None:
    result, _ = play(evidence, BREAKDOWN)
    assert result.stop_reason is StopReason.MODEL_ERROR
    assert "all 1 messages were played" in result.note


def test_a_tool_that_breaks_is_a_bug_and_not_an_answer(evidence: Evidence) -> None:
    class Broken(Toolbox):
        def call(self, name: str, arguments: Any) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_session(ScriptedModel([BREAKDOWN]), Broken(evidence), [], header=HEADER)


def test_a_session_goes_on_from_an_earlier_conversation(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    first, _ = play(evidence, BREAKDOWN, "Vertex conflicts.", nudges=0)
    model = ScriptedModel([("propose_patch", patch_arguments)])
    second = run_session(model, Toolbox(evidence), [*first.messages, UserMessage(content="then change it")], header=HEADER)
    assert second.stop_reason is StopReason.PATCH_ACCEPTED
    assert isinstance(model.seen[0][1], AssistantMessage)


def test_a_scripted_model_tells_when_steps_are_left(evidence: Evidence) -> None:
    _, model = play(evidence, "KEEP", "more")
    with pytest.raises(AssertionError, match="1 of 2"):
        model.assert_consumed()


def test_a_tool_that_errs_again_and_again_gets_a_last_hint_and_then_ends_the_session(evidence: Evidence) -> None:
    wrong = ("failure_breakdown", {"by": "size"})
    result, model = play(evidence, *[wrong] * 4, BREAKDOWN, limits=Limits(tool_retries=3))
    assert (result.stop_reason, model.left) == (StopReason.TOOL_RETRIES_LIMIT, 1)
    assert result.note == "failure_breakdown was called wrongly 4 times in a row"
    hints = [message.content for message in result.messages if isinstance(message, UserMessage)][1:]
    assert len(hints) == 1
    assert hints[0].endswith('one more error ends the session. A call that works has the arguments {"by":["size","wait_required"]}.')


def test_errors_count_per_tool_and_a_good_call_forgives_them(evidence: Evidence) -> None:
    wrong: tuple[str, dict[str, Any]] = ("failure_breakdown", {"by": "size"})
    other: tuple[str, dict[str, Any]] = ("nothing", {})
    steps = [wrong, other, wrong, BREAKDOWN, wrong, other, wrong, "KEEP: enough"]
    result, model = play(evidence, *steps, limits=Limits(tool_retries=2))
    assert result.stop_reason is StopReason.KEPT
    model.assert_consumed()


def test_tools_that_do_not_exist_count_together(evidence: Evidence) -> None:
    result, _ = play(evidence, *[(name, {}) for name in ("a", "b", "c", "d")], limits=Limits(tool_retries=3))
    assert result.stop_reason is StopReason.TOOL_RETRIES_LIMIT
    assert "The tools are failure_breakdown" in str(result.messages[-3].content)


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_events_tell_everything_in_order_and_the_end_once(evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    events: list[Event] = []
    result, _ = play(evidence, "I did it.", ("propose_patch", patch_arguments), on_event=events.append)
    assert kinds(events) == [
        "MessageAdded",
        "MessageAdded",
        "Retried",
        "MessageAdded",
        "MessageAdded",
        "ToolStarted",
        "ToolFinished",
        "MessageAdded",
        "SessionEnded",
    ]
    assert [event.message for event in events if isinstance(event, MessageAdded)] == list(result.messages)
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert finished.answer.id == "propose_patch#1"
    assert finished.seconds >= 0
    assert events[-1] == SessionEnded(StopReason.PATCH_ACCEPTED, result.note)
    assert Retried("the reply called no tool") in events


class Talker(ScriptedModel):
    """Streams its words."""

    def stream(self, messages: Any, tools: Any, on_text: Any) -> Completion:
        completion = self.complete(messages, tools)
        for word in str(completion.message.content).split(" "):
            on_text(word)
        return completion


def test_a_model_streams_when_somebody_listens(evidence: Evidence) -> None:
    events: list[Event] = []
    run_session(Talker(["KEEP all of it"]), Toolbox(evidence), [], header=HEADER, on_event=events.append)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["KEEP", "all", "of", "it"]


class Interrupted(ScriptedModel):
    """Is interrupted once its steps are played."""

    def complete(self, messages: Any, tools: Any) -> Completion:
        if not self.left:
            raise KeyboardInterrupt
        return super().complete(messages, tools)


def test_an_interruption_leaves_a_whole_transcript_and_no_patch(evidence: Evidence, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    result = run_session(Interrupted([BREAKDOWN]), Toolbox(evidence), [], header=HEADER, transcript=Transcript(path))
    assert (result.stop_reason, result.accepted) == (StopReason.CANCELLED, None)
    recording = read_transcript(path)
    assert (recording.end.stop_reason, recording.messages) == ("cancelled", result.messages)


def test_calls_that_an_interruption_leaves_open_are_answered(evidence: Evidence) -> None:
    def interrupt(event: Event) -> None:
        if isinstance(event, ToolStarted) and event.call.id == "call_2":
            raise KeyboardInterrupt

    result, _ = play(evidence, call_message(BREAKDOWN, BREAKDOWN, BREAKDOWN), on_event=interrupt)
    assert result.stop_reason is StopReason.CANCELLED
    told = [message for message in result.messages if isinstance(message, ToolMessage)]
    assert [message.tool_call_id for message in told] == ["call_1", "call_2", "call_3"]
    assert [message.content for message in told[1:]] == ["not carried out: cancelled"] * 2


def test_an_engineer_that_is_interrupted_raises_after_its_transcript_is_whole(evidence: Evidence, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        ModelEngineer(Interrupted([BREAKDOWN])).design(evidence, tmp_path / "t.jsonl")
    assert read_transcript(tmp_path / "t.jsonl").end.stop_reason == "cancelled"


class Remote(ScriptedModel):
    """Reports what its answers cost."""

    def complete(self, messages: Any, tools: Any) -> Completion:
        answer = super().complete(messages, tools)
        return Completion(answer.message, Usage(requests=1, prompt_tokens=100, completion_tokens=7), seconds=0.25)


def test_tokens_and_latency_of_each_request_are_recorded_where_the_model_reports_them(evidence: Evidence, tmp_path: Path) -> None:
    for name, model in (("remote", Remote([BREAKDOWN, "KEEP"])), ("local", ScriptedModel([BREAKDOWN, "KEEP"]))):
        run_session(model, Toolbox(evidence), [], header=HEADER, transcript=Transcript(tmp_path / name))
    end = read_transcript(tmp_path / "remote").end
    assert end.requests == (RequestCost(prompt_tokens=100, completion_tokens=7, seconds=0.25),) * 2
    assert (end.seconds, end.usage.total_tokens) == (0.5, 214)
    assert b"seconds" not in (tmp_path / "local").read_bytes().splitlines()[-1]


def test_half_a_surrogate_pair_from_a_model_does_not_break_the_transcript(evidence: Evidence, tmp_path: Path) -> None:
    result, _ = play(evidence, "KEEP \ud800 it", transcript=Transcript(tmp_path / "t.jsonl"))
    assert result.note == "KEEP ? it"
    assert read_transcript(tmp_path / "t.jsonl").assistant_messages[0].content == "KEEP ? it"


def test_results_are_trimmed_to_the_budget_by_whole_rows(evidence: Evidence) -> None:
    wide = ("failure_breakdown", {"by": ["size", "wait_required", "outcome"]})
    result, _ = play(evidence, wide, "KEEP", token_budget=300)
    (answer,) = answers(result)
    assert answer["dropped_rows"] > 0
    assert len(answer["rows"]) > 0
