import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from envwright.env.instance import Instance
from envwright.env.patch import PatchCheck
from envwright.tools.arguments import inline_references
from envwright.tools.errors import ToolError, ToolErrorCode
from envwright.tools.evidence import Evidence
from envwright.tools.registry import TOOLS, Toolbox
from envwright.tools.results import ToolResult

NAMES = ("failure_breakdown", "env_stats", "sample_maps", "simulate_config", "propose_patch")
ARGUMENTS: dict[str, Any] = {
    "failure_breakdown": {"by": ["size", "outcome"]},
    "env_stats": {},
    "sample_maps": {},
    "simulate_config": {"edits": [{"path": "/sizes/4/hole_ratio", "value": 0.1}], "n": 4},
    "propose_patch": {"summary": "s", "edits": [{"path": "/sizes/4/hole_ratio", "value": 0.1, "reason": "r"}]},
}


def failure(result: ToolResult) -> tuple[str, str]:
    assert result.error is not None
    assert (result.id, result.content) == (None, None)
    return result.error.code.value, result.error.message


def test_the_five_tools_have_inlined_closed_and_described_schemas(toolbox: Toolbox) -> None:
    assert toolbox.names == NAMES
    specs = toolbox.specs()
    assert [spec["function"]["name"] for spec in specs] == list(NAMES)
    for spec in specs:
        function = spec["function"]
        assert (spec["type"], sorted(function)) == ("function", ["description", "name", "parameters"])
        Draft202012Validator.check_schema(function["parameters"])
        text = json.dumps(function["parameters"])
        assert "$ref" not in text
        assert "$defs" not in text
        assert function["description"]
        for node in objects_in(function["parameters"]):
            assert node["additionalProperties"] is False
            assert all(part.get("description") for part in node["properties"].values())


def objects_in(node: Any) -> list[dict[str, Any]]:
    children = list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
    return ([node] if isinstance(node, dict) and isinstance(node.get("properties"), dict) else []) + [
        found for child in children for found in objects_in(child)
    ]


def test_argument_names_and_defaults_are_the_contract() -> None:
    def shape(name: str) -> dict[str, Any]:
        parameters = TOOLS[name].parameters
        return {key: part.get("default", ...) for key, part in parameters["properties"].items()}

    assert shape("failure_breakdown") == {"by": ..., "split": "validation", "stage": None}
    assert shape("env_stats") == {"stage": None}
    assert shape("sample_maps") == {
        "n": 3,
        "size": None,
        "outcome": None,
        "wait_required": None,
        "num_agents": None,
        "split": "validation",
        "stage": None,
    }
    assert shape("simulate_config") == {"edits": ..., "n": 32}
    assert shape("propose_patch") == {"summary": ..., "edits": ...}


@pytest.mark.parametrize("name", NAMES)
def test_answers_fit_their_schema_are_plain_json_and_repeat_exactly(evidence: Evidence, name: str) -> None:
    result = Toolbox(evidence).call(name, ARGUMENTS[name])
    assert result.content is not None, result.error
    Draft202012Validator(TOOLS[name].output_schema).validate(result.content)
    assert json.loads(json.dumps(result.content, allow_nan=False)) == result.content
    assert json.loads(result.text()) == {"id": f"{name}#1", **result.content}
    assert Toolbox(evidence).call(name, json.dumps(ARGUMENTS[name])) == result


def test_results_are_numbered_per_tool_and_errors_take_no_number(toolbox: Toolbox) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("failure_breakdown", {"by": []}),
        ("failure_breakdown", {"by": 3}),
        ("sample_maps", {}),
        ("failure_breakdown", {"by": []}),
    ]
    assert [toolbox.call(name, arguments).id for name, arguments in calls] == [
        "failure_breakdown#1",
        None,
        "sample_maps#1",
        "failure_breakdown#2",
    ]


def test_an_unknown_tool_lists_the_tools_and_names_the_closest(toolbox: Toolbox) -> None:
    listing = "the tools are failure_breakdown, env_stats, sample_maps, simulate_config, propose_patch"
    assert failure(toolbox.call("failure_brekdown", "{}")) == (
        "unknown_tool",
        f"there is no tool 'failure_brekdown' (did you mean 'failure_breakdown'?); {listing}",
    )
    assert failure(toolbox.call("rm", "{}")) == ("unknown_tool", f"there is no tool 'rm'; {listing}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not valid JSON"),
        ("[]", "got an array"),
        ("null", "got null"),
        ('"x"', "not valid JSON"),
        ("3", "got a number"),
        ('{"by": [], "by": ["size"]}', "the key 'by' is repeated"),
        ('{"stage": NaN}', "NaN is not a JSON number"),
        ('{"stage": 1e999}', "too large"),
        ('{"by": []} {"by": []}', "not valid JSON"),
        ('{"by": ' + "[" * 400 + "]" * 400 + "}", "nested deeper than 20 levels"),
        ('{"by": ' + "[" * 100_000, "nested too deeply"),
        ('{"by": ["\\ud800"]}', "half a surrogate pair"),
    ],
)
@pytest.mark.parametrize("name", ["failure_breakdown", "propose_patch"])
def test_arguments_that_are_no_strict_json_object_are_bad_json(toolbox: Toolbox, name: str, text: str, words: str) -> None:
    code, message = failure(toolbox.call(name, text))
    assert code == "bad_json"
    assert words in message


def test_arguments_encoded_twice_are_decoded_once_more(toolbox: Toolbox) -> None:
    assert toolbox.call("failure_breakdown", json.dumps('{"by": ["size"]}')).error is None
    assert failure(toolbox.call("failure_breakdown", json.dumps(json.dumps('{"by": ["size"]}'))))[0] == "bad_json"


def test_values_given_as_text_are_read_once_and_said_so(toolbox: Toolbox) -> None:
    result = toolbox.call("sample_maps", {"n": "2", "size": "3", "wait_required": "false", "stage": "null"})
    assert result.content is not None, result.error
    assert [sample["bucket"] for sample in result.content["samples"]] == ["3", "3"]
    assert result.coerced == (
        "n: the string was read as the number 2 that it holds",
        "size: the string was read as the number 3 that it holds",
        "wait_required: the string was read as the value false that it holds",
        "stage: the string was read as the value null that it holds",
    )
    assert json.loads(result.text())["coerced"] == list(result.coerced)
    assert toolbox.call("failure_breakdown", {"by": '["size"]'}).coerced == ("by: the string was read as the list that it holds",)
    assert failure(toolbox.call("failure_breakdown", {"by": '"[]"'})) == ("validation_failed", "by: Input should be a list (got '\"[]\"')")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        (
            "failure_breakdown",
            {"by": [], "splt": "train"},
            "unknown argument 'splt' (did you mean 'split'?); known arguments: by, split, stage",
        ),
        ("failure_breakdown", {}, "by: Field required"),
        ("failure_breakdown", {"by": "size"}, "by: Input should be a list (got 'size')"),
        ("sample_maps", {"n": 21}, "n: Input should be less than or equal to 20 (got 21)"),
        ("sample_maps", {"n": 2.5}, "n: Input should be a valid integer (got 2.5)"),
        ("sample_maps", {"n": True}, "n: Input should be a valid integer (got True)"),
        ("sample_maps", {"wait_required": 1}, "wait_required: Input should be a valid boolean (got 1)"),
        ("simulate_config", {"edits": [], "n": 201}, "n: Input should be less than or equal to 200 (got 201)"),
        ("env_stats", {"stage": -1}, "stage: Input should be greater than or equal to 0 (got -1)"),
    ],
)
def test_arguments_that_break_a_rule_are_told_the_rule(toolbox: Toolbox, name: str, arguments: dict[str, Any], message: str) -> None:
    assert failure(toolbox.call(name, arguments)) == ("validation_failed", message)


def test_a_budget_drops_whole_rows_and_says_how_many(toolbox: Toolbox) -> None:
    result = toolbox.call("failure_breakdown", {"by": ["size", "wait_required", "outcome"]})
    assert result.content is not None
    whole = result.text()
    assert result.text(len(whole)) == whole
    short = result.text(len(whole) // 8)
    document = json.loads(short)
    assert len(short) <= len(whole) // 8 * 4
    assert document["dropped_rows"] == len(result.content["rows"]) - len(document["rows"]) > 0
    assert document["dropped_from"] == ["rows"]
    assert document["rows"] == result.content["rows"][: len(document["rows"])]
    assert document["totals"] == result.content["totals"]


def test_text_is_never_cut_even_when_the_budget_cannot_be_met(toolbox: Toolbox) -> None:
    result = toolbox.call("propose_patch", ARGUMENTS["propose_patch"])
    document = json.loads(result.text(1))
    assert result.content is not None
    assert (document["config"], document["patch"]) == (result.content["config"], result.content["patch"])
    assert document["id"] == "propose_patch#1"


def test_what_to_mend_is_dropped_last(toolbox: Toolbox) -> None:
    rows = [{"path": f"/sizes/{index}", "message": "x" * 40} for index in range(20)]
    document = json.loads(ToolResult(id="a#1", name="a", content={"errors": rows, "diff": rows[:5]}).text(100))
    assert document["diff"] == []
    assert 0 < len(document["errors"]) < 20
    assert document["dropped_rows"] == 25 - len(document["errors"])
    assert document["dropped_from"] == ["diff", "errors"]


def test_the_name_of_an_unknown_tool_is_not_repeated_at_any_length(toolbox: Toolbox) -> None:
    assert len(failure(toolbox.call("x" * 100_000, "{}"))[1]) < 300


def ticking(step: float) -> Callable[[], float]:
    ticks = count()
    return lambda: step * next(ticks)


def test_a_simulation_that_takes_too_long_is_a_timeout_that_says_how_to_ask_for_less(evidence: Evidence) -> None:
    edits = [{"path": "/sizes/3/hole_ratio", "value": 0.23, "reason": "r"}]  # knobs that no other test has tried
    toolbox = Toolbox(evidence, seconds=3.5, clock=ticking(1.0))
    code, message = failure(toolbox.call("simulate_config", {"edits": edits, "n": 5}))
    assert code == "timeout"
    assert message.startswith("the call took longer than 3.5 s: ")
    assert message.endswith("with a smaller n")


def test_no_time_is_left_for_the_policy_either(evidence: Evidence) -> None:
    asked: list[int] = []

    def probe(instances: Sequence[Instance]) -> list[list[bool]]:
        asked.append(len(instances))
        return [[True] for _ in instances]

    slow = replace(evidence, probe=probe)
    code, _ = failure(Toolbox(slow, seconds=4.5, clock=ticking(1.0)).call("simulate_config", {"edits": [], "n": 4}))
    assert (code, asked) == ("timeout", [])


def test_within_the_bound_the_answer_does_not_depend_on_the_clock(evidence: Evidence) -> None:
    call = ("simulate_config", {"edits": [], "n": 4})
    assert Toolbox(evidence).call(*call) == Toolbox(evidence, seconds=100, clock=ticking(1.0)).call(*call)


def test_a_proposal_whose_feasibility_there_is_no_time_to_check_says_so(evidence: Evidence) -> None:
    edits = [{"path": f"/sizes/{size}/hole_ratio", "value": 0.24, "reason": "r"} for size in (3, 4)]  # tried by no other test
    result = Toolbox(evidence, seconds=2.5, clock=ticking(1.0), one_shot=True).call("propose_patch", {"summary": "s", "edits": edits})
    assert result.content is not None
    assert result.content["accepted"] is True
    told = [warning["path"] for warning in result.content["warnings"] if warning["code"] == "not_checked"]
    assert len(told) == 1
    assert told[0] in ("/sizes/3", "/sizes/4")


def test_an_example_of_every_tool_fits_its_schema_once_a_size_is_named(toolbox: Toolbox) -> None:
    for tool in TOOLS.values():
        Draft202012Validator(tool.parameters).validate(json.loads(tool.example.replace("<size>", "4")))
        assert toolbox.call(tool.name, tool.example.replace("<size>", "4")).error is None


def test_a_review_has_the_last_word_on_a_proposal(evidence: Evidence) -> None:
    def refuse(check: PatchCheck, seen: Evidence) -> PatchCheck:
        return check.model_copy(update={"accepted": False, "config": seen.config})

    toolbox = Toolbox(evidence, review=refuse)
    result = toolbox.call("propose_patch", ARGUMENTS["propose_patch"])
    assert result.content is not None
    assert result.content["accepted"] is False
    assert toolbox.accepted is None


def test_results_shown_before_the_session_may_be_cited_and_a_single_call_is_not_asked_for_any(evidence: Evidence) -> None:
    edit = {"path": "/sizes/4/hole_ratio", "value": 0.1, "reason": "r", "evidence": ["failure_breakdown#0"]}

    def codes(toolbox: Toolbox) -> list[str]:
        result = toolbox.call("propose_patch", {"summary": "s", "edits": [edit]})
        assert result.content is not None
        return [warning["code"] for warning in result.content["warnings"]]

    assert codes(Toolbox(evidence)) == ["unknown_evidence"]
    assert codes(Toolbox(evidence, shown=["failure_breakdown#0"])) == []
    assert codes(Toolbox(evidence, one_shot=True)) == []


def test_an_error_is_told_in_words_and_json(toolbox: Toolbox) -> None:
    assert json.loads(toolbox.call("env_stats", "[]").text(1)) == {
        "error": {"code": "bad_json", "message": "the arguments must be a JSON object, got an array; for no arguments give {}"}
    }


def test_a_schema_that_refers_to_itself_is_refused() -> None:
    loop = {"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}}
    with pytest.raises(ValueError, match="refers to itself"):
        inline_references(loop)


def test_a_property_that_is_named_title_stays() -> None:
    schema = {"title": "T", "type": "object", "properties": {"title": {"title": "Title", "type": "string"}}}
    assert inline_references(schema) == {"type": "object", "properties": {"title": {"type": "string"}}}


def test_tool_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(ToolError(ToolErrorCode.TIMEOUT, "too slow")))
    assert (error.code, str(error)) == (ToolErrorCode.TIMEOUT, "timeout: too slow")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["size", "0.5", "/sizes/4/wait_ratio", "[]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["op", "path", "value", "reason", "by", "evidence"]) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_arguments_whatever_crash_a_tool(evidence: Evidence, name: str, data: st.DataObject) -> None:
    known = list(TOOLS[name].parameters["properties"])
    # An unknown argument keeps `env_stats` and `simulate_config` from generating boards 40 times over.
    arguments = data.draw(st.fixed_dictionaries({"broken": JSON}, optional=dict.fromkeys(known, JSON)))
    if name in ("failure_breakdown", "propose_patch", "sample_maps") and data.draw(st.booleans()):
        arguments.pop("broken")
    result = Toolbox(evidence).call(name, arguments)
    assert (result.content is None) != (result.error is None)
    json.loads(result.text(200))


def test_importing_the_tools_is_light() -> None:
    heavy = {"torch", "openai", "rich", "transformers"}
    code = f"import sys, envwright.tools.registry; sys.exit(str({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
