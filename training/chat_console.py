"""The lines of `envwright chat`: what a person types, carried out; what happens, printed. Knows of no terminal but its width."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

from envwright.agent.chat import Chat
from envwright.agent.chat_view import StreamWrap, config_lines, folded, patch_lines, unfolded
from envwright.agent.events import Event, MessageAdded, Retried, SessionEnded, TextDelta, ToolFinished
from envwright.agent.messages import AssistantMessage
from envwright.agent.stop import StopReason
from envwright.agent.visible import visible
from envwright.env.chat import strip_thinking
from envwright.env.errors import UserError
from envwright.env.patch import PatchCheck
from envwright.env.pictures.text import TextStyle
from envwright.tools.registry import TOOLS

__all__ = ["COMMANDS", "ChatConsole"]

COMMANDS = {
    "/propose": "ask for a patch",
    "/diff": "the proposed patch, its reasons and warnings",
    "/approve": "approve the proposed patch; /approve FILE writes it there",
    "/reject": "/reject REASON: refuse it; the engineer is told why",
    "/config": "the current config, and with a proposed patch the next one",
    "/tools": "the engineer's tools, and the calls so far",
    "/tool": "/tool NAME [JSON]: call a tool yourself; the engineer is not told",
    "/expand": "/expand N: call N in full, boards drawn (without N: the last)",
    "/save": "/save FILE: write the conversation",
    "/load": "/load FILE: go on with a saved conversation",
    "/help": "this list",
    "/quit": "end (also Ctrl-D)",
}
"""Commands and what they do; anything else is said to the engineer."""

_QUIET = (StopReason.NO_PATCH, StopReason.KEPT, StopReason.PATCH_ACCEPTED)
_CHANGING = ("", "/propose", "/reject", "/approve", "/load")
"""Commands after which the conversation may be another; "" stands for words to the engineer."""
_FAINT, _STRONG = "2", "1"


class ChatConsole:
    """Carries out lines and prints what happens.

    Args:
        chat: the conversation.
        style: how boards are drawn, and how wide lines are.
        write: prints text as it is.
        approve: writes an approved patch to a file, or None for where it belongs; returns what to tell the person.
        record: called after every line that may have changed the conversation.
    """

    def __init__(
        self,
        chat: Chat,
        style: TextStyle,
        write: Callable[[str], None],
        approve: Callable[[PatchCheck, Path | None], str],
        record: Callable[[], None],
    ) -> None:
        self.chat, self.style, self.write, self.approve, self.record = chat, style, write, approve, record
        self.failed = False
        """Whether a line could not be carried out."""
        self._stream: StreamWrap | None = None
        chat.on_event = self.on_event

    def handle(self, line: str) -> bool:
        """Carry out a line; returns False when it ends the conversation."""
        line = line.strip()
        if not line:
            return True
        if line in ("/quit", "/exit"):
            self._leave()
            return False
        try:
            self._carry_out(line)
        except UserError as error:
            self._fail(str(error))
        return True

    def _carry_out(self, line: str) -> None:
        command, _, rest = line.partition(" ") if line.startswith("/") else ("", "", "")
        if command and command not in COMMANDS:
            raise UserError(f"no command {command}; /help lists them")
        before = self.chat.pending
        if command:
            getattr(self, f"_{command[1:]}")(rest.strip())
        else:
            self.chat.say(line)
        if self.chat.pending is not None and self.chat.pending is not before:
            self.line()
            self._announce()
        if command in _CHANGING:
            self.record()

    def on_event(self, event: Event) -> None:
        """Print what happens in the engineer's turn."""
        match event:
            case TextDelta(text):
                self._stream = self._stream or StreamWrap(self.style.width)
                self.write(self._stream.feed(text))
            case MessageAdded(AssistantMessage() as message):
                self._said(message)
            case ToolFinished():
                self.line(self.style.paint(folded(self.chat.calls[-1], self.style.width), _FAINT))
            case Retried(reason):
                self.lines(f"(asked again: {visible(reason)})")
            case SessionEnded(reason, note):
                self._ended(reason, note)
            case _:
                pass

    def _said(self, message: AssistantMessage) -> None:
        if self._stream is not None:
            self.write(self._stream.end())
            self._stream = None
        elif message.content and not (message.tool_calls and not strip_thinking(message.content)):
            wrapped = StreamWrap(self.style.width)
            self.write(wrapped.feed(message.content.strip()) + wrapped.end())

    def _ended(self, reason: StopReason, note: str) -> None:
        if self._stream is not None:
            self.write(self._stream.end())
            self._stream = None
        if reason is StopReason.CANCELLED:
            self.lines(f"({note})")
        elif reason not in _QUIET:
            self._fail(f"{reason}: {note}")

    def _announce(self) -> None:
        """Show the pending patch and what can be done with it."""
        if self.chat.pending is None:
            raise UserError("no patch is pending; ask the engineer to propose one")
        self.line(self.style.paint("proposed patch, not applied:", _STRONG))
        for text in patch_lines(self.chat.pending, self.style.width):
            self.line(text)
        self.line("/approve takes it, /reject REASON refuses it, /config shows what it leads to")

    def line(self, text: str = "") -> None:
        """Print a line."""
        self.write(text + "\n")

    def lines(self, text: str) -> None:
        """Print a text in lines of the width; a path stays whole."""
        for part in textwrap.wrap(text, self.style.width, break_on_hyphens=False, break_long_words=False) or [""]:
            self.line(part)

    def _fail(self, text: str) -> None:
        self.failed = True
        self.lines(f"error: {visible(text)}")

    def _leave(self) -> None:
        if self.chat.pending is not None:
            self.line("the proposed patch was not approved; nothing is applied")

    def _propose(self, _rest: str) -> None:
        self.chat.say("Look at the evidence and propose a patch.")

    def _diff(self, _rest: str) -> None:
        self._announce()

    def _approve(self, rest: str) -> None:
        if self.chat.pending is None:
            raise UserError("no patch is pending; ask the engineer to propose one")
        told = self.approve(self.chat.pending, Path(rest) if rest else None)
        self.chat.approve()
        self.lines(f"approved: {told}")

    def _reject(self, rest: str) -> None:
        self.chat.reject(rest)

    def _config(self, _rest: str) -> None:
        for text in config_lines(self.chat.evidence.config):
            self.line(text)
        if self.chat.pending is not None:
            self.line("\nwith the proposed patch:")
            for text in config_lines(self.chat.pending.config):
                self.line(text)

    def _tools(self, _rest: str) -> None:
        for tool in TOOLS.values():
            self.line(tool.name)
            for part in textwrap.wrap(tool.description, self.style.width - 4):
                self.line(f"    {part}")
        for call in self.chat.calls:
            self.line(folded(call, self.style.width))

    def _tool(self, rest: str) -> None:
        name, _, arguments = rest.partition(" ")
        if not name:
            raise UserError('name a tool: /tool sample_maps {"n": 1}; /tools lists them')
        call = self.chat.call(name, arguments.strip() or "{}")
        self.line(self.style.paint(folded(call, self.style.width), _FAINT))
        if self.chat.pending is None or name != "propose_patch":
            self._show(call.number)

    def _expand(self, rest: str) -> None:
        count = len(self.chat.calls)
        if not count:
            raise UserError("no tool was called yet")
        number = int(rest) if rest.isascii() and rest.isdigit() else None if rest else count
        if number is None or not 1 <= number <= count:
            raise UserError(f"/expand takes the number of a call, 1 to {count}, got {rest!r}")
        self._show(number)

    def _show(self, number: int) -> None:
        for text in unfolded(self.chat.calls[number - 1], self.chat.evidence, self.style):
            self.line(text)

    def _save(self, rest: str) -> None:
        if not rest:
            raise UserError("name a file: /save FILE")
        self.chat.save(Path(rest))
        self.lines(f"the conversation is in {rest}")

    def _load(self, rest: str) -> None:
        if not rest:
            raise UserError("name a file: /load FILE")
        self.chat.load(Path(rest))
        self.lines(f"{len(self.chat.messages)} messages and {len(self.chat.calls)} tool calls taken up from {rest}")

    def _help(self, _rest: str) -> None:
        for name, text in COMMANDS.items():
            self.line(f"  {name:<10} {text}")
        self.line("anything else is said to the engineer; Ctrl-C interrupts its answer")
