"""The competence-frontier rule: what it plans, and how it plays the protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from envwright.agent.context import Bookkeeping, Briefing, build_context
from envwright.agent.engineers import ModelEngineer, make_engineer
from envwright.agent.frontier import (
    FLOOR,
    HOLE_STEP,
    MAX_EDITS,
    WAIT_MAX,
    WAIT_STEP,
    Counts,
    SizeEvidence,
    mixed_chance,
    plan_edits,
)
from envwright.agent.limits import Limits
from envwright.agent.loop import SessionResult, run_session
from envwright.agent.messages import AssistantMessage, ToolMessage
from envwright.agent.models import ModelError
from envwright.agent.redesign import Redesign
from envwright.agent.rule import RuleModel
from envwright.agent.stop import StopReason
from envwright.agent.transcript import SessionHeader
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.instance import Instance
from envwright.env.patch import PatchCheck
from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox
from envwright.tools.results import ToolResult
from tests.agent.evidence_maker import BASE, make_config, make_evidence


def sizes(**rates: tuple[int, int]) -> dict[str, SizeEvidence]:
    """`s4=(6, 48)`: valid of 60 wait-required and of 60 wait-free boards."""
    return {
        name[1:]: SizeEvidence(*(Counts({"optimal": valid, "vertex_conflict": 60 - valid}) for valid in pair))
        for name, pair in rates.items()
    }


def plan(config: GeneratorConfig, **rates: tuple[int, int]) -> dict[str, float]:
    return {edit.path: edit.value for edit in plan_edits(config, sizes(**rates))}


def test_a_policy_that_only_lacks_coordination_gets_more_wait_required_boards() -> None:
    assert plan(make_config([4, 5]), s4=(6, 48), s5=(4, 45)) == {"/sizes/4/wait_ratio": 0.35, "/sizes/5/wait_ratio": 0.35}


@pytest.mark.parametrize("wait", [0.0, 0.25, 0.5, 0.6, 0.75, 1.0])
@pytest.mark.parametrize("pair", [(0, 0), (0, 30), (3, 40), (12, 50), (30, 55), (55, 60), (60, 60), (50, 10)])
def test_every_step_is_bounded_and_stays_in_range(wait: float, pair: tuple[int, int]) -> None:
    for edit in plan_edits(make_config([4, 5], wait=wait), sizes(s4=pair, s5=(12, 40))):
        step = {"wait_ratio": WAIT_STEP, "hole_ratio": HOLE_STEP, "data_ratio": 0.25}[edit.knob]
        assert 0 < abs(edit.value - edit.before) <= step + 1e-9
        assert edit.knob != "wait_ratio" or edit.value <= max(WAIT_MAX, wait)


def test_a_healthy_size_is_left_alone() -> None:
    assert plan(make_config([4], wait=0.7), s4=(24, 48)) == {}


def test_practice_that_is_too_hard_gets_fewer_wait_required_boards() -> None:
    assert plan(make_config([4], wait=0.75), s4=(2, 30)) == {"/sizes/4/wait_ratio": 0.5}


def test_a_mastered_size_gets_a_little_harder_and_gives_up_share() -> None:
    edits = plan(make_config([3, 4], wait=0.5), s3=(59, 60), s4=(20, 34))
    assert edits == {"/sizes/3/hole_ratio": 0.25, "/sizes/3/data_ratio": 0.375}


def test_a_size_out_of_reach_gets_easier_and_gives_up_share_but_is_not_abandoned() -> None:
    config = make_config([4, 10])
    assert plan(config, s4=(20, 40), s10=(0, 0))["/sizes/10/data_ratio"] == 0.375
    for _ in range(30):
        edits = plan(config, s4=(20, 40), s10=(0, 0))
        if "/sizes/10/data_ratio" not in edits:
            break
        share = edits["/sizes/10/data_ratio"]
        knobs = {bucket: values.model_dump() for bucket, values in config.buckets()}
        knobs["10"]["data_ratio"], knobs["4"]["data_ratio"] = share, 1 - share
        config = GeneratorConfig.parse({"num_agents": 2, "sizes": knobs}, "next")
    assert config.sizes["10"].data_ratio == FLOOR / 2


def test_without_a_size_that_can_use_it_no_share_moves() -> None:
    assert not [path for path in plan(make_config([3, 4], wait=0.5), s3=(60, 60), s4=(60, 60)) if path.endswith("data_ratio")]


def test_boards_never_solved_are_only_tried_when_a_policy_can_vouch_for_them() -> None:
    (edit,) = plan_edits(make_config([4]), sizes(s4=(0, 48)))
    assert edit.tentative
    assert edit.value == 0.225


def test_few_samples_give_no_edit() -> None:
    evidence = {"4": SizeEvidence(Counts({"vertex_conflict": 9}), Counts({"optimal": 9}))}
    assert plan_edits(make_config([4]), evidence) == []


def test_edits_are_few_and_the_largest_shares_come_first() -> None:
    config = make_config(range(3, 11))
    edits = plan_edits(config, sizes(**{f"s{size}": (6, 48) for size in range(3, 11)}))
    assert len(edits) == MAX_EDITS


def test_reasons_quote_the_commonest_failure() -> None:
    (edit,) = plan_edits(
        make_config([4]),
        {"4": SizeEvidence(Counts({"vertex_conflict": 41, "hole": 13, "optimal": 6}), Counts({"optimal": 48, "hole": 12}))},
    )
    assert edit.reason.startswith("4x4: 41 of 60 wait-required boards end in vertex_conflict, 6 of 60 are valid against 48 of 60")


def test_mixed_groups_are_certain_nowhere_and_likeliest_in_the_middle() -> None:
    assert mixed_chance(0.0) == mixed_chance(1.0) == 0.0
    assert mixed_chance(0.5) == pytest.approx(1 - 2 / 256)


def redesign(evidence: Evidence, path: Path | None = None) -> Redesign:
    return make_engineer("rule").design(evidence, path)


TWO = {"4": BASE["4"], "5": BASE["5"]}


def test_the_rule_looks_then_tries_then_proposes_and_cites_what_it_saw(tmp_path: Path) -> None:
    result = redesign(make_evidence(TWO), tmp_path / "t.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    calls = [call["function"]["name"] for line in lines for call in line.get("tool_calls", [])]
    assert calls == ["failure_breakdown", "simulate_config", "propose_patch"]
    assert result.stop_reason is StopReason.PATCH_ACCEPTED
    assert result.warnings == ()
    assert result.patch is not None
    assert {edit.path: (edit.value, edit.evidence) for edit in result.patch.edits} == {
        f"/sizes/{size}/wait_ratio": (0.35, ("failure_breakdown#1", "simulate_config#1")) for size in (4, 5)
    }


def test_the_transcript_is_the_same_to_the_byte_for_the_same_evidence(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    redesign(make_evidence(TWO, probe=coin), first)
    redesign(make_evidence(TWO, probe=coin), second)
    assert first.read_bytes() == second.read_bytes()
    assert b"seconds" not in first.read_bytes().splitlines()[-1]


def coin(instances: Sequence[Instance]) -> list[list[bool]]:
    """Solves half of the group on wait-required boards, all of it elsewhere."""
    return [[not instance.wait_required or index < 4 for index in range(8)] for instance in instances]


def loses(instances: Sequence[Instance]) -> list[list[bool]]:
    """Gets mixed groups on wait-free boards alone."""
    return [[not instance.wait_required and index < 4 for index in range(8)] for instance in instances]


def tools_called(evidence: Evidence) -> tuple[list[str], Redesign, list[Any]]:
    toolbox = Toolbox(evidence)
    result = session(toolbox, evidence)
    calls = [call for message in result.messages if isinstance(message, AssistantMessage) for call in message.tool_calls]
    redesigned = Redesign.of(evidence.config, result.accepted, result.stop_reason, result.note, result.usage)
    return [call.function.name for call in calls], redesigned, [json.loads(call.function.arguments) for call in calls]


def session(toolbox: Any, evidence: Evidence) -> SessionResult:
    context = build_context(Briefing(evidence, Bookkeeping(stage=0), Limits()))
    return run_session(RuleModel(), toolbox, context, header=SessionHeader(model="rule", config_hash=""))


def test_fewer_predicted_mixed_groups_halve_the_step_once_and_then_keep_the_config() -> None:
    names, result, arguments = tools_called(make_evidence({**TWO, "6": BASE["6"]}, probe=loses))
    assert names == ["failure_breakdown", "simulate_config", "simulate_config"]
    assert [call["edits"][0]["value"] for call in arguments[1:]] == [0.35, 0.225]
    assert result.stop_reason is StopReason.KEPT


def test_a_halved_step_that_loses_nothing_clear_is_proposed() -> None:
    names, result, _ = tools_called(make_evidence({"4": BASE["4"]}, probe=loses))
    assert names == ["failure_breakdown", "simulate_config", "simulate_config", "propose_patch"]
    assert result.config.sizes["4"].wait_ratio == 0.225


def test_a_policy_at_hand_vouches_for_boards_that_validation_never_saw_solved() -> None:
    _, result, _ = tools_called(make_evidence({"4": (0, 48)}, probe=coin))
    assert result.config.sizes["4"].wait_ratio == 0.225
    _, kept, _ = tools_called(make_evidence({"4": (0, 48)}))
    assert kept.stop_reason is StopReason.KEPT


class Refusing(Toolbox):
    """Refuses the first proposals with the errors given, as another family's checks might."""

    def __init__(self, evidence: Evidence, *errors: dict[str, str]) -> None:
        super().__init__(evidence)
        self.errors = list(errors)

    def call(self, name: str, arguments: Any) -> Any:
        if name != "propose_patch" or not self.errors:
            return super().call(name, arguments)
        check = PatchCheck.parse({"accepted": False, "errors": [self.errors.pop(0)], "config": self.evidence.config.to_json()}, "test")
        return ToolResult(id="propose_patch#1", name=name, content=check.to_json())


@pytest.mark.parametrize("path", ["/sizes/4/wait_ratio", "/edits/0/value", "/sizes/4"])
def test_a_refused_edit_is_dropped_and_the_rest_proposed_again(path: str) -> None:
    evidence = make_evidence(TWO)
    result = session(Refusing(evidence, {"path": path, "code": "infeasible", "message": "no"}), evidence)
    assert result.accepted is not None
    assert result.accepted.patch is not None
    assert [edit.path for edit in result.accepted.patch.edits] == ["/sizes/5/wait_ratio"]


def test_a_proposal_that_is_refused_for_every_edit_is_given_up() -> None:
    evidence = make_evidence({"4": BASE["4"]})
    result = session(Refusing(evidence, {"path": "/sizes/4/wait_ratio", "code": "infeasible", "message": "no"}), evidence)
    assert result.stop_reason is StopReason.KEPT


def test_an_error_that_names_no_edit_is_not_answered_with_the_same_proposal_again() -> None:
    evidence = make_evidence({"4": BASE["4"]})
    result = session(Refusing(evidence, {"path": "/elsewhere", "code": "odd", "message": "no"}), evidence)
    assert result.stop_reason is StopReason.KEPT


def test_edits_that_the_generator_cannot_fill_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envwright.env.generator.MAX_TRIES", 1_000)
    knobs = {"data_ratio": 0.5, "hole_ratio": 0.0, "wait_ratio": 0.0}
    config = GeneratorConfig.parse({"num_agents": 2, "sizes": {"2": knobs, "4": {**knobs, "hole_ratio": 0.3}}}, "test")
    labels = {"optimal_cost": 2, "optimal_makespan": 1, "id": "tiny"}
    tiny = {"size": 2, "holes": [], "starts": [[0, 0], [1, 1]], "goals": [[0, 1], [1, 0]], **labels}
    rollouts = [
        Rollout(instance=Instance.parse({**tiny, "wait_required": wait}, "tiny"), completion="", outcome=outcome)
        for wait, outcome in ((True, Outcome.HOLE), (True, Outcome.OPTIMAL), (False, Outcome.OPTIMAL))
        for _ in range(20)
    ]
    evidence = make_evidence({"4": BASE["4"]}, config=config)
    result = redesign(Evidence(config=config, rollouts=(*evidence.rollouts, *rollouts)))
    assert result.patch is not None
    assert [edit.path for edit in result.patch.edits] == ["/sizes/4/wait_ratio"]


def test_a_log_without_validation_boards_is_read_on_its_training_boards() -> None:
    result = redesign(make_evidence({"4": BASE["4"]}, split=Split.TRAIN))
    assert result.config.sizes["4"].wait_ratio == 0.35


def test_without_rollouts_the_config_is_kept_and_the_note_says_why() -> None:
    result = redesign(Evidence(config=make_config(), rollouts=()))
    assert result.stop_reason is StopReason.KEPT
    assert "no rollouts" in result.note


def test_the_rule_needs_the_config_in_the_conversation() -> None:
    evidence = make_evidence({"4": BASE["4"]})
    result = ModelEngineer(RuleModel(), context=lambda briefing: ()).design(evidence)
    assert result.stop_reason is StopReason.MODEL_ERROR
    assert "no current config" in result.note
    with pytest.raises(ModelError):
        RuleModel().complete(
            [AssistantMessage.model_validate(_called("failure_breakdown")), ToolMessage(tool_call_id="call_1", content='{"rows":[]}')], []
        )


def _called(name: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": "call_1", "function": {"name": name, "arguments": "{}"}}]}
