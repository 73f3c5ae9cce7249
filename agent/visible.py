"""Text of a model, made safe to print: control characters and terminal escapes are shown, never carried out."""

from __future__ import annotations

__all__ = ["visible"]


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return the text with everything that does not print written as its escape.

    Args:
        text: what a model, or anybody, wrote.
        lines: keep line breaks and tabs; without it they become `\n` and `\t` and the text stays on one line.
    """
    kept = "\n\t" if lines else ""
    return "".join(char if char.isprintable() or char in kept else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return ascii(char)[1:-1]
