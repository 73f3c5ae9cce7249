"""The JSON Schemas: valid themselves, and of one mind with the models."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from envwright.env.base import FrozenModel
from envwright.env.config import GeneratorConfig
from envwright.env.instance import Instance
from envwright.env.patch import Patch
from envwright.env.rollout import Rollout
from envwright.env.schemas import SCHEMA_NAMES, json_schema, schema_problems

KNOBS = {"data_ratio": 0.125, "hole_ratio": 0.2, "wait_ratio": 0.25}
INSTANCE = {
    "schema_version": 1,
    "id": "2a-4x4-dac49a5ad9b3c9a2",
    "size": 4,
    "holes": [[0, 2]],
    "starts": [[0, 0], [3, 3]],
    "goals": [[3, 0], [1, 2]],
    "optimal_cost": 7,
    "optimal_makespan": 5,
    "wait_required": True,
}
DOCUMENTED: dict[str, dict[str, Any]] = {
    "config": {"schema_version": 1, "num_agents": 2, "sizes": {str(size): KNOBS for size in range(3, 11)}},
    "patch": {
        "schema_version": 1,
        "summary": "more waiting on 6x6",
        "edits": [
            {
                "op": "replace",
                "path": "/sizes/6/wait_ratio",
                "value": 0.5,
                "reason": "6x6: 41 of 60 wait-required boards end in vertex_conflict",
                "evidence": ["failure_breakdown#1"],
            }
        ],
    },
    "instance": INSTANCE,
    "rollout": {
        "schema_version": 1,
        "stage": 0,
        "split": "validation",
        "instance": INSTANCE,
        "completion": "…",
        "outcome": "swap_conflict",
        "failure_step": 3,
        "failure_agents": [0, 1],
        "cost": None,
        "reward": 0.0,
        "tokens": 41,
    },
}
MODELS: dict[str, type[FrozenModel]] = {"config": GeneratorConfig, "patch": Patch, "instance": Instance, "rollout": Rollout}


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_every_schema_is_a_valid_schema_of_draft_2020_12(name: str) -> None:
    schema = json_schema(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_the_documented_example_passes_the_schema_and_the_model_unchanged(name: str) -> None:
    assert schema_problems(name, DOCUMENTED[name]) == []
    assert MODELS[name].parse(DOCUMENTED[name], "example").to_json() == DOCUMENTED[name]


def test_a_rollout_needs_no_verdict() -> None:
    bare = {key: DOCUMENTED["rollout"][key] for key in ("instance", "completion")}
    assert schema_problems("rollout", bare) == []


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_an_unknown_key_breaks_the_schema(name: str) -> None:
    ((pointer, message),) = schema_problems(name, {**DOCUMENTED[name], "extra": 1})
    assert (pointer, "'extra' was unexpected" in message) == ("", True)


@pytest.mark.parametrize(
    ("name", "change", "pointer"),
    [
        ("config", {"sizes": {"four": KNOBS}}, "/sizes"),
        ("config", {"sizes": {"4": {**KNOBS, "hole_ratio": 0.6}}}, "/sizes/4/hole_ratio"),
        ("config", {"sizes": {"4": {**KNOBS, "wait_ratio": True}}}, "/sizes/4/wait_ratio"),
        ("config", {"sizes": {"4": {**KNOBS, "wait_ratio": float("nan")}}}, "/sizes/4/wait_ratio"),
        ("config", {"num_agents": 0}, "/num_agents"),
        ("patch", {"edits": []}, "/edits"),
        ("patch", {"summary": ""}, "/summary"),
        ("patch", {"edits": [{**DOCUMENTED["patch"]["edits"][0], "path": "/num_agents"}]}, "/edits/0/path"),
        ("patch", {"edits": [{**DOCUMENTED["patch"]["edits"][0], "value": float("inf")}]}, "/edits/0/value"),
        ("instance", {"size": "4"}, "/size"),
        ("instance", {"starts": [[0, 0, 0]]}, "/starts/0"),
        ("instance", {"wait_required": 1}, "/wait_required"),
        ("rollout", {"split": "test"}, "/split"),
        ("rollout", {"outcome": "crashed"}, "/outcome"),
    ],
)
def test_a_bad_value_is_found_where_it_stands(name: str, change: dict[str, Any], pointer: str) -> None:
    assert [found for found, _ in schema_problems(name, {**DOCUMENTED[name], **change})] == [pointer]


def test_every_field_of_a_schema_is_described() -> None:
    for name in SCHEMA_NAMES:
        schema = json_schema(name)
        for part in (schema, *schema.get("$defs", {}).values()):
            undescribed = [key for key, field in part.get("properties", {}).items() if not {"description", "$ref"} & set(field)]
            assert (name, part["title"], undescribed) == (name, part["title"], [])
