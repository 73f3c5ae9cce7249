"""Any OpenAI-compatible endpoint as a chat model: vLLM, llama.cpp, Ollama, or a hosted service.

What the server takes is found out by asking it, and remembered: strict tools, usage in streams, and which dialect makes it
follow a JSON Schema. Tool calls written as text are read when the server returns none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from envwright.agent.messages import AssistantMessage, FunctionCall, Message, ToolCall, Usage, UserMessage
from envwright.agent.models import Completion
from envwright.agent.openai_client import OpenAIClient, RefusedRequestError, clean_text
from envwright.agent.openai_dialects import JSON_DIALECTS, json_options, json_request, strict_tools
from envwright.agent.openai_stream import Streamed, gathered
from envwright.agent.reply import assistant_reply, next_call_number
from envwright.agent.schema_check import NO_JSON, json_problem
from envwright.agent.text_gate import TextGate
from envwright.env.jsonio import dump_json

__all__ = ["OpenAIModel"]

_CHARACTERS_PER_TOKEN = 4
"""Rough, for servers that report no usage: the token limit must bound those too."""


class OpenAIModel:
    """A model behind a chat-completions endpoint.

    Args:
        model: name of the model on the server.
        base_url: where the server is; default `OPENAI_BASE_URL`, then OpenAI.
        api_key: default `OPENAI_API_KEY`; servers other than OpenAI may go without.
        temperature: passed on when given.
        max_tokens: bound on one reply, passed on when given.
        timeout: seconds per try.
        max_retries: tries after the first one.
        clock: seconds, to measure the time of a request.

    Raises:
        MissingExtraError: the SDK is not installed.
        UserError: no model name, a base URL that is none, or no key for OpenAI.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        timeout: float = 120.0,
        max_retries: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = OpenAIClient(model, base_url, api_key, timeout, max_retries)
        options = {"temperature": temperature, "max_tokens": max_tokens}
        self._options = {name: value for name, value in options.items() if value is not None}
        self._clock = clock
        self._takes: dict[str, str] = {}
        """What the server was found to take, per kind of request."""

    @property
    def name(self) -> str:
        """`openai:MODEL`."""
        return f"openai:{self._client.model}"

    def __repr__(self) -> str:
        """Name and place, never the key."""
        return f"OpenAIModel({self._client.model!r} at {self._client.url})"

    def check(self) -> None:
        """Ask the server for its models, to find out before a run that it is there and takes the key.

        A server that keeps no list passes.

        Raises:
            ModelError: it cannot be reached or refuses the key.
        """
        self._client.check()

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """Ask the server.

        Raises:
            ModelError: as the server said, in one line with the next step.
        """
        request, begun = self._request(messages), self._clock()
        response = self._probed("tools", request, _tool_variants(tools)) if tools else self._client.send(request)
        return self._completion(response, messages, request, begun)

    def stream(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], on_text: Callable[[str], None]) -> Completion:
        """Ask the server and show the text while it comes; see `complete`.

        A stream that breaks off keeps what came and calls nothing.
        """
        request, begun = self._request(messages), self._clock()
        variants = [
            (f"{name}{suffix}", {**extra, "stream": True, **usage})
            for suffix, usage in ((" with usage", {"stream_options": {"include_usage": True}}), ("", {}))
            for name, extra in (_tool_variants(tools) if tools else [("no tools", {})])
        ]
        chunks = self._probed("stream with tools" if tools else "stream", request, variants)
        reply = gathered(self._client.chunks(chunks), TextGate(on_text))
        if not reply.chunks:
            raise self._client.no_completion("an empty stream")
        message, problem = _read_stream(reply, messages)
        return Completion(message, _usage(reply.usage, request, message), problem, self._clock() - begun)

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Completion:
        """Ask for one JSON document that follows a schema, in the first dialect that the server takes and follows.

        Where no dialect works the schema is told in words, and an answer that breaks it may be mended once. What still breaks
        it comes back with its problem.

        Raises:
            ModelError: as the server said, in one line with the next step.
        """
        known, spent = self._takes.get("json"), Usage()
        seconds = 0.0
        for dialect in [known] if known else JSON_DIALECTS:
            asked = [*messages, UserMessage(content=json_request(schema))] if dialect == "plain" else list(messages)
            try:
                answer = self._json_answer(asked, schema, dialect)
            except RefusedRequestError:
                if known or dialect == JSON_DIALECTS[-1]:
                    raise
                continue
            spent, seconds = spent + answer.usage, seconds + (answer.seconds or 0.0)
            ignored = answer.problem is not None and answer.problem.startswith(NO_JSON)
            if not known and dialect != "plain" and ignored:
                continue
            self._takes["json"] = dialect
            if answer.problem is not None and dialect == "plain":
                repair = f"{answer.problem}. Answer again with one whole JSON object and nothing else."
                answer = self._json_answer([*asked, answer.message, UserMessage(content=repair)], schema, dialect)
                spent, seconds = spent + answer.usage, seconds + (answer.seconds or 0.0)
            return Completion(answer.message, spent, answer.problem, seconds)
        raise AssertionError("the last dialect returns or raises")

    def _json_answer(self, messages: Sequence[Message], schema: Mapping[str, Any], dialect: str) -> Completion:
        """Ask once in one dialect and check what comes."""
        request, begun = self._request(messages), self._clock()
        response = self._client.send({**request, **json_options(dialect, schema)})
        choice = self._choice(response)
        message = AssistantMessage(content=_content(choice.message) or "")
        cut = "the answer was cut at the server's token limit; answer more briefly" if choice.finish_reason == "length" else None
        problem = cut or json_problem(message.content or "", schema)
        return Completion(message, _usage(getattr(response, "usage", None), request, message), problem, self._clock() - begun)

    def _request(self, messages: Sequence[Message]) -> dict[str, Any]:
        return {"messages": [message.to_json() for message in messages], **self._options}

    def _probed(self, kind: str, request: dict[str, Any], variants: Iterable[tuple[str, dict[str, Any]]]) -> Any:
        """Send a request in the first variant that the server takes, and remember which."""
        known = self._takes.get(kind)
        refused: RefusedRequestError | None = None
        for name, extra in variants:
            if known not in (None, name):
                continue
            try:
                response = self._client.send({**request, **extra})
            except RefusedRequestError as error:
                refused = error
                continue
            self._takes[kind] = name
            return response
        assert refused is not None, "there is a variant"
        raise refused

    def _completion(self, response: Any, messages: Sequence[Message], request: dict[str, Any], begun: float) -> Completion:
        seconds = self._clock() - begun
        choice = self._choice(response)
        message, problem = _read(choice, messages)
        return Completion(message, _usage(getattr(response, "usage", None), request, message), problem, seconds)

    def _choice(self, response: Any) -> Any:
        choices = getattr(response, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise self._client.no_completion(response)
        return choices[0]


def _tool_variants(tools: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [("strict", {"tools": strict_tools(tools)}), ("as they are", {"tools": list(tools)})]


def _read(choice: Any, messages: Sequence[Message]) -> tuple[AssistantMessage, str | None]:
    """Read the message of a choice, and why a call in it could not be read."""
    content = _content(choice.message)
    given = [call for call in choice.message.tool_calls or [] if getattr(call, "function", None) is not None]
    if not given:
        return assistant_reply(content or "", messages, cut=choice.finish_reason == "length")
    functions = [FunctionCall(name=clean_text(call.function.name or ""), arguments=_arguments(call)) for call in given]
    return _called(content, functions, [call.id for call in given], messages), None


def _read_stream(reply: Streamed, messages: Sequence[Message]) -> tuple[AssistantMessage, str | None]:
    """Read a reply that was streamed; one that broke off calls nothing."""
    content = clean_text(reply.content)
    if reply.broken is not None:
        return AssistantMessage(content=content), reply.broken
    if not reply.calls:
        return assistant_reply(content, messages, cut=reply.finish_reason == "length")
    functions = [FunctionCall(name=clean_text(call.name), arguments=clean_text(call.arguments) or "{}") for call in reply.calls]
    return _called(content, functions, [call.id for call in reply.calls], messages), None


def _called(
    content: str | None, functions: Sequence[FunctionCall], ids: Sequence[str | None], messages: Sequence[Message]
) -> AssistantMessage:
    first = next_call_number(messages)
    calls = tuple(
        ToolCall(id=given or f"call_{first + index}", function=function)
        for index, (given, function) in enumerate(zip(ids, functions, strict=True))
    )
    return AssistantMessage(content=content or None, tool_calls=calls)


def _content(message: Any) -> str | None:
    return clean_text(message.content) if isinstance(message.content, str) else None


def _arguments(call: Any) -> str:
    """Return the argument text; some servers send the object itself, or nothing for no arguments."""
    arguments = call.function.arguments
    return clean_text(arguments) if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)


def _usage(usage: Any, request: dict[str, Any], message: AssistantMessage) -> Usage:
    """Return the server's token counts, or a rough estimate when it gives none."""
    prompt, completion = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    if not isinstance(prompt, int) or not isinstance(completion, int) or min(prompt, completion) < 0:
        prompt = len(dump_json(request["messages"])) // _CHARACTERS_PER_TOKEN
        completion = len(dump_json(message.to_json())) // _CHARACTERS_PER_TOKEN
    return Usage(requests=1, prompt_tokens=prompt, completion_tokens=completion)
