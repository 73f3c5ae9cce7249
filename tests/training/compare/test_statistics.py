"""The paired bootstrap: a known case, pairing, and how often its intervals hold the truth."""

from __future__ import annotations

import numpy as np
import pytest

from envwright.training.compare.statistics import board_means, bootstrap_means, difference_of, mean_of

RNG = np.random.default_rng


def test_the_spread_of_a_mean_over_boards_is_the_one_that_theory_gives() -> None:
    values = np.repeat([0.0, 1.0], [300, 100]).reshape(1, 1, 400)
    replicates = bootstrap_means(values)
    assert replicates.shape == (10_000, 1)
    assert replicates.mean() == pytest.approx(0.25, abs=0.001)
    assert replicates.std() == pytest.approx(np.sqrt(0.25 * 0.75 / 400), rel=0.03)
    mean = mean_of(values[0], replicates[:, 0])
    assert mean.rate == 0.25
    assert (mean.low, mean.high) == pytest.approx((0.2075, 0.2925), abs=0.004)


def test_the_spread_over_seeds_is_the_one_that_theory_gives() -> None:
    of_seeds = np.array([0.1, 0.2, 0.3, 0.6])
    replicates = bootstrap_means(np.tile(of_seeds[None, :, None], (1, 1, 10)))
    assert replicates.std() == pytest.approx(of_seeds.std() / 2, rel=0.03)


def test_what_both_arms_share_cancels_in_their_difference() -> None:
    rng = RNG(0)
    common = rng.random((4, 50)) * 0.8
    first, second = common + 0.1, common
    replicates = bootstrap_means(np.stack([first, second]))
    found = difference_of(first, second, replicates[:, 0], replicates[:, 1])
    assert (found.difference, found.low, found.high, found.probability_better) == pytest.approx((0.1, 0.1, 0.1, 1.0))


def test_equal_arms_are_as_likely_better_as_worse() -> None:
    values = RNG(1).random((1, 3, 20))
    replicates = bootstrap_means(np.concatenate([values, values]))
    assert difference_of(values[0], values[0], replicates[:, 0], replicates[:, 1]).probability_better == 0.5


def test_the_same_values_give_the_same_replicates() -> None:
    values = RNG(2).random((2, 3, 20))
    assert np.array_equal(bootstrap_means(values, replicates=50), bootstrap_means(values, replicates=50))
    assert not np.array_equal(bootstrap_means(values, replicates=50), bootstrap_means(values, replicates=50, seed=1))


def test_about_19_of_20_intervals_hold_the_true_difference() -> None:
    rng, truth, held = RNG(3), 0.05, 0
    for trial in range(200):
        boards, seeds = rng.normal(0, 0.3, 60), rng.normal(0, 0.05, (8, 1))
        own = rng.normal(0, 0.03, (2, 8, 1)) + rng.normal(0, 0.1, (2, 1, 60))
        values = 0.5 + boards + seeds + own + rng.normal(0, 0.2, (2, 8, 60)) + np.array([truth, 0.0])[:, None, None]
        replicates = bootstrap_means(values, replicates=400, seed=trial)
        found = difference_of(values[0], values[1], replicates[:, 0], replicates[:, 1])
        held += found.low <= truth <= found.high
    assert 0.88 <= held / 200 <= 0.99


def test_completions_are_joined_board_by_board() -> None:
    assert board_means([True, False, True, True], 2).tolist() == [0.5, 1.0]
    with pytest.raises(ValueError, match="3 completions are not 2 for every board"):
        board_means([True, False, True], 2)


def test_nothing_is_estimated_from_no_board_or_from_nan() -> None:
    for values in (np.zeros((1, 2, 0)), np.full((1, 2, 3), np.nan)):
        with pytest.raises(ValueError, match="a bootstrap needs finite values"):
            bootstrap_means(values)
