"""Rewards: valid or not, efficiency on top, and a weight that waits for validity."""

from __future__ import annotations

import pytest

from envwright.env.grading import grade_completion
from envwright.env.instance import Instance
from envwright.training.rewards import efficiency_weight, reward
from envwright.training.settings import GrpoSettings

CORRIDOR = Instance(
    id="1a-3x3-corridor", size=3, holes=(), starts=((0, 0),), goals=((0, 2),), optimal_cost=2, optimal_makespan=2, wait_required=False
)


@pytest.mark.parametrize(
    ("moves", "expected"), [('["RR"]', 1.3), ('["WRR"]', 1.2), ('["DURR"]', 1.15), ('["R"]', 0.0), ('["U"]', 0.0), ("nonsense", 0.0)]
)
def test_a_valid_plan_earns_one_and_its_efficiency_and_any_other_nothing(moves: str, expected: float) -> None:
    completion = f'{{"plan": {moves}}}' if moves.startswith("[") else moves
    assert reward(CORRIDOR, grade_completion(CORRIDOR, completion), 0.3) == pytest.approx(expected)


@pytest.mark.parametrize(("rate", "expected"), [(None, 0.0), (0.3, 0.0), (0.5, 0.0), (0.6, 0.1), (0.8, 0.3), (0.95, 0.3)])
def test_an_adaptive_weight_rises_with_the_valid_rate_between_its_two_thresholds(rate: float | None, expected: float) -> None:
    settings = GrpoSettings(efficiency_weight=0.3, efficiency_schedule="adaptive", efficiency_low=0.5, efficiency_high=0.8)
    assert efficiency_weight(settings, rate) == pytest.approx(expected)


def test_a_fixed_weight_does_not_look_at_the_valid_rate() -> None:
    assert (
        efficiency_weight(GrpoSettings(efficiency_weight=0.3), None) == efficiency_weight(GrpoSettings(efficiency_weight=0.3), 0.9) == 0.3
    )


def test_thresholds_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match=r"efficiency_low 0\.8 must be below efficiency_high 0\.5"):
        GrpoSettings(efficiency_schedule="adaptive", efficiency_low=0.8, efficiency_high=0.5)


def test_partial_credit_is_paid_for_the_named_outcomes_alone_and_only_when_asked_for() -> None:
    short, out = (grade_completion(CORRIDOR, f'{{"plan": ["{moves}"]}}') for moves in ("R", "U"))
    assert (reward(CORRIDOR, short), reward(CORRIDOR, out)) == (0.0, 0.0)
    credit = {"goal_not_reached": 0.2}
    assert (reward(CORRIDOR, short, 0.0, credit), reward(CORRIDOR, out, 0.0, credit)) == (0.2, 0.0)


def test_partial_credit_for_what_is_no_failure_is_refused() -> None:
    with pytest.raises(ValueError, match="partial_credit: 'optimal' is no invalid outcome; those are parse_error, truncated"):
        GrpoSettings(partial_credit={"optimal": 1.0})
