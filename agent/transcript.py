"""Transcripts: one session in a JSON Lines file, written as it goes.

First a line of type `session` (model, seed, settings), then one message a line in OpenAI's shape, last a line of type
`result` (why it ended, the patch, what it cost). A file without its last line was cut off. Wall-clock times are written only
for models that report them, so the transcript of a reproducible model is the same to the byte.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

from pydantic import Field

from envwright.agent.guardrails import GuardRails
from envwright.agent.messages import AssistantMessage, Message, Usage, parse_message
from envwright.agent.work_settings import Engineering
from envwright.env.base import FrozenModel
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, parse_json, read_text
from envwright.env.patch import Patch

__all__ = ["Recording", "RequestCost", "SessionEnd", "SessionHeader", "Transcript", "config_hash", "read_transcript"]


_UNSEEN = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""What JSON may hold as it is and a terminal would act on, or not show: control characters above ASCII, marks of direction.

They can only stand inside JSON strings, where their escapes mean the same; the control characters of ASCII are escaped anyway.
"""


def config_hash(config: GeneratorConfig) -> str:
    """Return the first 16 hex digits of the SHA-256 of the config's JSON."""
    return hashlib.sha256(dump_json(config.to_json()).encode("utf-8")).hexdigest()[:16]


class SessionHeader(FrozenModel):
    """First line of a transcript."""

    type: Literal["session"] = "session"
    """Kind of line."""
    schema_version: Literal[1] = 1
    """Version of the file format."""
    model: str
    """Who plays the engineer."""
    seed: int = 0
    """Seed of the evidence."""
    stage: int = Field(default=0, ge=0)
    """Latest stage of the evidence."""
    config_hash: str
    """Hash of the config that the session began with."""
    engineering: Engineering = "agent"
    """How the engineer works: with tools, or by one constrained answer."""
    context: str | None = None
    """Context modules of the first messages, such as "V6"; None where the first messages were made otherwise."""
    guard_rails: GuardRails | None = None
    """Bounds on patches; None for none."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data, without settings that are not set."""
        data = self.model_dump(mode="json")
        return {key: value for key, value in data.items() if value is not None}


class RequestCost(FrozenModel):
    """What one request took."""

    prompt_tokens: int = Field(default=0, ge=0)
    """Tokens read by the model."""
    completion_tokens: int = Field(default=0, ge=0)
    """Tokens written by the model."""
    seconds: float | None = None
    """Time that the model took."""


class SessionEnd(FrozenModel):
    """Last line of a transcript."""

    type: Literal["result"] = "result"
    """Kind of line."""
    stop_reason: str
    """Why the session ended."""
    note: str = ""
    """The reason in words."""
    patch: Patch | None = None
    """The accepted patch."""
    usage: Usage = Usage()
    """What the session used."""
    rejections: tuple[str, ...] = ()
    """Reasons of the patches that passed every check and were not approved, in order; absent when there are none."""
    requests: tuple[RequestCost, ...] = ()
    """Each request in order; absent for models that report neither tokens nor time."""
    seconds: float | None = None
    """Time that the model took over all requests; absent for reproducible models."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data, without `rejections`, `requests` and `seconds` when there are none."""
        data = self.model_dump(mode="json")
        data["requests"] = [{key: value for key, value in cost.items() if value is not None} for cost in data["requests"]]
        return {key: value for key, value in data.items() if value or key not in ("rejections", "requests", "seconds")}


class Transcript:
    """Collects a session's lines, and writes each at once when it has a file.

    Args:
        path: file to write; None keeps the lines in memory only.

    Raises:
        UserError: the file cannot be written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.lines: list[str] = []
        """The lines so far, without their newlines."""
        self._file: TextIO | None = None
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("w", encoding="utf-8", newline="\n")
            except OSError as error:
                raise UserError(f"{path}: the transcript cannot be written: {error.strerror}") from None

    def add(self, record: Message | SessionHeader | SessionEnd) -> None:
        """Add one line; the result line closes the file."""
        line = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", dump_json(record.to_json()))
        self.lines.append(line)
        if self._file is None:
            return
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            raise UserError(f"{self.path}: the transcript cannot be written: {error.strerror}") from None
        if isinstance(record, SessionEnd):
            self.close()

    def close(self) -> None:
        """Close the file; harmless when there is none."""
        if self._file is not None:
            self._file.close()
            self._file = None


@dataclass(frozen=True, slots=True)
class Recording:
    """A transcript that was read back."""

    path: Path
    """Where it came from."""
    header: SessionHeader
    """Its first line."""
    messages: tuple[Message, ...]
    """The conversation."""
    end: SessionEnd
    """Its last line."""

    @property
    def assistant_messages(self) -> tuple[AssistantMessage, ...]:
        """What the model said."""
        return tuple(message for message in self.messages if isinstance(message, AssistantMessage))


def read_transcript(path: Path) -> Recording:
    """Read a whole transcript.

    Raises:
        UserError: the file is missing, a line is bad, or the session was cut off before its result line.
    """
    lines = [(f"{path} line {number}", line) for number, line in enumerate(read_text(path).split("\n"), start=1) if line.strip()]
    if not lines:
        raise UserError(f"{path}: the transcript is empty; record one with `envwright run` or `envwright redesign`")
    cut = UserError(f"{path}: the transcript is cut off after line {len(lines)}: its last line is not a result; record the session again")
    raws = []
    for index, (place, line) in enumerate(lines):
        try:
            raws.append(parse_json(line, place))
        except UserError:
            if index == len(lines) - 1:
                raise cut from None
            raise
    if not isinstance(raws[-1], dict) or raws[-1].get("type") != "result":
        raise cut
    if not isinstance(raws[0], dict) or raws[0].get("type") != "session":
        raise UserError(f"{lines[0][0]}: a transcript begins with a line of type 'session'; is this a transcript of envwright?")
    messages = tuple(parse_message(raw, place) for raw, (place, _) in zip(raws[1:-1], lines[1:-1], strict=True))
    return Recording(path, SessionHeader.parse(raws[0], lines[0][0]), messages, SessionEnd.parse(raws[-1], lines[-1][0]))
