from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from envwright.env.config import GeneratorConfig
from envwright.env.instance import Instance
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox

MORE_WAITS = {"path": "/sizes/4/wait_ratio", "value": 0.5}


def simulated(toolbox: Toolbox, *edits: dict[str, Any], n: int = 8) -> dict[str, Any]:
    result = toolbox.call("simulate_config", {"edits": list(edits), "n": n})
    assert result.content is not None, result.error
    return result.content


def test_without_a_policy_nothing_is_predicted_and_a_note_says_so(toolbox: Toolbox) -> None:
    content = simulated(toolbox, MORE_WAITS)
    assert content["feasible"] is True
    assert content["diff"] == [{"path": "/sizes/4/wait_ratio", "before": 0.25, "after": 0.5}]
    assert content["forecast"] == content["current_forecast"] == {"predicted_valid": None, "mixed_groups": None}
    assert "no policy is at hand" in content["notes"][0]
    three, four = content["buckets"]
    assert (three["changed"], three["current_hardness"]) == (False, None)
    assert (four["changed"], four["hardness"]["wait_ratio"], four["current_hardness"]["wait_ratio"]) == (True, 0.5, 0.25)


def test_the_policy_is_predicted_per_bucket_and_over_all_by_share(toolbox_with_policy: Toolbox) -> None:
    content = simulated(toolbox_with_policy, MORE_WAITS, {"path": "/sizes/3/data_ratio", "value": 0.25})
    three, four = content["buckets"]
    assert three["forecast"] == three["current_forecast"] == {"predicted_valid": 0.5, "mixed_groups": 1.0}
    assert four["forecast"] == {"predicted_valid": 0.25, "mixed_groups": 0.5}
    assert four["current_forecast"] == {"predicted_valid": 0.375, "mixed_groups": 0.75}
    assert content["forecast"] == {"predicted_valid": 0.25 * 0.5 + 0.75 * 0.25, "mixed_groups": 0.25 * 1.0 + 0.75 * 0.5}
    assert content["current_forecast"] == {"predicted_valid": 0.4375, "mixed_groups": 0.875}
    assert content["notes"] == []


def test_no_edits_simulate_the_current_config(toolbox_with_policy: Toolbox) -> None:
    content = simulated(toolbox_with_policy)
    assert content["diff"] == []
    assert content["forecast"] == content["current_forecast"]
    assert not any(row["changed"] for row in content["buckets"])


def test_figures_agree_with_env_stats(toolbox: Toolbox) -> None:
    stats = toolbox.call("env_stats", {}).content
    assert stats is not None
    assert [row["hardness"] for row in simulated(toolbox, n=32)["buckets"]] == [row["measured"] for row in stats["buckets"][:2]]


def test_the_policy_sees_shared_boards_once(evidence: Evidence) -> None:
    asked: list[int] = []

    def probe(instances: Sequence[Instance]) -> list[list[bool]]:
        asked.append(len(instances))
        return [[True]] * len(instances)

    toolbox = Toolbox(replace(evidence, probe=probe))
    simulated(toolbox, MORE_WAITS, n=8)
    assert asked == [8 + 8 + 8]


def test_a_bucket_that_loses_its_data_is_forecast_for_now_only(toolbox_with_policy: Toolbox) -> None:
    content = simulated(toolbox_with_policy, {"path": "/sizes/4/data_ratio", "value": 0})
    three, four = content["buckets"]
    assert (three["data_ratio"], four["data_ratio"], four["current_data_ratio"]) == (1.0, 0.0, 0.5)
    assert (four["feasible"], four["forecast"]["predicted_valid"], four["current_forecast"]["predicted_valid"]) == (None, None, 0.375)
    assert content["forecast"] == three["forecast"]
    assert content["feasible"] is True


def test_an_infeasible_bucket_is_marked_with_its_reason_and_the_others_are_measured(evidence: Evidence) -> None:
    sizes = {"3": {"data_ratio": 0.5, "hole_ratio": 0.0, "wait_ratio": 0.0}, "4": {"data_ratio": 0.5, "hole_ratio": 0.0, "wait_ratio": 0.0}}
    config = GeneratorConfig.model_validate({"num_agents": 6, "sizes": sizes})
    toolbox = Toolbox(replace(evidence, config=config))
    content = simulated(toolbox, {"path": "/sizes/3/hole_ratio", "value": 0.5}, {"path": "/sizes/4/data_ratio", "value": 0.01}, n=1)
    three, four = content["buckets"]
    assert (content["feasible"], three["feasible"], four["feasible"]) == (False, False, True)
    assert "too few free cells" in three["reason"]
    assert "infeasible under the edits, and not in its overall figures: 3" in content["notes"]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (
            {"path": "/sizes/9/wait_ratio", "value": 0.5},
            "no knob at '/sizes/9/wait_ratio'; paths are /sizes/<size>/<knob> with size one of 3, 4, 5",
        ),
        ({"path": "/sizes/4/hole_ratio", "value": 0.7}, "hole_ratio must be between 0 and 0.5, got 0.7"),
        ({"path": "/sizes/4/wait_ratio", "value": 0.25}, "the patch changes nothing"),
        ({"path": "/sizes/4/wait_ratio", "value": True}, "edits/0/value: Input should be a valid number (got True)"),
        ({"path": "/sizes/4/wait_ratio", "value": float("nan")}, "finite number"),
        ({"path": "/sizes/4/wait_ratio", "value": 10**399}, "edits/0/value"),
        ({"op": "add", "path": "/sizes/4/wait_ratio", "value": 0.5}, "edits/0/op: Input should be 'replace' (got 'add')"),
    ],
)
def test_edits_that_a_patch_could_not_hold_are_refused_in_words(toolbox: Toolbox, edit: dict[str, Any], words: str) -> None:
    error = toolbox.call("simulate_config", {"edits": [edit], "n": 2}).error
    assert error is not None
    assert error.code == "validation_failed"
    assert words in error.message


def test_a_probe_that_loses_instances_is_a_bug_and_stops_the_session(evidence: Evidence) -> None:
    toolbox = Toolbox(replace(evidence, probe=lambda instances: [[True]]))
    with pytest.raises(ValueError, match="answered for 1 of 4 instances"):
        toolbox.call("simulate_config", {"edits": [], "n": 2})
