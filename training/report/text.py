"""Numbers in words: how rates, intervals and differences are written, on the page and beside it."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["apart", "interval", "number", "on_terminal", "percent", "plain", "points", "points_interval", "seconds", "size_name"]

_NOTHING = "–"
_SPACE = "\u00a0"
"""A space at which no line breaks."""


def plain(value: Any) -> str:
    """Return a cell's text: numbers short, nothing as a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if isinstance(value, float) else str(value)


def number(value: float, digits: int = 4) -> str:
    """Return a number with at most `digits` significant digits."""
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def percent(rate: float | None, digits: int = 1) -> str:
    """Return a share of 0 to 1 in per cent."""
    return _NOTHING if rate is None else f"{100 * rate:.{digits}f}{_SPACE}%"


def interval(low: float | None, high: float | None) -> str:
    """Return an interval of shares, in per cent without the sign."""
    return "" if low is None or high is None else f"[{100 * low:.1f},{_SPACE}{100 * high:.1f}]"


def points(difference: float | None) -> str:
    """Return a difference of shares in percentage points, signed."""
    if difference is None:
        return _NOTHING
    text = f"{100 * difference:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def points_interval(low: float | None, high: float | None) -> str:
    """Return the interval of a difference, in percentage points."""
    return "" if low is None or high is None else f"[{points(low)},{_SPACE}{points(high)}]"


def apart(low: float | None, high: float | None) -> str:
    """Return what an interval of a difference says, in words."""
    if low is None or high is None:
        return "no interval is known"
    return "the interval excludes 0" if low > 0 or high < 0 else "the interval includes 0: no difference is shown"


def seconds(value: float | None) -> str:
    """Return a time in seconds, minutes or hours."""
    if value is None:
        return _NOTHING
    if value < 120:
        return f"{value:.1f}{_SPACE}s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def size_name(bucket: Any) -> str:
    """Return the name of a map size: 4x4."""
    return f"{bucket}x{bucket}"


def on_terminal(text: str) -> str:
    """Return a sentence of a page in letters that every terminal has."""
    return text.replace(_SPACE, " ").replace("−", "-").replace(_NOTHING, "-")
