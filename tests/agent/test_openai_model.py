"""`openai:MODEL` against a real HTTP server on the loopback."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envwright.agent.engineers import ModelEngineer, make_engineer
from envwright.agent.events import Event
from envwright.agent.messages import AssistantMessage, UserMessage
from envwright.agent.models import ModelError
from envwright.agent.openai_model import OpenAIModel
from envwright.agent.rule import RuleModel
from envwright.agent.scripted import call_message
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.env.errors import MissingExtraError, UserError
from envwright.tools.evidence import Evidence
from envwright.tools.registry import tool_specs
from tests.agent.openai_server import Server, chunk, reply, running, streamed

KEY = "sk-secret-0123456789"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with running() as started:
        yield started


def ask(server: Server, **options: Any) -> Any:
    return OpenAIModel("m", base_url=server.url, **options).complete([UserMessage(content="hi")], [])


def test_a_server_that_calls_tools_redesigns_the_config(
    server: Server, evidence: Evidence, patch_arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    patch_arguments["edits"][0]["value"] = 0.3
    server.answers = [reply("Look first.", [("failure_breakdown", {"by": ["size"]})]), reply(None, [("propose_patch", patch_arguments)])]
    redesign = make_engineer("openai:m").design(evidence, tmp_path / "t.jsonl")
    assert redesign.stop_reason is StopReason.PATCH_ACCEPTED
    assert redesign.config.sizes["4"].wait_ratio == 0.3
    assert (redesign.usage.prompt_tokens, redesign.usage.completion_tokens) == (200, 14)
    assert {tool["function"]["name"] for tool in server.requests[0]["tools"]} >= {"failure_breakdown", "propose_patch"}
    roles = [message["role"] for message in server.requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert server.requests[1]["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"by": ["size"]}'
    assert server.keys[0] == f"Bearer {KEY}"
    recording = read_transcript(tmp_path / "t.jsonl")
    assert recording.end.seconds is not None
    assert recording.header.model == "openai:m"
    assert KEY not in (tmp_path / "t.jsonl").read_text(encoding="utf-8")


def test_calls_written_as_text_are_carried_out(server: Server, evidence: Evidence, patch_arguments: dict[str, Any]) -> None:
    patch_arguments["edits"][0]["value"] = 0.3
    call = json.dumps({"name": "propose_patch", "arguments": patch_arguments})
    server.answers = [
        reply('<think>hm</think><tool_call>{"name": "env_sta'),
        reply('<tool_call>{"name": "failure_breakdown", "arguments": {"by": ["size"]}}</tool_call>'),
        reply(f"<tool_call>\n{call}\n</tool_call>"),
    ]
    redesign = make_engineer("openai:m", base_url=server.url).design(evidence)
    assert redesign.stop_reason is StopReason.PATCH_ACCEPTED
    assert "could not be read" in server.requests[1]["messages"][-1]["content"]
    assert server.requests[2]["messages"][-2]["tool_calls"][0]["id"] == "call_1"


def test_a_reply_cut_at_the_token_limit_is_told_so(server: Server) -> None:
    server.answers = [reply("I will now", finish="length")]
    assert "cut" in ask(server).problem


def test_busy_and_broken_servers_are_tried_again(server: Server) -> None:
    server.answers = [(429, {"error": {"message": "slow down"}}), (503, {"error": {"message": "loading"}}), reply("KEEP")]
    assert ask(server).message.content == "KEEP"
    assert len(server.requests) == 3


def test_tries_are_bounded(server: Server) -> None:
    server.answers = [(500, {"error": {"message": "broken\nbadly"}})] * 9
    with pytest.raises(ModelError, match=r"HTTP 500.*broken badly"):
        ask(server, max_retries=1)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}), "OPENAI_API_KEY"),
        ((404, {"error": {"message": "The model `m` does not exist"}}), "/v1/models"),
        ((400, {"error": {"message": f"bad {KEY}"}}), "HTTP 400"),
        ((200, "<html>hello</html>"), "OPENAI_BASE_URL"),
        ((200, {"choices": []}), "no chat completion"),
        ((200, {"error": {"message": "overloaded"}}), "no chat completion"),
    ],
)
def test_failures_are_one_line_with_the_next_step_and_without_the_key(server: Server, answer: tuple[int, Any], words: str) -> None:
    server.answers = [answer]
    with pytest.raises(ModelError) as caught:
        ask(server, api_key=KEY, max_retries=0)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


def test_an_unreachable_server_is_named(server: Server) -> None:
    url = server.url
    server.shutdown()
    server.server_close()
    model = OpenAIModel("m", base_url=url, max_retries=0)
    for attempt in (lambda: model.complete([UserMessage(content="hi")], []), model.check):
        with pytest.raises(ModelError, match="cannot be reached; start the server there"):
            attempt()


def test_a_session_on_a_failing_server_keeps_the_config(server: Server, evidence: Evidence) -> None:
    server.answers = [reply(None, [("failure_breakdown", {"by": ["size"]})]), (401, {"error": {"message": "expired"}})]
    redesign = make_engineer("openai:m", base_url=server.url).design(evidence)
    assert (redesign.stop_reason, redesign.patch, redesign.config) == (StopReason.MODEL_ERROR, None, evidence.config)
    assert "refuses the key" in redesign.note


@pytest.mark.parametrize("answer", [(200, {"object": "list", "data": []}), (404, {"error": {}}), (405, {"error": {}})])
def test_the_check_passes_on_servers_with_or_without_a_model_list(server: Server, answer: tuple[int, Any]) -> None:
    server.answers = [answer]
    OpenAIModel("m", base_url=server.url, max_retries=0).check()


@pytest.mark.parametrize(
    ("answer", "words"), [((401, {"error": {"message": "no"}}), "refuses the key"), ((200, "<html>"), "no OpenAI-compatible API")]
)
def test_the_check_fails_on_a_refused_key_and_on_a_web_page(server: Server, answer: tuple[int, Any], words: str) -> None:
    server.answers = [answer]
    with pytest.raises(ModelError, match=words):
        OpenAIModel("m", base_url=server.url, max_retries=0).check()


def test_without_usage_tokens_are_estimated(server: Server) -> None:
    status, body = reply("KEEP")
    del body["usage"]
    server.answers = [(status, body)]
    assert ask(server).usage.total_tokens > 0


def test_arguments_sent_as_an_object_are_read(server: Server) -> None:
    status, body = reply(None, [("env_stats", {})])
    body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = {"stage": 0}
    server.answers = [(status, body)]
    assert ask(server).message.tool_calls[0].function.arguments == '{"stage": 0}'


def test_a_missing_sdk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match="pip install"):
        OpenAIModel("m", base_url="http://localhost:1/v1")


def test_hosted_openai_needs_a_key(server: Server) -> None:
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        OpenAIModel("gpt-x")


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", "http://[::1"])
def test_a_base_url_that_is_none_is_refused(server: Server, url: str) -> None:
    with pytest.raises(UserError, match="base URL"):
        OpenAIModel("m", base_url=url)


def test_the_representation_hides_key_and_credentials(server: Server) -> None:
    shown = repr(OpenAIModel("m", base_url="http://me:pass@localhost:8000/v1?k=1", api_key=KEY))
    assert shown == "OpenAIModel('m' at http://localhost:8000/v1)"


def stream(server: Server, tools: list[dict[str, Any]] | None = None, **options: Any) -> tuple[Any, list[str]]:
    pieces: list[str] = []
    model = OpenAIModel("m", base_url=server.url, **options)
    return model.stream([UserMessage(content="hi")], tools or [], pieces.append), pieces


def test_the_rule_model_behind_a_server_gives_the_same_patch_streamed_or_not(server: Server, evidence: Evidence) -> None:
    expected = make_engineer("rule").design(evidence)
    seen: list[Event] = []
    for listener in (None, seen.append):
        server.model = RuleModel()
        engineer = make_engineer("openai:m", base_url=server.url)
        assert isinstance(engineer, ModelEngineer)
        engineer.on_event, engineer.token_budget = listener, None
        redesign = engineer.design(evidence)
        assert (redesign.patch, redesign.stop_reason) == (expected.patch, StopReason.PATCH_ACCEPTED)
    assert server.requests[-1]["stream"] is True
    assert "stream" not in server.requests[0]


def test_streamed_text_arrives_in_pieces_that_join_to_the_content(server: Server) -> None:
    server.answers = [streamed(AssistantMessage(content="KEEP: the frontier is here \x1b[31mred\x1b[0m \u00e9"))]
    completion, pieces = stream(server)
    assert "".join(pieces) == completion.message.content == "KEEP: the frontier is here \x1b[31mred\x1b[0m \u00e9"
    assert len(pieces) > 3
    assert completion.usage.prompt_tokens == 100


def test_streamed_tool_calls_are_put_together_in_order(server: Server, patch_arguments: dict[str, Any]) -> None:
    message = call_message(("env_stats", {}), ("propose_patch", patch_arguments), content="both")
    server.answers = [streamed(message, pieces=3)]
    completion, pieces = stream(server, tool_specs())
    assert completion.message == message
    assert "".join(pieces) == "both"


def test_a_call_streamed_as_text_is_read_and_not_shown(server: Server) -> None:
    server.answers = [streamed(AssistantMessage(content='Look: <tool_call>{"name": "env_stats", "arguments": {}}</tool_call>'))]
    completion, pieces = stream(server, tool_specs())
    assert [call.function.name for call in completion.message.tool_calls] == ["env_stats"]
    assert "".join(pieces) == "Look: "


@pytest.mark.parametrize("tail", [[None], []])
def test_a_stream_that_breaks_off_calls_nothing_and_says_so(server: Server, tail: list[Any]) -> None:
    head = {"index": 0, "id": "a", "type": "function", "function": {"name": "propose_patch", "arguments": '{"summary"'}}
    server.answers = [(200, [chunk(content="I "), chunk(tool_calls=[head]), *tail])]
    completion, _ = stream(server, tool_specs(), max_retries=0)
    assert completion.message == AssistantMessage(content="I ")
    assert completion.problem is not None


def test_a_stream_that_is_broken_from_the_start_is_an_error(server: Server) -> None:
    server.answers = [(200, [None])]
    with pytest.raises(ModelError) as caught:
        stream(server, max_retries=0)
    assert "\n" not in str(caught.value)


def test_busy_servers_are_tried_again_before_a_stream(server: Server) -> None:
    server.answers = [(429, {"error": {"message": "slow down"}}), streamed(AssistantMessage(content="KEEP"))]
    assert stream(server)[0].message.content == "KEEP"


def test_strict_tools_are_tried_first_and_left_where_the_server_refuses_them(server: Server) -> None:
    def refuse(request: dict[str, Any]) -> tuple[int, Any] | None:
        strict = any(tool["function"].get("strict") for tool in request.get("tools", []))
        return (400, {"error": {"message": "strict is not supported"}}) if strict else None

    server.refuse, server.answers = refuse, [reply("KEEP"), reply("KEEP")]
    model = OpenAIModel("m", base_url=server.url, max_retries=0)
    for _ in range(2):
        assert model.complete([UserMessage(content="hi")], tool_specs()).message.content == "KEEP"
    assert [bool(request["tools"][0]["function"].get("strict")) for request in server.requests] == [True, False, False]


def test_strict_tools_require_every_argument_and_take_no_other(server: Server) -> None:
    server.answers = [reply("KEEP")]
    OpenAIModel("m", base_url=server.url).complete([UserMessage(content="hi")], tool_specs())

    def objects(schema: Any) -> Iterator[dict[str, Any]]:
        if isinstance(schema, dict):
            if isinstance(schema.get("properties"), dict):
                yield schema
            for value in schema.values():
                yield from objects(value)
        elif isinstance(schema, list):
            for value in schema:
                yield from objects(value)

    found = [part for tool in server.requests[0]["tools"] for part in objects(tool["function"]["parameters"])]
    assert len(found) >= 5
    assert all(part["required"] == list(part["properties"]) and part["additionalProperties"] is False for part in found)


def test_an_error_that_is_no_refusal_of_strict_tools_is_reported_and_nothing_is_remembered(server: Server) -> None:
    server.answers = [(400, {"error": {"message": "maximum context length exceeded"}})] * 2 + [reply("KEEP")]
    model = OpenAIModel("m", base_url=server.url, max_retries=0)
    with pytest.raises(ModelError, match="longer than the model's context"):
        model.complete([UserMessage(content="hi")], tool_specs())
    model.complete([UserMessage(content="hi")], tool_specs())
    assert server.requests[-1]["tools"][0]["function"]["strict"] is True


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}, "required": ["n"], "additionalProperties": False}


def formats(server: Server) -> list[str | None]:
    return [request.get("response_format", {}).get("type") for request in server.requests]


@pytest.mark.parametrize(
    ("refused", "status", "used"),
    [((), 400, "json_schema"), (("json_schema",), 500, "json_object"), (("json_schema", "json_object"), 400, None)],
)
def test_the_dialect_of_json_answers_is_probed_once(server: Server, refused: tuple[str, ...], status: int, used: str | None) -> None:
    def refuse(request: dict[str, Any]) -> tuple[int, Any] | None:
        kind = request.get("response_format", {}).get("type")
        return (status, {"error": {"message": f"{kind} is not supported"}}) if kind in refused else None

    server.refuse, server.answers = refuse, [reply('{"n": 1}'), reply('{"n": 2}')]
    model = OpenAIModel("m", base_url=server.url, max_retries=0)
    for number in (1, 2):
        answer = model.complete_json([UserMessage(content="hi")], SCHEMA)
        assert (answer.message.content, answer.problem) == (f'{{"n": {number}}}', None)
    assert formats(server) == [*refused, used, used]
    assert ("JSON Schema" in server.requests[-1]["messages"][-1]["content"]) == (used is None)


def test_a_server_that_ignores_the_format_in_silence_is_asked_in_words_and_repaired_once(server: Server) -> None:
    server.answers = [reply("Sure!"), reply("Of course."), reply("n is 7"), reply('Here: {"n": 4}. Note [1].')]
    answer = OpenAIModel("m", base_url=server.url).complete_json([UserMessage(content="hi")], SCHEMA)
    assert answer.problem is None
    assert (formats(server), answer.usage.requests) == (["json_schema", "json_object", None, None], 4)
    assert "no JSON object" in server.requests[-1]["messages"][-1]["content"]


@pytest.mark.parametrize(("text", "words"), [('{"n": 9}', "maximum"), ('{"n": NaN}', "NaN"), ('{"n": 1, "n": 2}', "repeated")])
def test_an_answer_that_breaks_the_schema_comes_back_with_its_problem(server: Server, text: str, words: str) -> None:
    server.answers = [reply(text)]
    answer = OpenAIModel("m", base_url=server.url).complete_json([UserMessage(content="hi")], SCHEMA)
    assert answer.message.content == text
    assert words in (answer.problem or "")


def test_terminal_escapes_in_a_reply_stay_data_in_the_transcript(server: Server, evidence: Evidence, tmp_path: Path) -> None:
    server.answers = [reply("KEEP: \x1b]0;owned\x07 \x1b[2J \x9b31m done")]
    make_engineer("openai:m", base_url=server.url).design(evidence, tmp_path / "t.jsonl")
    text = (tmp_path / "t.jsonl").read_text(encoding="utf-8")
    assert not {"\x1b", "\x07", "\x9b"} & set(text)
    assert "\\u001b[2J" in text
    assert read_transcript(tmp_path / "t.jsonl").assistant_messages[0].content == "KEEP: \x1b]0;owned\x07 \x1b[2J \x9b31m done"


def test_a_servers_error_is_shown_without_its_control_characters(server: Server) -> None:
    server.answers = [(400, {"error": {"message": "no \x1b[31m way"}})]
    with pytest.raises(ModelError) as caught:
        ask(server, max_retries=0)
    assert str(caught.value).isprintable()
