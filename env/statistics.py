"""Intervals for rates: the 95 % Wilson score interval, which stays inside 0..1 and is honest for small samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Self

from pydantic import Field

from envwright.env.base import FrozenModel

__all__ = ["Interval", "wilson", "wilson_mean"]

_Z = 1.959963984540054


class Interval(FrozenModel):
    """A rate with its 95 % confidence interval."""

    rate: float | None = Field(ge=0.0, le=1.0)
    """Successes per trial, 0 to 1; null when there were no trials."""
    low: float = Field(ge=0.0, le=1.0)
    """Lower end of the 95 % Wilson interval; 0 without trials."""
    high: float = Field(ge=0.0, le=1.0)
    """Upper end of the 95 % Wilson interval; 1 without trials."""

    def rounded(self, digits: int = 4) -> Self:
        """Return the interval with its figures rounded, for display."""
        rate = None if self.rate is None else round(self.rate, digits)
        return self.model_copy(update={"rate": rate, "low": round(self.low, digits), "high": round(self.high, digits)})


def wilson(successes: int, n: int) -> Interval:
    """Return the rate of `successes` in `n` trials with its 95 % Wilson score interval (Wilson 1927).

    Without trials nothing is known: the rate is None and the interval is 0 to 1.

    Raises:
        ValueError: not 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes must be between 0 and n, got {successes} of {n}")
    if n == 0:
        return Interval(rate=None, low=0.0, high=1.0)
    return _score_interval(successes / n, n)


def wilson_mean(samples: Sequence[tuple[int, int]]) -> Interval:
    """Return the plain mean of several rates, each counting the same whatever its number of trials, with a 95 % interval.

    The interval is Wilson's at the effective number of trials k^2 / sum(1 / n_i), at which a single rate would vary as
    much as the mean of k rates does when they are alike; with equal n_i it is the interval of the pooled trials.

    Args:
        samples: `(successes, n)` of each rate; those with n = 0 are left out.

    Raises:
        ValueError: not 0 <= successes <= n.
    """
    counted = [(successes, n) for successes, n in samples if n or successes]
    if not all(0 <= successes <= n for successes, n in counted):
        raise ValueError(f"successes must be between 0 and n, got {samples}")
    if not counted:
        return Interval(rate=None, low=0.0, high=1.0)
    rate = float(sum(Fraction(successes, n) for successes, n in counted) / len(counted))
    return _score_interval(rate, len(counted) ** 2 / sum(1 / n for _, n in counted))


def _score_interval(rate: float, n: float) -> Interval:
    square = _Z * _Z
    scale = 1.0 + square / n
    centre = (rate + square / (2 * n)) / scale
    spread = _Z * math.sqrt(rate * (1.0 - rate) / n + square / (4 * n * n)) / scale
    low = 0.0 if rate == 0.0 else max(0.0, centre - spread)
    high = 1.0 if rate == 1.0 else min(1.0, centre + spread)
    return Interval(rate=rate, low=low, high=high)
