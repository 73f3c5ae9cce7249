"""An OpenAI-compatible server on the loopback: it plays given answers, or lets a chat model of envwright answer, streamed or not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from envwright.agent.messages import AssistantMessage, parse_message
from envwright.agent.models import ChatModel

Answer = tuple[int, Any]
"""HTTP status and body: JSON data, a text, or a list of stream chunks."""


class Server(ThreadingHTTPServer):
    """Plays `(status, body)` answers and keeps the requests; a rule may refuse a request first, and a model answers what is left."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.refuse: Callable[[dict[str, Any]], Answer | None] = lambda _request: None
        self.model: ChatModel | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, request: dict[str, Any]) -> Answer:
        refused = self.refuse(request)
        if refused is not None:
            return refused
        if self.answers:
            return self.answers.pop(0)
        if self.model is None:
            return 404, {"error": {"message": "nothing left"}}
        messages = [parse_message(raw, "request") for raw in request["messages"]]
        message = self.model.complete(messages, request.get("tools", [])).message
        return streamed(message) if request.get("stream") else completion(message)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(request)
        self.server.keys.append(self.headers["authorization"])
        self._answer(*self.server.answer(request))

    def do_GET(self) -> None:
        self._answer(*(self.server.answers.pop(0) if self.server.answers else (200, {"object": "list", "data": []})))

    def _answer(self, status: int, body: Any) -> None:
        if isinstance(body, list):
            self._stream(body)
            return
        text = body if isinstance(body, str) else json.dumps(body)
        self.send_response(status)
        self.send_header("content-type", "text/html" if isinstance(body, str) else "application/json")
        self.send_header("retry-after-ms", "1")
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _stream(self, chunks: list[Any]) -> None:
        """Send server-sent events; a chunk that is None breaks the connection off."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        if None in chunks:
            self.send_header("content-length", "1000000")
        self.end_headers()
        for chunk in chunks:
            if chunk is None:
                return
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def running() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}


def completion(message: AssistantMessage, finish: str = "stop") -> Answer:
    choice = {"index": 0, "message": message.to_json(), "finish_reason": finish}
    return 200, {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": USAGE}


def reply(content: str | None = None, calls: list[tuple[str, Any]] | None = None, finish: str = "stop") -> Answer:
    status, body = completion(AssistantMessage(content=content), finish)
    if calls:
        body["choices"][0]["message"]["tool_calls"] = [
            {"id": f"server_{index}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for index, (name, arguments) in enumerate(calls)
        ]
    return status, body


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}


def streamed(message: AssistantMessage, pieces: int = 7) -> Answer:
    """Text and arguments in pieces of a few characters, as servers send them."""
    chunks = [chunk(role="assistant", content="")]
    text = message.content or ""
    chunks += [chunk(content=text[at : at + pieces]) for at in range(0, len(text), pieces)]
    for index, call in enumerate(message.tool_calls):
        head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": ""}}
        chunks.append(chunk(tool_calls=[head]))
        arguments = call.function.arguments
        for at in range(0, len(arguments), pieces):
            chunks.append(chunk(tool_calls=[{"index": index, "function": {"arguments": arguments[at : at + pieces]}}]))
    chunks.append(chunk(finish="tool_calls" if message.tool_calls else "stop"))
    return 200, [*chunks, {**chunk(), "choices": [], "usage": USAGE}]
