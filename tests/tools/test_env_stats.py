from dataclasses import replace
from typing import Any

from envwright.env.config import GeneratorConfig
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox


def stats(toolbox: Toolbox, **arguments: Any) -> dict[str, Any]:
    content = toolbox.call("env_stats", arguments).content
    assert content is not None
    return content


def test_the_current_config_is_measured_on_generated_instances(toolbox: Toolbox) -> None:
    content = stats(toolbox)
    assert (content["stage"], content["source"], content["num_agents"]) == (None, "generated", 2)
    three, four, five = content["buckets"]
    assert three["measured"] | four["measured"] == four["measured"]
    assert (three["feasible"], three["measured"]["instances"], three["measured"]["wait_ratio"]) == (True, 32, 0.0)
    assert (four["measured"]["hole_ratio"], four["measured"]["wait_ratio"]) == (0.1875, 0.25)
    assert 0 < four["acceptance"] <= 1
    assert 0 < four["measured"]["conflict_density"] < 1
    assert four["measured"]["shortest_paths"] > 1
    assert sum(four["samplers"].values()) == 32
    assert (five["feasible"], five["measured"]) == (None, None)


def test_a_past_stage_is_measured_on_its_own_distinct_training_instances(toolbox: Toolbox) -> None:
    content = stats(toolbox, stage=1)
    assert content["source"] == "train"
    assert [(row["bucket"], row["share"], row["measured"]["instances"], row["acceptance"]) for row in content["buckets"]] == [
        ("3", 0.5, 5, None),
        ("4", 0.5, 5, None),
    ]


def test_a_past_stage_without_training_rollouts_falls_back_on_validation_and_knows_its_knobs(
    toolbox: Toolbox, config: GeneratorConfig
) -> None:
    content = stats(toolbox, stage=0)
    assert content["source"] == "validation"
    assert [row["knobs"] for row in content["buckets"]] == [knobs.to_json() for knobs in config.sizes.values()]
    assert sum(row["share"] for row in content["buckets"]) == 1


def test_the_history_holds_each_config_with_its_validation_rates(toolbox: Toolbox, config: GeneratorConfig) -> None:
    assert stats(toolbox)["history"] == [
        {
            "stage": 0,
            "validation": {"n": 6, "valid": 0.5, "optimal": 0.5},
            "knobs": {bucket: knobs.to_json() for bucket, knobs in config.sizes.items()},
            "by_bucket": {"3": {"n": 3, "valid": 0.3333, "optimal": 0.3333}, "4": {"n": 3, "valid": 0.6667, "optimal": 0.6667}},
        }
    ]


def test_an_unknown_stage_names_those_that_exist(toolbox: Toolbox) -> None:
    error = toolbox.call("env_stats", {"stage": 5}).error
    assert error is not None
    assert error.code == "not_found"
    assert "validation at stages 0, 1" in error.message


def test_an_infeasible_bucket_is_told_in_its_row(evidence: Evidence) -> None:
    crowded = GeneratorConfig.model_validate({"num_agents": 6, "sizes": {"3": {"data_ratio": 1, "hole_ratio": 0.5, "wait_ratio": 0}}})
    (row,) = stats(Toolbox(replace(evidence, config=crowded)))["buckets"]
    assert (row["feasible"], row["measured"], row["acceptance"]) == (False, None, None)
    assert "too few free cells, 4 for 6 agents" in row["reason"]
