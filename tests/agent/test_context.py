"""Context modules: how they are named, what each shows, and what it hides from the tools."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.agent.context import Bookkeeping, Briefing, build_context
from envwright.agent.context_modules import VARIANTS, ContextModules, parse_context
from envwright.agent.engineers import ModelEngineer
from envwright.agent.evidence_text import visible_evidence
from envwright.agent.limits import Limits
from envwright.agent.rule import RuleModel
from envwright.agent.scripted import ScriptedModel
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.agent.work_settings import Engineering, WorkSettings
from envwright.env.config import KNOB_BOUNDS
from envwright.env.errors import UserError
from envwright.env.rollout import Rollout
from envwright.tools.evidence import Evidence, Rates, StageRecord
from tests.agent.evidence_maker import BASE, make_config, make_evidence

BOOKS = Bookkeeping(stage=2, stages=4, instances=512, training={"learning_rate": 1e-4, "num_generations": 8})


def three_stages() -> Evidence:
    """Stages 0 to 2, the wait ratio of 4x4 boards rising, with validation rollouts of each."""
    made = make_evidence({"4": BASE["4"]}, n=12)
    config = make_config([4])
    rates = Rates(n=24, valid=0.62, optimal=0.5)
    history = tuple(StageRecord(stage=stage, config=config, validation=rates, by_bucket={"4": rates}) for stage in range(3))
    rollouts: list[Rollout] = [rollout.model_copy(update={"stage": stage}) for stage in range(3) for rollout in made.rollouts]
    return Evidence(config=config, rollouts=tuple(rollouts), history=history, seed=3)


def told(spec: str, **more: Any) -> tuple[str, str]:
    """System prompt and user message under a context."""
    modules = parse_context(spec)
    seen = visible_evidence(three_stages(), modules)
    system, user = build_context(Briefing(seen, BOOKS, Limits(), modules, **more))
    return str(system.content), str(user.content)


@given(
    st.builds(
        ContextModules,
        failures=st.booleans(),
        guideline=st.booleans(),
        history=st.sampled_from(["off", "with_default", "without_default"]),
        summary=st.booleans(),
        training=st.sampled_from(["off", "bookkeeping", "full"]),
    )
)
def test_every_set_of_modules_has_a_spelling_that_reads_back(modules: ContextModules) -> None:
    assert parse_context(modules.spec) == modules


@pytest.mark.parametrize(
    ("spec", "same"), [("V1", "F"), ("V2", "G, F"), ("V5", "V4,S"), ("V6", "F,G,H,T"), ("none", "none"), ("V4,Tfull,S", "F,G,H,S,Tfull")]
)
def test_a_variant_is_its_modules(spec: str, same: str) -> None:
    assert parse_context(spec) == parse_context(same)


def test_the_history_has_the_round_0_default_in_v3_alone() -> None:
    kept = {variant: parse_context(variant).history for variant in VARIANTS}
    assert kept == {"V1": "off", "V2": "off", "V3": "with_default", **dict.fromkeys(("V4", "V5", "V6"), "without_default")}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("V7", "no module 'V7'; the modules are F, G, H"),
        ("", "no module ''"),
        ("F,f", "no module 'f'"),
        ("F,F", "F is given twice"),
        ("V3,H", "H and H0 exclude each other"),
        ("T,Tfull", "Tfull and T exclude each other"),
        ("none,F", "no module 'none'"),
    ],
)
def test_a_bad_context_is_one_line_with_the_names_that_there_are(spec: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_context(spec)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("module", "part", "words"),
    [
        ("F", 1, '{"size":4,"wait_required":true,"n":12,"outcomes":{"vertex_conflict":5,"goal_not_reached":1,"optimal":6}}'),
        ("G", 0, "competence frontier"),
        ("H", 1, "stage 1: all 0.62 of 24; 4: 1.000/0.200/0.100 -> 0.62 of 24 (vertex_conflict 5, goal_not_reached 1)"),
        ("T", 1, "Stage 2 (3 of 4) has ended. The next stage draws 512 instances."),
        ("Tfull", 1, "Training: learning_rate 0.0001, num_generations 8"),
    ],
)
def test_each_module_shows_its_part_and_nothing_shows_without_it(module: str, part: int, words: str) -> None:
    assert words in told(module)[part]
    assert words not in told("none")[part]


def test_bookkeeping_alone_shows_no_hyper_parameter() -> None:
    assert "learning_rate" not in told("T")[1]


def test_the_history_with_the_default_begins_at_stage_0_and_without_it_at_stage_1() -> None:
    assert "stage 0: all" in told("H0")[1]
    assert "stage 0: all" not in told("H")[1]
    assert "stage 2: all" in told("H")[1]


def test_knobs_bounds_config_and_limits_are_always_told() -> None:
    system, user = told("none")
    for knob, (_, high) in KNOB_BOUNDS.items():
        assert f"/sizes/<size>/{knob} (0 to {high:g})" in system
    assert "at most 12 replies and 30 tool calls" in system
    assert '"num_agents":2' in user


@pytest.mark.parametrize("answer", ["patch", "config"])
def test_a_direct_prompt_offers_no_tool(answer: str) -> None:
    system, user = told("V6", answer=answer)
    for name in ("propose_patch", "simulate_config", "env_stats"):
        assert name not in system + user
    assert "one JSON object" in system


def test_evidence_without_rollouts_says_so_in_the_place_of_the_breakdown() -> None:
    empty = Evidence(config=make_config([4]), rollouts=())
    _, user = build_context(Briefing(empty, Bookkeeping(stage=0), Limits(), parse_context("F")))
    assert "the evidence holds no rollouts" in str(user.content)


@pytest.mark.parametrize(("spec", "stages"), [("V2", [2]), ("V3", [0, 1, 2]), ("V4", [1, 2])])
def test_tools_do_not_show_the_history_that_the_context_leaves_out(spec: str, stages: list[int], tmp_path: Path) -> None:
    calls: list[Any] = [("env_stats", {}), *(("failure_breakdown", {"by": [], "stage": stage}) for stage in range(3)), "KEEP"]
    ModelEngineer(ScriptedModel(calls), work=WorkSettings(context=spec)).design(three_stages(), tmp_path / "t.jsonl")
    answers = [json.loads(str(m.content)) for m in read_transcript(tmp_path / "t.jsonl").messages if m.role == "tool"]
    assert [entry["stage"] for entry in answers[0]["history"]] == (stages if spec != "V2" else [])
    assert [answer["stage"] for answer in answers[1:] if "error" not in answer] == stages


def test_the_breakdown_of_the_first_message_may_be_cited() -> None:
    edit = {"op": "replace", "path": "/sizes/4/wait_ratio", "value": 0.3, "reason": "6 of 12", "evidence": ["failure_breakdown#0"]}
    proposal = ("propose_patch", {"summary": "s", "edits": [edit]})
    for spec, warned in (("F", []), ("none", ["unknown_evidence"])):
        result = ModelEngineer(ScriptedModel([proposal]), work=WorkSettings(context=spec)).design(make_evidence({"4": BASE["4"]}))
        assert [warning.code for warning in result.warnings] == warned


def test_the_models_own_summary_is_one_more_request_and_stays_in_the_conversation(tmp_path: Path) -> None:
    model = ScriptedModel(["4x4 fails on waits.", "KEEP: fine"])
    result = ModelEngineer(model, work=WorkSettings(context="V5")).design(make_evidence({"4": BASE["4"]}), tmp_path / "t.jsonl")
    recording = read_transcript(tmp_path / "t.jsonl")
    assert (result.stop_reason, result.usage.requests) == (StopReason.KEPT, 2)
    assert [message.content for message in recording.assistant_messages] == ["4x4 fails on waits.", "KEEP: fine"]
    assert "summary" in str(model.seen[0][-1].content)
    assert "4x4 fails on waits." in [message.content for message in model.seen[1]]


@pytest.mark.parametrize("engineering", ["agent", "direct", "direct-config"])
@pytest.mark.parametrize("spec", [*VARIANTS, "none", "V5,Tfull"])
def test_the_rule_gives_the_same_patch_under_every_context_and_way_of_working(spec: str, engineering: Engineering, tmp_path: Path) -> None:
    evidence = replace(make_evidence({"4": BASE["4"]}), history=three_stages().history)
    work = WorkSettings(context=spec, engineering=engineering)
    results = [ModelEngineer(RuleModel(), work=work).design(evidence, tmp_path / name) for name in ("a", "b")]
    assert results[0].patch is not None
    assert [(edit.path, edit.value) for edit in results[0].patch.edits] == [("/sizes/4/wait_ratio", 0.35)]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_transcript(tmp_path / "a").header.context == parse_context(spec).spec
