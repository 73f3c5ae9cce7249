"""The tool loop with a scripted model."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from envwright.agent.limits import Limits
from envwright.agent.loop import SessionResult, run_session
from envwright.agent.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from envwright.agent.models import Completion
from envwright.agent.scripted import ScriptedModel, call_message
from envwright.agent.stop import StopReason
from envwright.agent.transcript import SessionHeader
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
