from dataclasses import replace
from typing import Any

import pytest

from envwright.env.config import GeneratorConfig
from envwright.env.patch import Patch, apply_patch
from envwright.env.schemas import schema_problems
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox


def edit(path: str = "/sizes/4/wait_ratio", value: Any = 0.5, **more: Any) -> dict[str, Any]:
    return {
        "op": "replace",
        "path": path,
        "value": value,
        "reason": "4 of 6 wait-required boards fail",
        "evidence": ["failure_breakdown#1"],
        **more,
    }


def proposed(toolbox: Toolbox, *edits: Any, **more: Any) -> dict[str, Any]:
    result = toolbox.call("propose_patch", {"summary": "more waiting", "edits": list(edits), **more})
    assert result.content is not None, result.error
    return result.content


def codes(content: dict[str, Any]) -> list[tuple[str, str]]:
    return [(warning["path"], warning["code"]) for warning in content["warnings"]]


def test_an_accepted_patch_shows_the_diff_the_config_and_the_patch(toolbox: Toolbox, config: GeneratorConfig) -> None:
    toolbox.call("failure_breakdown", {"by": ["size"]})
    content = proposed(toolbox, edit())
    assert list(content) == ["accepted", "errors", "warnings", "diff", "config", "patch"]
    assert (content["accepted"], content["errors"], content["warnings"]) == (True, [], [])
    assert content["diff"] == [{"path": "/sizes/4/wait_ratio", "before": 0.25, "after": 0.5}]
    assert schema_problems("patch", content["patch"]) == []
    assert apply_patch(config, Patch.parse(content["patch"], "patch")).to_json() == content["config"]
    assert toolbox.accepted is not None
    assert toolbox.accepted.to_json() == content


def test_a_patch_file_with_its_version_is_a_valid_argument(toolbox: Toolbox) -> None:
    assert proposed(toolbox, edit(), schema_version=1)["accepted"] is True


@pytest.mark.parametrize(
    ("edits", "path", "code"),
    [
        ([], "/edits", "schema"),
        ([edit(path="/foo/-")], "/edits/0/path", "unknown_path"),
        ([edit(path="/sizes/9/wait_ratio")], "/sizes/9/wait_ratio", "unknown_path"),
        ([edit(), edit(value=0.6)], "/sizes/4/wait_ratio", "repeated_path"),
        ([edit(value=1.5)], "/sizes/4/wait_ratio", "out_of_bounds"),
        ([edit(value=float("nan"))], "/sizes/4/wait_ratio", "bad_value"),
        ([edit(value=None)], "/sizes/4/wait_ratio", "bad_value"),
        ([edit(value="")], "/sizes/4/wait_ratio", "bad_value"),
        ([edit(value=True)], "/sizes/4/wait_ratio", "bad_value"),
        ([edit(value=0.25)], "/edits", "no_change"),
        ([edit(op="add")], "/edits/0/op", "bad_op"),
        ([edit(evidence="failure_breakdown#1")], "/edits/0/evidence", "schema"),
        ([5], "/edits/0", "schema"),
    ],
)
def test_a_refused_patch_is_an_answer_that_leaves_the_config(
    toolbox: Toolbox, config: GeneratorConfig, edits: list[Any], path: str, code: str
) -> None:
    content = proposed(toolbox, *edits)
    assert content["accepted"] is False
    assert [(problem["path"], problem["code"]) for problem in content["errors"]] == [(path, code)]
    assert (content["config"], content["diff"], content["patch"]) == (config.to_json(), [], None)
    assert toolbox.accepted is None


@pytest.mark.parametrize("arguments", ["{}", '{"summary": 5}', '{"summary": "s", "edits": [], "extra": 1}'])
def test_arguments_that_break_the_schema_are_a_refusal_not_a_tool_error(toolbox: Toolbox, arguments: str) -> None:
    result = toolbox.call("propose_patch", arguments)
    assert result.error is None
    assert result.content is not None
    assert result.content["accepted"] is False
    assert result.content["errors"]


def test_a_number_written_as_text_is_read_once_and_said_so(toolbox: Toolbox) -> None:
    content = proposed(toolbox, edit(value="0.3"))
    assert content["patch"]["edits"][0]["value"] == 0.3
    assert ("/edits/0/value", "coerced") in codes(content)


def test_edits_sent_as_text_are_decoded_once_and_said_so(toolbox: Toolbox) -> None:
    text = '[{"op": "replace", "path": "/sizes/4/wait_ratio", "value": 0.5, "reason": "r"}]'
    result = toolbox.call("propose_patch", {"summary": "s", "edits": text})
    assert result.content is not None
    assert result.content["accepted"] is True
    assert result.coerced == ("edits: the string was read as the list that it holds",)


def test_edits_without_evidence_and_with_unknown_evidence_are_warned_of(toolbox: Toolbox) -> None:
    assert codes(proposed(toolbox, edit(evidence=[]))) == [("/sizes/4/wait_ratio", "no_evidence")]
    assert codes(proposed(toolbox, edit())) == [("/sizes/4/wait_ratio", "unknown_evidence")]
    toolbox.call("failure_breakdown", {"by": ["size"]})
    assert codes(proposed(toolbox, edit())) == []


@pytest.mark.parametrize(
    ("path", "value", "warned"),
    [
        ("/sizes/4/data_ratio", 0.8, True),
        ("/sizes/4/wait_ratio", 0.0, True),
        ("/sizes/4/data_ratio", 0.3, False),
        ("/sizes/4/hole_ratio", 0.3, False),
        ("/sizes/3/data_ratio", 0.8, False),
    ],
)
def test_more_or_easier_data_for_a_healthy_bucket_is_warned_of(evidence: Evidence, path: str, value: float, warned: bool) -> None:
    good = [rollout for rollout in evidence.rollouts if rollout.verdict.valid and rollout.instance.size == 4 and rollout.stage == 1]
    healthy = [rollout.model_copy(update={"split": "validation"}) for rollout in good * 3]
    toolbox = Toolbox(replace(evidence, rollouts=tuple(healthy)))
    toolbox.call("failure_breakdown", {"by": ["size"]})
    assert codes(proposed(toolbox, edit(path, value))) == ([(path, "healthy_size")] if warned else [])


def test_knobs_that_the_generator_cannot_fill_are_warned_of_with_the_reason(evidence: Evidence) -> None:
    sizes = {"3": {"data_ratio": 0.5, "hole_ratio": 0.0, "wait_ratio": 0.0}, "4": {"data_ratio": 0.5, "hole_ratio": 0.0, "wait_ratio": 0.0}}
    crowded = GeneratorConfig.model_validate({"num_agents": 6, "sizes": sizes})
    toolbox = Toolbox(replace(evidence, config=crowded))
    toolbox.call("failure_breakdown", {"by": ["size"]})
    content = proposed(toolbox, edit("/sizes/3/hole_ratio", 0.5))
    assert content["accepted"] is True
    assert codes(content) == [("/sizes/3", "infeasible")]
    assert "too few free cells" in content["warnings"][0]["message"]


def test_the_last_accepted_proposal_stays_when_a_later_one_is_refused(toolbox: Toolbox) -> None:
    first = proposed(toolbox, edit())
    proposed(toolbox, edit(value=7))
    assert toolbox.accepted is not None
    assert toolbox.accepted.to_json() == first
