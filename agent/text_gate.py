"""Shows a reply while it grows: the words, not the tool calls."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["TextGate"]

_CALL = "<tool_call>"
_HALF_CHARACTER = "\ufffd"


class TextGate:
    """Hands on the pieces of a text up to its first tool call.

    The end of what was given is held back while it may be the beginning of a call or half a character, so joined pieces are
    the text before the first call.

    Args:
        on_text: given each piece.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._text = ""
        self._shown = 0

    def show(self, text: str) -> None:
        """Take the whole text so far."""
        self._text = text
        call = text.find(_CALL)
        end = call if call >= 0 else len(text) - self._held_back(text)
        self._emit(end)

    def add(self, piece: str) -> None:
        """Take one more piece."""
        self.show(self._text + piece)

    def finish(self) -> None:
        """Say that the text is whole: what was held back is shown unless it is a call."""
        call = self._text.find(_CALL)
        self._emit(call if call >= 0 else len(self._text))

    def _emit(self, end: int) -> None:
        if end > self._shown:
            self._on_text(self._text[self._shown : end])
            self._shown = end

    @staticmethod
    def _held_back(text: str) -> int:
        """Characters at the end that may belong to a tag or to a character that is not whole yet."""
        for length in range(min(len(_CALL) - 1, len(text)), 0, -1):
            if text.endswith(_CALL[:length]):
                return length
        return len(text) - len(text.rstrip(_HALF_CHARACTER))
