"""Direct mode: one prompt, one constrained answer, the same checks as with tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from envwright.agent.direct import answer_schema
from envwright.agent.engineers import ModelEngineer, make_engineer
from envwright.agent.messages import AssistantMessage, Message, UserMessage
from envwright.agent.models import Completion
from envwright.agent.redesign import Redesign
from envwright.agent.scripted import ScriptedModel
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.agent.work_settings import Engineering, WorkSettings
from envwright.tools.evidence import Evidence
from tests.agent.evidence_maker import BASE, make_config, make_evidence


def edit(value: Any = 0.3, path: str = "/sizes/4/wait_ratio") -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value, "reason": "6 of 60", "evidence": ["failure_breakdown#0"]}


def patch(*edits: Any) -> str:
    return json.dumps({"summary": "more waiting", "edits": list(edits)})


def whole(**changes: Mapping[str, Any]) -> str:
    sizes = {bucket: {**knobs.model_dump(), **changes.get(f"s{bucket}", {})} for bucket, knobs in make_config().buckets()}
    return json.dumps({"summary": "more waiting", "evidence": ["failure_breakdown#0"], "sizes": sizes})


def answer(evidence: Evidence, *steps: str, how: Engineering = "direct", path: Path | None = None) -> tuple[Redesign, ScriptedModel]:
    model = ScriptedModel(steps)
    return ModelEngineer(model, work=WorkSettings(engineering=how)).design(evidence, path), model


class Structured(ScriptedModel):
    """A model that can be held to a schema, and remembers which."""

    schema: Mapping[str, Any]

    def complete_json(self, messages: Sequence[Message], schema: Mapping[str, Any]) -> Completion:
        self.schema = schema
        return self.complete(messages, [])


@pytest.mark.parametrize(
    "text",
    [
        patch(edit()),
        f"Here it is:\n```json\n{patch(edit())}\n```\nDone {{really}}.",
        f"<think>{patch(edit(0.9))}</think>{patch(edit())}",
        patch(edit("0.3")),
        json.dumps({"summary": "s", "edits": json.dumps([edit()])}),
    ],
)
def test_one_answer_is_the_patch(evidence: Evidence, text: str) -> None:
    result, model = answer(evidence, text)
    assert result.stop_reason is StopReason.PATCH_ACCEPTED
    assert (result.config.sizes["4"].wait_ratio, result.usage.requests, result.usage.tool_calls) == (0.3, 1, 0)
    model.assert_consumed()


def test_a_model_that_can_be_constrained_gets_the_schema_of_its_answer(evidence: Evidence) -> None:
    model = Structured([patch(edit())])
    assert ModelEngineer(model, work=WorkSettings(engineering="direct")).design(evidence).patch is not None
    assert model.schema == answer_schema("patch", evidence.config)


def test_the_schemas_take_good_answers_and_no_others(evidence: Evidence) -> None:
    of_patch, of_config = (Draft202012Validator(answer_schema(kind, evidence.config)) for kind in ("patch", "config"))
    assert "$ref" not in json.dumps([of_patch.schema, of_config.schema])
    assert of_patch.is_valid(json.loads(patch(edit())))
    assert not of_patch.is_valid(json.loads(patch(edit(path="/sizes/4/reward"))))
    assert not of_patch.is_valid(json.loads(patch(edit(path="/sizes/9/wait_ratio"))))
    config = json.loads(whole())
    assert of_config.is_valid(config)
    del config["sizes"]["4"]
    assert not of_config.is_valid(config)


def test_a_whole_config_becomes_the_patch_that_leads_to_it(evidence: Evidence) -> None:
    result, _ = answer(evidence, whole(s4={"wait_ratio": 0.3}, s5={"hole_ratio": "0.25"}), how="direct-config")
    assert result.patch is not None
    assert {entry.path: entry.value for entry in result.patch.edits} == {"/sizes/5/hole_ratio": 0.25, "/sizes/4/wait_ratio": 0.3}
    assert result.warnings == ()


def test_the_shares_of_a_whole_config_must_sum_to_1_and_are_not_scaled_in_silence(evidence: Evidence) -> None:
    result, _ = answer(evidence, whole(s3={"data_ratio": 0.2}), whole(s3={"data_ratio": 0.2}, s4={"data_ratio": 0.3}), how="direct-config")
    assert [knobs.data_ratio for _, knobs in result.config.buckets()] == [0.2, 0.3, 0.25, 0.25]
    assert result.usage.requests == 2


@pytest.mark.parametrize(("how", "text"), [("direct", patch()), ("direct-config", whole()), ("direct", "KEEP: all is well")])
def test_no_change_keeps_the_config_on_purpose(evidence: Evidence, how: Engineering, text: str) -> None:
    result, _ = answer(evidence, text, how=how)
    assert (result.stop_reason, result.patch, result.config) == (StopReason.KEPT, None, evidence.config)


BAD = [
    "I updated the config.",
    "",
    patch(edit())[:40],
    patch(edit()).replace('"summary"', '"edits": [], "edits"'),
    '{"summary": "s", "edits": NaN}',
    '{"summary": "s", "edits": 3}',
    '{"edits": ' + "[" * 500 + "]" * 500 + "}",
    patch(edit(1.5)),
    patch(edit(path="/sizes/11/wait_ratio")),
    '{"plan": 1}',
]


@pytest.mark.parametrize("text", BAD)
def test_an_answer_that_is_no_good_may_be_mended_once(evidence: Evidence, text: str) -> None:
    mended, model = answer(evidence, text, patch(edit()))
    assert mended.stop_reason is StopReason.PATCH_ACCEPTED
    last = model.seen[1][-1]
    assert isinstance(last, UserMessage)
    assert "Answer again" in last.content
    twice, _ = answer(evidence, text, text)
    assert (twice.stop_reason, twice.config, twice.usage.requests) == (StopReason.NO_PATCH, evidence.config, 2)


@pytest.mark.parametrize(
    "text", [*BAD[:7], '{"summary": "s", "sizes": {"4": {}}}', whole(s4={"hole_ratio": 0.9}), whole(s4={"wait_ratio": 1.5})]
)
def test_a_whole_config_that_is_no_good_leaves_the_config(evidence: Evidence, text: str) -> None:
    twice, _ = answer(evidence, text, text, how="direct-config")
    assert (twice.stop_reason, twice.config) == (StopReason.NO_PATCH, evidence.config)


@pytest.mark.parametrize("how", ["direct", "direct-config"])
def test_a_direct_session_replays_to_the_same_patch_and_bytes(how: Engineering, tmp_path: Path) -> None:
    evidence = make_evidence({"4": BASE["4"], "5": BASE["5"]})
    config = json.loads(whole(s4={"wait_ratio": 0.3}))
    config["sizes"] = {bucket: {**config["sizes"][bucket], "data_ratio": 0.5} for bucket in ("4", "5")}
    text = patch(edit()) if how == "direct" else json.dumps(config)
    first, _ = answer(evidence, "nonsense", text, how=how, path=tmp_path / "first.jsonl")
    again = make_engineer(f"replay:{tmp_path / 'first.jsonl'}").design(evidence, tmp_path / "again.jsonl")
    assert first.patch is not None
    assert again.patch == first.patch
    assert (tmp_path / "first.jsonl").read_bytes().replace(b'"scripted"', b'""') == (tmp_path / "again.jsonl").read_bytes().replace(
        b'"scripted"', b'""'
    )
    assert read_transcript(tmp_path / "first.jsonl").header.engineering == how


def test_a_model_that_fails_ends_the_session(evidence: Evidence) -> None:
    result, _ = answer(evidence)
    assert (result.stop_reason, result.config) == (StopReason.MODEL_ERROR, evidence.config)


def test_what_the_model_calls_instead_of_answering_is_not_carried_out(evidence: Evidence) -> None:
    step = AssistantMessage.model_validate(
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "propose_patch", "arguments": patch(edit())}}]}
    )
    model = ScriptedModel([step, patch()])
    result = ModelEngineer(model, work=WorkSettings(engineering="direct")).design(evidence)
    assert (result.stop_reason, result.usage.tool_calls) == (StopReason.KEPT, 0)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), how=st.sampled_from(["direct", "direct-config"]))
def test_no_answer_whatever_crashes_and_the_config_changes_only_by_an_accepted_one(
    evidence: Evidence, data: st.DataObject, how: Engineering
) -> None:
    text = patch(edit(0.2)) if how == "direct" else whole(s4={"wait_ratio": 0.2})
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        text = (
            text[:at]
            + data.draw(st.sampled_from(["", '"', "{", "}", "[", "NaN", "1e999", "\\", "\ud800", "null", "<think>", "9"]))
            + text[at + cut :]
        )
    result, _ = answer(evidence, text, text, how=how)
    assert (result.config == evidence.config) is (result.patch is None)
    assert (result.patch is not None) is (result.stop_reason is StopReason.PATCH_ACCEPTED)
    assert all(0 <= knobs.wait_ratio <= 0.35 for _, knobs in result.config.buckets())
