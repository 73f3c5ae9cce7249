"""Guard rails and approval: what a patch may do, who has the last word, and that the model hears of it."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envwright.agent.approval import Approved, AutoApproval, HumanApproval, PolicyApproval, Rejected, make_approval
from envwright.agent.engineers import ModelEngineer, make_engineer
from envwright.agent.guardrails import GuardRails, judge, read_guard_rails
from envwright.agent.messages import ToolMessage
from envwright.agent.oversight import oversee
from envwright.agent.rule import RuleModel
from envwright.agent.scripted import ScriptedModel
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.agent.visible import visible
from envwright.agent.work_settings import WorkSettings
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.patch import PatchCheck
from envwright.tools.evidence import Evidence
from envwright.tools.propose_patch import judge as check
from tests.agent.evidence_maker import BASE, Rates, make_config, make_evidence

STRICT = GuardRails(bounds="refuse")
OFF = GuardRails(bounds="refuse", healthy="off", evidence="off")


def edit(path: str, value: float) -> dict[str, Any]:
    return {"op": "replace", "path": f"/sizes/{path}", "value": value, "reason": "counts", "evidence": ["failure_breakdown#1"]}


def judged(evidence: Evidence, rails: GuardRails, *edits: dict[str, Any], known: Sequence[str] | None = None) -> PatchCheck:
    return judge(check({"summary": "s", "edits": list(edits)}, evidence, known), evidence, rails)


def errors(result: PatchCheck) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in result.errors]


@pytest.mark.parametrize(
    ("edits", "rails", "expected"),
    [
        ([edit("4/wait_ratio", 0.35)], {}, []),
        ([edit("4/wait_ratio", 0.36)], {}, [("/sizes/4/wait_ratio", "step_too_large")]),
        ([edit("4/hole_ratio", 0.3)], {}, []),
        ([edit("4/hole_ratio", 0.31)], {}, [("/sizes/4/hole_ratio", "step_too_large")]),
        ([edit("4/hole_ratio", 0.05)], {}, [("/sizes/4/hole_ratio", "step_too_large")]),
        ([edit("4/data_ratio", 0.5)], {}, []),
        ([edit("4/data_ratio", 0.06)], {"max_data_step": 1}, [("/sizes/4/data_ratio", "starved_size")]),
        ([edit("4/data_ratio", 0.0625)], {"max_data_step": 1}, []),
        ([edit("4/data_ratio", 0.9)], {"max_data_step": 1}, [(f"/sizes/{size}/data_ratio", "starved_size") for size in (3, 5, 6)]),
        ([edit("4/wait_ratio", 0.2), edit("4/hole_ratio", 0.1)], {"max_edits": 1}, [("/edits", "too_many_edits")]),
    ],
)
def test_each_bound_refuses_what_is_beyond_it_and_nothing_else(
    evidence: Evidence, edits: list[dict[str, Any]], rails: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    result = judged(evidence, OFF.model_copy(update=rails), *edits)
    assert errors(result) == expected
    assert result.accepted is not bool(expected)
    if expected:
        assert (result.config, result.diff, result.patch) == (evidence.config, (), None)


def test_by_default_a_patch_beyond_the_bounds_is_accepted_with_a_warning(evidence: Evidence) -> None:
    result = judged(evidence, GuardRails(), edit("4/wait_ratio", 0.9), edit("4/data_ratio", 0.01))
    assert result.accepted
    assert {"step_too_large", "starved_size"} <= {problem.code for problem in result.warnings}


def test_a_refusal_names_the_bound_and_a_value_that_passes(evidence: Evidence) -> None:
    (problem,) = judged(evidence, OFF, edit("4/wait_ratio", 0.9)).errors
    assert problem.message == "wait_ratio would go from 0.1 to 0.9; it may change by at most 0.25 in a stage: choose 0.35 or nearer to 0.1"
    assert judged(evidence, OFF, edit("4/wait_ratio", 0.35)).accepted


@pytest.mark.parametrize(
    ("rates", "healthy"),
    [((40, 48), True), ((12, 48), False), ((57, 58), False), ((30, 30), True), ((29, 60), False)],
)
def test_a_healthy_size_is_one_whose_kinds_both_succeed_and_that_is_not_saturated(rates: tuple[int, int], healthy: bool) -> None:
    evidence = make_evidence({"4": rates, "5": (0, 0)})
    warned = judged(evidence, GuardRails(), edit("4/wait_ratio", 0.2))
    assert ("healthy_untouched" in [problem.code for problem in warned.warnings]) is healthy
    assert judged(evidence, GuardRails(healthy="refuse"), edit("4/wait_ratio", 0.2)).accepted is not healthy


@pytest.mark.parametrize(
    ("severity", "accepted", "warned"), [("off", True, []), ("warn", True, ["unknown_evidence"]), ("refuse", False, [])]
)
def test_edits_without_evidence_are_as_grave_as_the_rails_say(evidence: Evidence, severity: Any, accepted: bool, warned: list[str]) -> None:
    result = judged(evidence, GuardRails(evidence=severity), edit("4/wait_ratio", 0.2), known=["env_stats#1"])
    assert (result.accepted, [problem.code for problem in result.warnings]) == (accepted, warned)
    assert [problem.code for problem in result.errors] == ([] if accepted else ["unknown_evidence"])


def test_a_size_that_the_generator_cannot_fill_is_refused() -> None:
    knobs = {"data_ratio": 0.5, "hole_ratio": 0.4, "wait_ratio": 0.0}
    config = GeneratorConfig.parse({"num_agents": 6, "sizes": {"3": knobs, "4": {**knobs, "hole_ratio": 0.0}}}, "crowded")
    crowded = Evidence(config=config, rollouts=())
    assert errors(judged(crowded, OFF, edit("3/hole_ratio", 0.5))) == [("/sizes/3", "infeasible")]
    assert judged(crowded, OFF.model_copy(update={"infeasible": "warn"}), edit("3/hole_ratio", 0.5)).accepted


_rate = st.integers(0, 60)


@settings(max_examples=15, deadline=None)
@given(
    rates=st.fixed_dictionaries({str(size): st.tuples(_rate, _rate) for size in range(3, 7)}),
    hole=st.sampled_from([0.0, 0.1, 0.2, 0.35]),
    wait=st.sampled_from([0.0, 0.1, 0.5, 0.75]),
)
def test_the_rules_patches_pass_the_rails_when_their_bounds_are_strict(rates: Rates, hole: float, wait: float) -> None:
    evidence = make_evidence(rates, config=make_config(range(3, 7), hole=hole, wait=wait))
    free = ModelEngineer(RuleModel(), work=WorkSettings(engineering="direct", guard_rails=None)).design(evidence)
    railed = ModelEngineer(RuleModel(), work=WorkSettings(engineering="direct", guard_rails=STRICT)).design(evidence)
    assert railed.config == free.config


def test_a_refusal_by_the_rails_goes_back_to_the_model_and_can_be_mended(evidence: Evidence, tmp_path: Path) -> None:
    far, near = ({"summary": "s", "edits": [edit("4/wait_ratio", value)]} for value in (0.9, 0.3))
    model = ScriptedModel([("propose_patch", far), ("propose_patch", near)])
    result = ModelEngineer(model, work=WorkSettings(guard_rails=STRICT)).design(evidence, tmp_path / "t.jsonl")
    assert result.config.sizes["4"].wait_ratio == 0.3
    answer = next(message for message in model.seen[1] if isinstance(message, ToolMessage))
    assert json.loads(answer.content)["errors"][0]["code"] == "step_too_large"


def test_the_rule_drops_the_edit_that_the_rails_refuse() -> None:
    evidence = make_evidence({"4": BASE["4"], "5": (4, 39)})
    result = ModelEngineer(RuleModel(), work=WorkSettings(guard_rails=GuardRails(bounds="refuse", max_wait_step=0.2))).design(evidence)
    assert result.patch is None or all(abs(change.after - change.before) <= 0.2 for change in result.diff)
    assert result.stop_reason in (StopReason.PATCH_ACCEPTED, StopReason.KEPT)


class OneByOne:
    """Rejects the first patches."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = list(reasons)

    def decide(self, check: PatchCheck, evidence: Evidence) -> Approved | Rejected:
        return Rejected(self.reasons.pop(0)) if self.reasons else Approved()


@pytest.mark.parametrize("engineering", ["agent", "direct"])
def test_a_rejections_reason_goes_back_to_the_model_and_the_session_replays(evidence: Evidence, engineering: Any, tmp_path: Path) -> None:
    first, second = ({"summary": "s", "edits": [edit("4/wait_ratio", value)]} for value in (0.2, 0.3))
    steps: list[Any] = [("propose_patch", first), ("propose_patch", second)]
    model = ScriptedModel(steps if engineering == "agent" else [json.dumps(first), json.dumps(second)])
    engineer = ModelEngineer(model, work=WorkSettings(engineering=engineering), approval=OneByOne("waits are fine on 4x4"))
    result = engineer.design(evidence, tmp_path / "t.jsonl")
    assert result.config.sizes["4"].wait_ratio == 0.3
    assert "waits are fine on 4x4" in str(model.seen[1][-1].content)
    assert read_transcript(tmp_path / "t.jsonl").end.rejections == ("waits are fine on 4x4",)
    again = make_engineer(f"replay:{tmp_path / 't.jsonl'}").design(evidence, tmp_path / "again.jsonl")
    assert again.patch == result.patch
    assert (tmp_path / "t.jsonl").read_bytes() == (tmp_path / "again.jsonl").read_bytes()


def test_a_rejected_rule_keeps_the_config(evidence: Evidence) -> None:
    result = ModelEngineer(RuleModel(), approval=OneByOne("not now", "no", "no")).design(evidence)
    assert (result.stop_reason, result.config) == (StopReason.KEPT, evidence.config)
    assert result.note.endswith("the last refusal: not now")


def test_a_policy_approves_what_stays_within_its_own_rails(evidence: Evidence) -> None:
    policy = PolicyApproval(GuardRails(max_wait_step=0.05), "the policy of p.json")
    small, large = (judged(evidence, OFF, edit("4/wait_ratio", value)) for value in (0.15, 0.3))
    assert policy.decide(small, evidence) == Approved()
    decision = policy.decide(large, evidence)
    assert isinstance(decision, Rejected)
    assert decision.reason.startswith("the policy of p.json: /sizes/4/wait_ratio: wait_ratio would go from 0.1 to 0.3")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("y\n", Approved()),
        ("YES\n", Approved()),
        ("n too many waits\n", Rejected("too many waits")),
        ("no\n", Rejected("rejected without a reason")),
        ("what?\n\ny\n", Approved()),
    ],
)
def test_a_person_is_shown_the_patch_and_asked(evidence: Evidence, typed: str, decision: object) -> None:
    shown = io.StringIO()
    approval = make_approval("human", stdin=Terminal(typed), stderr=shown)
    proposal = {"summary": "red \x1b[31malert\x1b[0m", "edits": [edit("4/wait_ratio", 0.3)]}
    assert approval.decide(check(proposal, evidence), evidence) == decision
    assert "/sizes/4/wait_ratio    0.100 -> 0.300   counts" in shown.getvalue()
    assert "\x1b" not in shown.getvalue()
    assert r"red \x1b[31malert" in shown.getvalue()


def test_the_end_of_input_cancels_the_session(evidence: Evidence, tmp_path: Path) -> None:
    approval = make_approval("human", stdin=Terminal(""), stderr=io.StringIO())
    with pytest.raises(KeyboardInterrupt):
        ModelEngineer(RuleModel(), approval=approval).design(evidence, tmp_path / "t.jsonl")
    assert read_transcript(tmp_path / "t.jsonl").end.stop_reason == "cancelled"


def test_human_approval_needs_a_terminal() -> None:
    with pytest.raises(UserError, match="asks on the terminal, and stdin is none; use --approval auto"):
        make_approval("human", stdin=io.StringIO("y\n"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"max_edits": 0}', "max_edits"),
        ('{"max_step": 1}', "max_step"),
        ('{"healthy": "maybe"}', "healthy"),
        ('{"max_edits": 1, "max_edits": 2}', "repeated"),
        ('{"min_share": NaN}', "NaN"),
        ("[]", "valid dictionary"),
    ],
)
def test_a_bad_policy_file_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    path.write_text(text, encoding="utf-8")
    for read in (lambda: read_guard_rails(path), lambda: make_approval(str(path))):
        with pytest.raises(UserError) as caught:
            read()
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_an_unknown_approval_is_one_line() -> None:
    with pytest.raises(UserError, match="neither auto nor human, nor a JSON file"):
        make_approval("sometimes")


@pytest.mark.parametrize("spec", ["random", "learnability"])
def test_approval_is_refused_for_engineers_without_a_session(spec: str) -> None:
    human = HumanApproval(lambda check: Approved())
    with pytest.raises(UserError, match="use --approval auto"):
        oversee(make_engineer(spec), WorkSettings(), human)
    assert oversee(make_engineer(spec), WorkSettings(), AutoApproval()).name == spec
    assert oversee(make_engineer("fixed"), WorkSettings(), human).name == "fixed"


@pytest.mark.parametrize(
    ("text", "shown"), [("a\x1b[2Jb", r"a\x1b[2Jb"), ("line\nbreak", r"line\nbreak"), ("\u202eevil", r"\u202eevil"), ("é 北 '", "é 北 '")]
)
def test_control_characters_are_shown_and_never_carried_out(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible("a\n\x07", lines=True) == "a\n\\x07"
