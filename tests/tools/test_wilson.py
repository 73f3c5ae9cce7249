import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.statistics import wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
)
def test_the_interval_agrees_with_the_table_of_newcombe_1998(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n).rounded().to_json() == {"rate": round(successes / n, 4), "low": low, "high": high}


def test_certain_outcomes_reach_the_end_of_the_range_exactly() -> None:
    assert wilson(0, 10).low == 0.0
    assert wilson(10, 10).high == 1.0
    assert round(wilson(0, 10).high, 4) == round(1 - wilson(10, 10).low, 4) == 0.2775


def test_without_trials_there_is_no_rate_and_nothing_is_known() -> None:
    assert wilson(0, 0).to_json() == {"rate": None, "low": 0.0, "high": 1.0}


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3), (1, 0)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="between 0 and n"):
        wilson(successes, n)


@given(st.integers(0, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_rate_lies_inside_and_the_mirror_image_mirrors(counts: tuple[int, int]) -> None:
    successes, n = counts
    interval, mirror = wilson(successes, n), wilson(n - successes, n)
    assert 0.0 <= interval.low <= (interval.rate if interval.rate is not None else 0.5) <= interval.high <= 1.0
    assert math.isclose(interval.low, 1.0 - mirror.high, abs_tol=1e-12)
