"""Any OpenAI-compatible endpoint as a chat model: vLLM, llama.cpp, Ollama, or a hosted service.

The `openai` SDK is imported when a model is made, not before. It retries 408, 409, 429, 5xx and broken connections with
exponential backoff (0.5 s to 8 s, `Retry-After` honoured), `max_retries` times. The key appears in no message.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from envwright.agent.messages import AssistantMessage, FunctionCall, Message, ToolCall, Usage
from envwright.agent.models import Completion, ModelError
from envwright.agent.tool_text import read_text_calls
from envwright.env.errors import MissingExtraError, UserError
from envwright.env.jsonio import dump_json

if TYPE_CHECKING:
    import openai

__all__ = ["OpenAIModel"]

_HOSTED = "https://api.openai.com/v1"
_PLACEHOLDER_KEY = "none"
_ADDRESS_HINT = "set OPENAI_BASE_URL to the address of the API (it mostly ends in /v1)"
_KEEPS_NO_LIST = (400, 404, 405, 501)
"""Answers of servers that complete chats and know no model list."""
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
        if not model:
            raise UserError("openai: names no model; write openai:MODEL, for instance openai:Qwen/Qwen3-4B")
        try:
            import openai
        except ImportError:
            raise MissingExtraError("openai", "openai", "the engineer openai:MODEL") from None
        self._sdk = openai
        self._model = model
        url = base_url or os.environ.get("OPENAI_BASE_URL") or _HOSTED
        self._url = _shown_url(url)
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or self._placeholder(url)
        options = {"temperature": temperature, "max_tokens": max_tokens}
        self._options = {name: value for name, value in options.items() if value is not None}
        self._clock = clock
        self._client = openai.OpenAI(base_url=url, api_key=self._key, timeout=timeout, max_retries=max_retries)

    @property
    def name(self) -> str:
        """`openai:MODEL`."""
        return f"openai:{self._model}"

    def __repr__(self) -> str:
        """Name and place, never the key."""
        return f"OpenAIModel({self._model!r} at {self._url})"

    def check(self) -> None:
        """Ask the server for its models, to find out before a run that it is there and takes the key.

        A server that keeps no list passes.

        Raises:
            ModelError: it cannot be reached or refuses the key.
        """
        try:
            answer = self._client.get("/models", cast_to=object)
        except self._sdk.APIStatusError as error:
            if error.status_code in _KEEPS_NO_LIST:
                return
            raise self._explained(error) from None
        except self._sdk.OpenAIError as error:
            raise self._explained(error) from None
        except ValueError:
            answer = None
        if not isinstance(answer, dict | list):
            raise ModelError(f"{self._url} is no OpenAI-compatible API: {self._url}/models gives no JSON; {_ADDRESS_HINT}")

    def complete(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Completion:
        """Ask the server; tool calls written as text are read when it returns none.

        Raises:
            ModelError: as the server said, in one line with the next step.
        """
        request: dict[str, Any] = {"model": self._model, "messages": [message.to_json() for message in messages], **self._options}
        if tools:
            request["tools"] = list(tools)
        begun = self._clock()
        try:
            response = self._client.chat.completions.create(**request)
        except self._sdk.OpenAIError as error:
            raise self._explained(error) from None
        except ValueError as error:
            raise ModelError(f"{self._url} answered with something that cannot be read: {self._one_line(str(error))}") from None
        seconds = self._clock() - begun
        choices = getattr(response, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise ModelError(
                f"{self._url} answered with something that is no chat completion: {self._one_line(str(response))}; {_ADDRESS_HINT}"
            )
        message, problem = self._read(choices[0], first_id=1 + sum(len(m.tool_calls) for m in messages if isinstance(m, AssistantMessage)))
        return Completion(message, _usage(response, request, message), problem, seconds)

    def _read(self, choice: Any, first_id: int) -> tuple[AssistantMessage, str | None]:
        """Read the message of a choice, and why a call in it could not be read."""
        content = _clean(choice.message.content) if isinstance(choice.message.content, str) else None
        given = [call for call in choice.message.tool_calls or [] if getattr(call, "function", None) is not None]
        if given:
            calls = tuple(
                ToolCall(
                    id=call.id or f"call_{first_id + index}",
                    function=FunctionCall(name=_clean(call.function.name or ""), arguments=_arguments(call)),
                )
                for index, call in enumerate(given)
            )
            return AssistantMessage(content=content or None, tool_calls=calls), None
        read = read_text_calls(content or "")
        if read.calls:
            calls = tuple(ToolCall(id=f"call_{first_id + index}", function=function) for index, function in enumerate(read.calls))
            return AssistantMessage(content=read.rest, tool_calls=calls), None
        cut = (
            "the reply was cut at the server's token limit before a tool call; answer more briefly"
            if choice.finish_reason == "length"
            else None
        )
        return AssistantMessage(content=content or ""), read.problem or cut

    def _placeholder(self, url: str) -> str:
        """Return the key for a server that needs none.

        Raises:
            UserError: the server is OpenAI's, which needs one.
        """
        if urlsplit(url).hostname == urlsplit(_HOSTED).hostname:
            raise UserError(
                "openai: no key: set OPENAI_API_KEY, or set OPENAI_BASE_URL to the address of a server of your own (http://localhost:8000/v1)"
            )
        return _PLACEHOLDER_KEY

    def _explained(self, error: openai.OpenAIError) -> ModelError:
        """Turn the SDK's error into one line that says what to do."""
        sdk, where = self._sdk, self._url
        if isinstance(error, sdk.APITimeoutError):
            return ModelError(f"{where} did not answer in time; is the server overloaded, or the model too large for it?")
        if isinstance(error, sdk.APIConnectionError):
            return ModelError(f"{where} cannot be reached; start the server there, or set OPENAI_BASE_URL to where it is")
        if isinstance(error, sdk.AuthenticationError | sdk.PermissionDeniedError):
            return ModelError(f"{where} refuses the key (HTTP {error.status_code}); set OPENAI_API_KEY to one that may use {self._model!r}")
        if isinstance(error, sdk.NotFoundError):
            hint = f"ask {where}/models for the names it serves; the base URL mostly ends in /v1"
            return ModelError(f"{where} has no model {self._model!r} (HTTP 404: {self._one_line(error.message)}); {hint}")
        if isinstance(error, sdk.RateLimitError):
            return ModelError(f"{where} has no room for the request (HTTP 429: {self._one_line(error.message)}); wait, or raise the quota")
        if isinstance(error, sdk.APIStatusError):
            return ModelError(f"{where} failed (HTTP {error.status_code}: {self._one_line(error.message)}); see the server's log")
        return ModelError(f"{where}: {self._one_line(str(error))}")

    def _one_line(self, text: str) -> str:
        """Return a server's words without the key, on one line, shortened."""
        line = " ".join(_clean(text).split())
        if self._key != _PLACEHOLDER_KEY:
            line = line.replace(self._key, "***")
        return line if len(line) <= 200 else line[:197] + "..."


def _arguments(call: Any) -> str:
    """Return the argument text; some servers send the object itself, or nothing for no arguments."""
    arguments = call.function.arguments
    return _clean(arguments) if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)


def _clean(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _usage(response: Any, request: dict[str, Any], message: AssistantMessage) -> Usage:
    """Return the server's token counts, or a rough estimate when it gives none."""
    usage = getattr(response, "usage", None)
    prompt, completion = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    if not isinstance(prompt, int) or not isinstance(completion, int) or min(prompt, completion) < 0:
        prompt = len(dump_json(request["messages"])) // _CHARACTERS_PER_TOKEN
        completion = len(dump_json(message.to_json())) // _CHARACTERS_PER_TOKEN
    return Usage(requests=1, prompt_tokens=prompt, completion_tokens=completion)


def _shown_url(url: str) -> str:
    """Return a base URL as messages may show it: without user, password and query.

    Raises:
        UserError: it is no http(s) URL.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https"):
        raise UserError("openai: the base URL must begin with http:// or https:// and name a host, like http://localhost:8000/v1")
    name = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, name if port is None else f"{name}:{port}", parts.path.rstrip("/"), "", ""))
