"""Where `envwright chat` reads its lines from: a terminal with history and completion, or any other stdin, line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from envwright.agent.visible import visible
from envwright.tools.registry import TOOLS
from envwright.training.chat_console import COMMANDS

if TYPE_CHECKING:
    from prompt_toolkit.history import History

__all__ = ["PROMPT", "line_reader"]

PROMPT = "you> "


def line_reader(write: Callable[[str], None]) -> Callable[[], str | None]:
    """Return what reads the next line; None at the end of the input.

    On a terminal prompt_toolkit edits the line, where it is installed. Elsewhere lines are read as they are and printed after
    the prompt, so that a recorded session shows both sides.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return lambda: _plain_line(write, echo=not sys.stdin.isatty())
    try:
        return _editing_reader()
    except ImportError:
        write("(no history and completion: pip install 'envwright[chat]' brings them)\n")
        return lambda: _plain_line(write, echo=False)


def _plain_line(write: Callable[[str], None], *, echo: bool) -> str | None:
    write(PROMPT)
    line = sys.stdin.readline()
    if echo or not line:
        write(visible(line.rstrip("\n")) + "\n")
    return line or None


def _editing_reader() -> Callable[[], str | None]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.output.color_depth import ColorDepth

    completer = WordCompleter([*COMMANDS, *(f"/tool {name}" for name in TOOLS)], sentence=True)
    depth = ColorDepth.DEPTH_1_BIT if "NO_COLOR" in os.environ else None
    session: PromptSession[str] = PromptSession(
        PROMPT, history=_history(), completer=completer, complete_while_typing=False, color_depth=depth
    )

    def read() -> str | None:
        while True:
            try:
                return session.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    return read


def _history() -> History:
    """The history file of the person, or none that lasts where it cannot be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "envwright" / "chat_history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
