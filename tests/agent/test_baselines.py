"""Baselines: fixed plans, p(1-p), the oracle, what they cost, and guard rails that bind them when asked to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from envwright.agent.baselines import RANDOM_HOLES, RANDOM_WAITS
from envwright.agent.context import Bookkeeping
from envwright.agent.engineers import make_engineer
from envwright.agent.guardrails import GuardRails
from envwright.agent.oversight import oversee
from envwright.agent.redesign import Redesign
from envwright.agent.stop import StopReason
from envwright.agent.transcript import read_transcript
from envwright.agent.work_settings import Engineering, WorkSettings
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.generator import generate
from envwright.env.instance import Instance
from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome
from envwright.tools.evidence import Evidence
from tests.agent.evidence_maker import BASE, make_config, make_evidence

SMALL = {"4": BASE["4"], "5": BASE["5"]}


def at_stage(stage: int, stages: int | None = 4, config: GeneratorConfig | None = None, spec: str = "easy-to-hard") -> Redesign:
    evidence = Evidence(config=config or make_config(), rollouts=(), seed=7)
    return make_engineer(spec).design(evidence, bookkeeping=Bookkeeping(stage=stage, stages=stages))


def shares(config: GeneratorConfig) -> list[float]:
    return [knobs.data_ratio for _, knobs in config.buckets()]


def waits(config: GeneratorConfig) -> set[float]:
    return {knobs.wait_ratio for _, knobs in config.buckets()}


def only_conflicts_teach(instances: Sequence[Instance]) -> list[list[bool]]:
    """A policy that always solves boards without a wait, and every other time those with one."""
    return [[True, not instance.wait_required] * 2 for instance in instances]


def test_uniform_is_the_middle_of_what_random_draws_and_stays_there() -> None:
    first = at_stage(0, spec="uniform")
    assert first.stop_reason is StopReason.PATCH_ACCEPTED
    for _, knobs in first.config.buckets():
        assert (knobs.data_ratio, knobs.hole_ratio, knobs.wait_ratio) == (0.25, sum(RANDOM_HOLES) / 2, sum(RANDOM_WAITS) / 2)
    again = at_stage(1, config=first.config, spec="uniform")
    assert (again.stop_reason, again.note) == (StopReason.KEPT, "the config is uniform already")
    thirds = at_stage(0, config=make_config([3, 4, 5]), spec="uniform").config
    assert at_stage(1, config=thirds, spec="uniform").stop_reason is StopReason.KEPT


def test_random_kept_draws_as_random_does_and_only_once() -> None:
    drawn = at_stage(0, spec="random:kept").config
    assert drawn == at_stage(0, spec="random").config != make_config()
    assert at_stage(1, config=drawn, spec="random:kept").stop_reason is StopReason.KEPT


def test_easy_to_hard_goes_from_small_and_free_to_large_and_full_of_waits() -> None:
    configs = [at_stage(stage).config for stage in range(3)]
    assert [waits(config) for config in configs] == [{0.0}, {0.375}, {0.75}]
    assert shares(configs[0]) == shares(configs[2])[::-1] == [0.4, 0.3, 0.2, 0.1]
    assert shares(configs[1]) == [0.25] * 4
    assert all(knobs.hole_ratio == 0.2 for config in configs for _, knobs in config.buckets())


def test_easy_to_hard_says_when_it_has_no_place_in_a_schedule() -> None:
    assert waits(at_stage(0, stages=2).config) == {0.375}
    assert "needs the number of stages" in at_stage(0, stages=None).note
    assert "ended with the run" in at_stage(3).note


def test_learnability_weighs_numbers_of_holes_where_several_were_measured() -> None:
    def log(hole_ratio: float, valid: int) -> list[Rollout]:
        config = make_config([5], hole=hole_ratio, wait=0.0)
        board = generate(config, 1, seed=1, split=Split.VALIDATION).instances[0]
        outcomes = [Outcome.OPTIMAL] * valid + [Outcome.HOLE] * (20 - valid)
        return [Rollout(split=Split.VALIDATION, instance=board, completion="", outcome=outcome) for outcome in outcomes]

    def redesigned(rollouts: list[Rollout]) -> float:
        evidence = Evidence(config=make_config([5]), rollouts=tuple(rollouts))
        return make_engineer("learnability").design(evidence).config.sizes["5"].hole_ratio

    mastered, frontier = log(0.0, 20), log(0.32, 10)
    assert redesigned(mastered + frontier) == 0.32
    assert redesigned(log(0.0, 10) + frontier) == 0.16
    assert redesigned(frontier) == 0.2
    assert redesigned(mastered + log(0.32, 0)) == 0.2


def test_the_oracle_takes_the_knobs_that_teach_most_and_says_what_it_spent() -> None:
    evidence = make_evidence(SMALL, n=1, probe=only_conflicts_teach)
    redesign = make_engineer("oracle").design(evidence)
    assert redesign.stop_reason is StopReason.PATCH_ACCEPTED
    assert waits(redesign.config) == {0.75}
    assert redesign.usage.policy_completions == (12 * 12 + 3 * 32) * 2 * 4
    assert redesign.to_json()["usage"]["policy_completions"] == redesign.usage.policy_completions
    assert all("mixed" in edit.reason for edit in redesign.patch.edits if redesign.patch is not None)  # type: ignore[union-attr]
    assert make_engineer("oracle").design(evidence) == redesign


def test_the_oracle_keeps_the_config_where_nothing_teaches_more() -> None:
    alike = make_evidence({"4": BASE["4"]}, n=1, probe=lambda instances: [[True, False] for _ in instances])
    assert "the best of 13 tried" in make_engineer("oracle").design(alike).note
    assert make_engineer("oracle").design(make_evidence(SMALL, n=1)).note == "no policy is at hand to try configs on"


def test_what_the_rule_asks_of_the_policy_is_counted_and_free_engineers_count_nothing() -> None:
    evidence = make_evidence(SMALL, probe=only_conflicts_teach)
    asked = make_engineer("rule").design(evidence).usage
    assert asked.policy_completions >= 2 * 32 * 4
    for spec in ("random", "learnability"):
        assert "policy_completions" not in make_engineer(spec).design(evidence).usage.to_json()


def test_guard_rails_bind_a_baseline_only_when_it_is_made_with_them(tmp_path: Path) -> None:
    evidence, strict = make_evidence(SMALL, n=20), GuardRails(bounds="refuse")
    free = oversee(make_engineer("random"), WorkSettings(guard_rails=strict)).design(evidence)
    assert free.stop_reason is StopReason.PATCH_ACCEPTED
    bound = make_engineer("random", baseline_rails=strict)
    redesign = bound.design(evidence, tmp_path / "t.jsonl")
    assert (redesign.stop_reason, redesign.config) == (StopReason.KEPT, evidence.config)
    assert "it may change by at most" in redesign.note
    assert read_transcript(tmp_path / "t.jsonl").header.guard_rails == strict
    again = make_engineer(f"replay:{tmp_path / 't.jsonl'}").design(evidence)
    assert (again.stop_reason, again.config) == (StopReason.KEPT, evidence.config)
    warned = make_engineer("random", baseline_rails=GuardRails()).design(evidence)
    assert warned.config == free.config
    assert {warning.code for warning in warned.warnings} >= {"step_too_large", "no_evidence"}


@pytest.mark.parametrize("engineering", ["agent", "direct", "direct-config"])
def test_selective_edits_and_a_full_rewrite_by_the_rule_lead_to_a_config(engineering: Engineering, tmp_path: Path) -> None:
    evidence = make_evidence(SMALL)
    engineer = oversee(make_engineer("rule"), WorkSettings(engineering=engineering))
    redesign = engineer.design(evidence, tmp_path / "t.jsonl")
    assert redesign.stop_reason is StopReason.PATCH_ACCEPTED, redesign.note
    assert all(knobs.wait_ratio > 0.1 for _, knobs in redesign.config.buckets())
    assert read_transcript(tmp_path / "t.jsonl").header.engineering == engineering
