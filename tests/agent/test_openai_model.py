"""`openai:MODEL` against a real HTTP server on the loopback."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from envwright.agent.engineers import make_engineer
from envwright.agent.messages import UserMessage
from envwright.agent.models import ModelError
from envwright.agent.openai_model import OpenAIModel
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.env.errors import MissingExtraError, UserError
from envwright.tools.evidence import Evidence

KEY = "sk-secret-0123456789"


class Server(ThreadingHTTPServer):
    """Plays `(status, body)` answers and keeps the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.server.keys.append(self.headers["authorization"])
        self._answer(*(self.server.answers.pop(0) if self.server.answers else (404, {"error": {"message": "nothing left"}})))

    def do_GET(self) -> None:
        self._answer(*(self.server.answers.pop(0) if self.server.answers else (200, {"object": "list", "data": []})))

    def _answer(self, status: int, body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("content-type", "text/html" if isinstance(body, str) else "application/json")
        self.send_header("retry-after-ms", "1")
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


def reply(content: str | None = None, calls: list[tuple[str, Any]] | None = None, finish: str = "stop") -> tuple[int, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"id": f"server_{index}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for index, (name, arguments) in enumerate(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    return 200, {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


def ask(server: Server, **options: Any) -> Any:
    return OpenAIModel("m", base_url=server.url, **options).complete([UserMessage(content="hi")], [])


def test_a_server_that_calls_tools_redesigns_the_config(
    server: Server, evidence: Evidence, patch_arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.answers = [reply("Look first.", [("failure_breakdown", {"by": ["size"]})]), reply(None, [("propose_patch", patch_arguments)])]
    redesign = make_engineer("openai:m").design(evidence, tmp_path / "t.jsonl")
    assert redesign.stop_reason is StopReason.PATCH_ACCEPTED
    assert redesign.config.sizes["4"].wait_ratio == 0.5
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
