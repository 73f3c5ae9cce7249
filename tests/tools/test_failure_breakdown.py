from collections import Counter
from typing import Any

import pytest

from envwright.env.canonical import Split
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox


def breakdown(toolbox: Toolbox, **arguments: Any) -> dict[str, Any]:
    content = toolbox.call("failure_breakdown", arguments).content
    assert content is not None
    return content


def test_groups_are_sorted_and_add_up_to_the_totals(toolbox: Toolbox, evidence: Evidence) -> None:
    content = breakdown(toolbox, by=["size", "wait_required"])
    assert (content["stage"], content["split"]) == (1, "validation")
    assert [row["group"] for row in content["rows"]] == [
        {"size": 3, "wait_required": False},
        {"size": 4, "wait_required": False},
        {"size": 4, "wait_required": True},
    ]
    assert sum(row["n"] for row in content["rows"]) == content["totals"]["n"] == 36
    wanted = Counter(rollout.verdict.value for rollout in evidence.select(Split.VALIDATION, 1))
    assert content["totals"]["outcomes"] == dict(wanted)
    assert sum((Counter(row["outcomes"]) for row in content["rows"]), Counter()) == wanted


def test_outcomes_that_did_not_occur_are_left_out_and_rates_carry_intervals(toolbox: Toolbox) -> None:
    totals = breakdown(toolbox, by=[])["totals"]
    assert all(totals["outcomes"].values())
    rate = totals["outcomes"]["optimal"] / totals["n"]
    assert totals["optimal"]["rate"] == totals["valid"]["rate"] == round(rate, 4)
    assert 0 < totals["valid"]["low"] < rate < totals["valid"]["high"] < 1


def test_hole_ratios_come_in_bands_with_the_lower_end_included(toolbox: Toolbox) -> None:
    # 3x3 with hole ratio 0.1 holds 1 hole of 9 cells; 4x4 with 0.2 holds 3 of 16.
    assert [row["group"] for row in breakdown(toolbox, by=["hole_ratio", "size"])["rows"]] == [
        {"hole_ratio": "0.1-0.2", "size": 3},
        {"hole_ratio": "0.1-0.2", "size": 4},
    ]


def test_grouping_by_outcome_keeps_the_order_of_the_rules(toolbox: Toolbox) -> None:
    outcomes = [row["group"]["outcome"] for row in breakdown(toolbox, by=["outcome"])["rows"]]
    assert outcomes[0] == "truncated"
    assert outcomes[-1] == "optimal"
    assert all(row["outcomes"] == {row["group"]["outcome"]: row["n"]} for row in breakdown(toolbox, by=["outcome"])["rows"])


def test_a_stage_and_a_split_can_be_asked_for(toolbox: Toolbox) -> None:
    assert breakdown(toolbox, by=["size"], stage=0)["totals"]["n"] == 6
    assert breakdown(toolbox, by=["size"], split="train")["totals"]["n"] == 20


@pytest.mark.parametrize("arguments", [{"split": "benchmark"}, {"stage": 9}, {"split": "train", "stage": 0}])
def test_an_absent_split_or_stage_is_told_with_those_that_exist(toolbox: Toolbox, arguments: dict[str, Any]) -> None:
    error = toolbox.call("failure_breakdown", {"by": ["size"], **arguments}).error
    assert error is not None
    assert error.code == "not_found"
    assert error.message.endswith("there are: train at stage 1; validation at stages 0, 1")


def test_without_any_rollouts_the_error_says_so(evidence: Evidence) -> None:
    error = Toolbox(Evidence(config=evidence.config, rollouts=())).call("failure_breakdown", {"by": ["size"]}).error
    assert error is not None
    assert "no rollouts at all" in error.message


def test_a_group_key_named_twice_is_refused(toolbox: Toolbox) -> None:
    error = toolbox.call("failure_breakdown", {"by": ["size", "size"]}).error
    assert error is not None
    assert (error.code, error.message) == ("validation_failed", "by: 'size' is repeated; name each group key once")
