"""Differences between arms with their uncertainty: a paired bootstrap over seeds and boards at once.

Both are sampled: other seeds would have led to other policies, and other boards of the same kind would have measured them
otherwise. Every arm is measured on the same boards after the same seeds, so a replicate draws seeds and boards once for all
arms, and what seeds and boards have in common cancels in a difference. Sources: Efron and Tibshirani, An Introduction to the
Bootstrap, 1993 (percentile interval, ch. 13); Owen, The pigeonhole bootstrap, Annals of Applied Statistics 1 (2007): rows and
columns resampled independently, which errs on the wide side.

With one seed only the boards are resampled, and an interval says nothing of other seeds. With few seeds (3 to 5) a percentile
interval is somewhat too narrow in what it says of seeds, for the spread of n draws is taken as it is, not times n / (n - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envwright.env.seeding import random_stream

__all__ = ["REPLICATES", "Difference", "Mean", "board_means", "bootstrap_means", "difference_of", "mean_of"]

REPLICATES = 10_000
"""Bootstrap replicates of every published interval."""
LEVEL = 0.95
"""Share of the replicates inside an interval."""
_CHUNK = 1_000
"""Replicates drawn at a time, which bounds memory."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean rate over seeds and boards."""

    rate: float
    """The mean, 0 to 1."""
    low: float
    """Lower end of the 95 % percentile interval."""
    high: float
    """Upper end of the 95 % percentile interval."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one arm is than another."""

    difference: float
    """Difference of the means, -1 to 1."""
    low: float
    """Lower end of the 95 % percentile interval."""
    high: float
    """Upper end of the 95 % percentile interval."""
    probability_better: float
    """Share of the replicates in which the difference is above 0, ties counted half."""


def bootstrap_means(values_KSB: Floats, *, replicates: int = REPLICATES, seed: int = 0) -> Floats:
    """Return bootstrap replicates of the mean of K quantities, every replicate with the same draws for all of them.

    Args:
        values_KSB: a value per quantity, seed and board: the share of a board's completions that count, 0 to 1.
        replicates: R, how many.
        seed: of the draws; the same seed and the same numbers of seeds and boards draw the same.

    Returns:
        Means, shape [R, K]: seeds drawn with replacement, and boards drawn with replacement, independently.

    Raises:
        ValueError: there is no seed, no board, or a value that is not finite.
    """
    kinds, seeds, boards = values_KSB.shape
    if not seeds or not boards or not np.isfinite(values_KSB).all():
        raise ValueError(f"a bootstrap needs finite values of at least one seed and board, got {seeds} seeds and {boards} boards")
    draws = random_stream(seed, "bootstrap", seeds, boards)
    result = np.empty((replicates, kinds))
    by_board = values_KSB.reshape(kinds * seeds, boards)
    for start in range(0, replicates, _CHUNK):
        n = min(_CHUNK, replicates - start)
        seeds_RS = draws.multinomial(seeds, np.full(seeds, 1 / seeds), size=n) / seeds
        boards_RB = draws.multinomial(boards, np.full(boards, 1 / boards), size=n) / boards
        means_KSR = (by_board @ boards_RB.T).reshape(kinds, seeds, n)
        result[start : start + n] = np.einsum("ksr,rs->rk", means_KSR, seeds_RS)
    return result


def mean_of(values_SB: Floats, replicates_R: Floats) -> Mean:
    """Return the mean of a quantity with the interval that its replicates give."""
    low, high = _interval(replicates_R)
    return Mean(_rounded(values_SB.mean()), low, high)


def difference_of(values_SB: Floats, other_SB: Floats, replicates_R: Floats, other_R: Floats) -> Difference:
    """Return the difference of two paired quantities, from replicates that `bootstrap_means` drew together."""
    differences_R = replicates_R - other_R
    low, high = _interval(differences_R)
    differences_R = np.round(differences_R, 9)  # sums of equal terms in another order are ties
    better = float((differences_R > 0).mean() + 0.5 * (differences_R == 0).mean())
    return Difference(_rounded(values_SB.mean() - other_SB.mean()), low, high, _rounded(better))


def board_means(successes: Sequence[bool], samples: int) -> Floats:
    """Return the share of each board's completions that count, from completions board by board, `samples` each.

    Raises:
        ValueError: the completions are not a multiple of `samples`.
    """
    if samples < 1 or len(successes) % samples:
        raise ValueError(f"{len(successes)} completions are not {samples} for every board")
    means: Floats = np.asarray(successes, dtype=np.float64).reshape(-1, samples).mean(axis=1)
    return means


def _interval(replicates_R: Floats) -> tuple[float, float]:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(replicates_R, [tail, 1 - tail])
    return _rounded(low), _rounded(high)


def _rounded(value: Any) -> float:
    """Six digits: more would differ between machines, whose sums are ordered differently."""
    return round(float(value), 6) + 0.0
