"""The connection to an OpenAI-compatible server: address, key, retries, and errors in one line.

The `openai` SDK is imported when a client is made, not before. It retries 408, 409, 429, 5xx and broken connections with
exponential backoff (0.5 s to 8 s, `Retry-After` honoured), `max_retries` times. The key appears in no message.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from envwright.agent.models import ModelError
from envwright.env.errors import MissingExtraError, UserError

if TYPE_CHECKING:
    import openai

__all__ = ["OpenAIClient", "RefusedRequestError", "clean_text"]

_HOSTED = "https://api.openai.com/v1"
_PLACEHOLDER_KEY = "none"
_ADDRESS_HINT = "set OPENAI_BASE_URL to the address of the API (it mostly ends in /v1)"
_KEEPS_NO_LIST = (400, 404, 405, 501)
"""Answers of servers that complete chats and know no model list."""
_REFUSES_REQUEST = (400, 415, 422, 500, 501)
"""Answers of servers to an option that they do not take; llama.cpp's says 500."""


class RefusedRequestError(ModelError):
    """The server refused the request itself, perhaps for an option in it."""


class OpenAIClient:
    """Sends requests to one server.

    Args:
        model: name of the model on the server.
        base_url: where the server is; default `OPENAI_BASE_URL`, then OpenAI.
        api_key: default `OPENAI_API_KEY`; servers other than OpenAI may go without.
        timeout: seconds per try.
        max_retries: tries after the first one.

    Raises:
        MissingExtraError: the SDK is not installed.
        UserError: no model name, a base URL that is none, or no key for OpenAI.
    """

    def __init__(self, model: str, base_url: str | None, api_key: str | None, timeout: float, max_retries: int) -> None:
        if not model:
            raise UserError("openai: names no model; write openai:MODEL, for instance openai:Qwen/Qwen3-4B")
        try:
            import openai
        except ImportError:
            raise MissingExtraError("openai", "openai", "the engineer openai:MODEL") from None
        self._sdk, self.model = openai, model
        url = base_url or os.environ.get("OPENAI_BASE_URL") or _HOSTED
        self.url = _shown_url(url)
        """The address as messages may show it."""
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or _placeholder(url)
        self._client = openai.OpenAI(base_url=url, api_key=self._key, timeout=timeout, max_retries=max_retries)

    def check(self) -> None:
        """Ask the server for its models; a server that keeps no list passes.

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
            raise ModelError(f"{self.url} is no OpenAI-compatible API: {self.url}/models gives no JSON; {_ADDRESS_HINT}")

    def send(self, request: dict[str, Any]) -> Any:
        """Ask for a chat completion; with `stream` in the request an iterator over its chunks comes back.

        Raises:
            RefusedRequestError: the server refuses the request itself.
            ModelError: as the server said, in one line with the next step.
        """
        try:
            return self._client.chat.completions.create(model=self.model, **request)
        except self._sdk.OpenAIError as error:
            raise self._explained(error) from None
        except ValueError as error:
            raise ModelError(f"{self.url} answered with something that cannot be read: {self.one_line(str(error))}") from None

    def chunks(self, stream: Any) -> Iterator[Any]:
        """Yield the chunks of a stream.

        Raises:
            ModelError: the connection broke, or the server reported an error in the middle.
        """
        try:
            with stream:
                yield from stream
        except self._sdk.OpenAIError as error:
            raise self._explained(error) from None
        except (_transport_error(), ValueError) as error:
            raise ModelError(f"{self.url} broke off in the middle of a reply ({self.one_line(str(error))}); see the server's log") from None

    def no_completion(self, response: Any) -> ModelError:
        """Return the error for an answer that is no chat completion."""
        return ModelError(f"{self.url} answered with something that is no chat completion: {self.one_line(str(response))}; {_ADDRESS_HINT}")

    def one_line(self, text: str) -> str:
        """Return a server's words without the key, on one line, without control characters, shortened."""
        line = " ".join("".join(char if char.isprintable() else " " for char in clean_text(text)).split())
        if self._key != _PLACEHOLDER_KEY:
            line = line.replace(self._key, "***")
        return line if len(line) <= 200 else line[:197] + "..."

    def _explained(self, error: openai.OpenAIError) -> ModelError:
        """Turn the SDK's error into one line that says what to do."""
        sdk, where = self._sdk, self.url
        if isinstance(error, sdk.APITimeoutError):
            return ModelError(f"{where} did not answer in time; is the server overloaded, or the model too large for it?")
        if isinstance(error, sdk.APIConnectionError):
            return ModelError(f"{where} cannot be reached; start the server there, or set OPENAI_BASE_URL to where it is")
        if isinstance(error, sdk.AuthenticationError | sdk.PermissionDeniedError):
            return ModelError(f"{where} refuses the key (HTTP {error.status_code}); set OPENAI_API_KEY to one that may use {self.model!r}")
        if isinstance(error, sdk.NotFoundError):
            hint = f"ask {where}/models for the names it serves; the base URL mostly ends in /v1"
            return ModelError(f"{where} has no model {self.model!r} (HTTP 404: {self.one_line(error.message)}); {hint}")
        if isinstance(error, sdk.RateLimitError):
            return ModelError(f"{where} has no room for the request (HTTP 429: {self.one_line(error.message)}); wait, or raise the quota")
        if isinstance(error, sdk.APIStatusError):
            kind = RefusedRequestError if error.status_code in _REFUSES_REQUEST else ModelError
            return kind(f"{where} failed (HTTP {error.status_code}: {self.one_line(error.message)}); {_next_step(error)}")
        return ModelError(f"{where}: {self.one_line(str(error))}")


def clean_text(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _next_step(error: openai.APIStatusError) -> str:
    """Say what to do about a refusal; servers spell a context that is too long in many ways."""
    words = f"{error.code or ''} {error.message}".lower()
    if "context" in words and any(word in words for word in ("length", "maximum", "exceed", "too long", "size")):
        return "the conversation is longer than the model's context: take a model with a longer one, or a smaller context variant"
    return "see the server's log"


def _placeholder(url: str) -> str:
    """Return the key for a server that needs none.

    Raises:
        UserError: the server is OpenAI's, which needs one.
    """
    if urlsplit(url).hostname == urlsplit(_HOSTED).hostname:
        raise UserError(
            "openai: no key: set OPENAI_API_KEY, or set OPENAI_BASE_URL to the address of a server of your own (http://localhost:8000/v1)"
        )
    return _PLACEHOLDER_KEY


def _transport_error() -> type[Exception]:
    """Return the base error of the SDK's HTTP library, which its streams let through."""
    try:
        import httpx2 as transport
    except ImportError:
        import httpx as transport  # type: ignore[no-redef, import-not-found, unused-ignore]  # SDKs before 3 use it
    error: type[Exception] = transport.HTTPError
    return error


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
