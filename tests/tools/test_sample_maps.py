from dataclasses import replace
from typing import Any

import pytest

from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.instance import Board, label_board
from envwright.env.rollout import Rollout, graded_rollout
from envwright.env.rules import Outcome, paths_from_moves, simulate
from envwright.tools.evidence import Evidence
from envwright.tools.registry import Toolbox


def samples(toolbox: Toolbox, **arguments: Any) -> list[dict[str, Any]]:
    content = toolbox.call("sample_maps", arguments).content
    assert content is not None
    found: list[dict[str, Any]] = content["samples"]
    return found


@pytest.fixture
def swap() -> Rollout:
    """Two agents that face each other and exchange cells at once."""
    instance = label_board(Board(size=3, holes=((0, 2),), starts=((0, 0), (0, 1)), goals=((0, 1), (0, 0))), "board")
    return graded_rollout(Rollout(instance=instance, completion='{"plan": ["RR", "LW"]}'))


def toolbox_of(config: GeneratorConfig, *rollouts: Rollout) -> Toolbox:
    return Toolbox(Evidence(config=config, rollouts=rollouts))


def test_a_sample_shows_the_board_the_completion_where_it_broke_and_an_optimal_plan(config: GeneratorConfig, swap: Rollout) -> None:
    (sample,) = samples(toolbox_of(config, swap))
    optimal_plan = sample.pop("optimal_plan")
    assert sample == {
        "instance": swap.instance.id,
        "bucket": "3",
        "wait_required": swap.instance.wait_required,
        "board": "  012\n0 AB#\n1 ...\n2 ...",
        "agents": ["0: (0, 0) -> (0, 1)", "1: (0, 1) -> (0, 0)"],
        "completion": '{"plan": ["RR", "LW"]}',
        "completion_length": 22,
        "outcome": "swap_conflict",
        "failure_step": 1,
        "failure_agents": [0, 1],
        "cost": None,
        "plan": ["R", "L"],
        "drawing": "t=0     t=1\n  012     012\n0 AB#   0 @@#\n1 ...   1 ...\n2 ...   2 ...",
        "optimal_cost": swap.instance.optimal_cost,
    }
    assert simulate(swap.instance, paths_from_moves(swap.instance.starts, optimal_plan)).sum_of_costs == swap.instance.optimal_cost


def test_samples_are_uniform_deterministic_and_grow_with_n(toolbox: Toolbox, evidence: Evidence) -> None:
    few, many = samples(toolbox, n=3), samples(toolbox, n=20)
    assert many[:3] == few == samples(Toolbox(evidence))
    assert len(many) == 20
    assert {sample["outcome"] for sample in many} > {"optimal"}
    assert samples(Toolbox(replace(evidence, seed=99)), n=20) != many


def test_filters_hold_together(toolbox: Toolbox, evidence: Evidence) -> None:
    result = toolbox.call("sample_maps", {"size": 3, "outcome": "truncated", "wait_required": False, "num_agents": 2, "n": 20}).content
    assert result is not None
    wanted = [r for r in evidence.select(Split.VALIDATION, 1) if r.instance.size == 3 and r.verdict is Outcome.TRUNCATED]
    assert result["matching"] == len(wanted) == len(result["samples"])
    assert {(sample["bucket"], sample["outcome"]) for sample in result["samples"]} == {("3", "truncated")}


def test_a_filter_that_nothing_matches_says_what_there_is(toolbox: Toolbox) -> None:
    error = toolbox.call("sample_maps", {"size": 9}).error
    assert error is not None
    assert (error.code, error.message) == (
        "not_found",
        "none of the 36 validation rollouts of stage 1 has size 9; there, size takes 3, 4",
    )


def test_terminal_escapes_and_invisible_characters_are_made_visible(config: GeneratorConfig, swap: Rollout) -> None:
    raw = 'ok\n\x1b[2J\x07\u202e\u200b\u00e9 {"plan": ["R", "L"]}\x9b\U000e0001'
    (sample,) = samples(toolbox_of(config, swap.model_copy(update={"completion": raw})))
    assert sample["completion"] == 'ok\n\\x1b[2J\\x07\\u202e\\u200b\u00e9 {"plan": ["R", "L"]}\\x9b\\U000e0001'
    assert sample["completion_length"] == len(raw)


def test_a_long_completion_keeps_its_ends_and_counts_what_is_left_out(config: GeneratorConfig, swap: Rollout) -> None:
    raw = "a" * 3_000 + '</think>{"plan": ["R", "L"]}'
    (sample,) = samples(toolbox_of(config, swap.model_copy(update={"completion": raw})))
    assert sample["completion"] == "a" * 1_000 + "\n[... 1028 characters left out ...]\n" + raw[-1_000:]
    assert sample["completion_length"] == 3_028


def test_a_long_plan_is_drawn_at_its_end_and_says_from_where(config: GeneratorConfig, swap: Rollout) -> None:
    walk = '{"plan": ["' + "W" * 400 + 'R", "' + "W" * 400 + 'L"]}'
    (sample,) = samples(toolbox_of(config, graded_rollout(swap.model_copy(update={"completion": walk}))))
    assert sample["failure_step"] == 401
    assert sample["drawing"].startswith("[timesteps 0 to ")
    assert sample["drawing"].endswith("t=400\n  012\n0 AB#\n1 ...\n2 ...\nt=401\n  012\n0 @@#\n1 ...\n2 ...")
    assert len(sample["drawing"]) < 4_500


def test_a_completion_without_a_plan_has_nothing_to_draw(toolbox: Toolbox) -> None:
    (sample,) = samples(toolbox, outcome="truncated", n=1)
    assert (sample["plan"], sample["drawing"], sample["failure_step"]) == (None, None, None)
    assert sample["optimal_plan"] is not None


def test_actions_that_do_not_exist_are_marked(config: GeneratorConfig, swap: Rollout) -> None:
    (sample,) = samples(toolbox_of(config, graded_rollout(swap.model_copy(update={"completion": '{"plan": ["DX", "WW"]}'}))))
    assert (sample["outcome"], sample["failure_step"], sample["plan"]) == ("illegal_move", 2, ["D?", "WW"])


def test_the_step_is_graded_when_a_trainer_gave_the_outcome_alone(config: GeneratorConfig, swap: Rollout) -> None:
    bare = swap.model_copy(update={"failure_step": None, "failure_agents": ()})
    (sample,) = samples(toolbox_of(config, bare))
    assert (sample["failure_step"], sample["failure_agents"]) == (1, [0, 1])
    (disputed,) = samples(toolbox_of(config, bare.model_copy(update={"outcome": Outcome.HOLE})))
    assert (disputed["outcome"], disputed["failure_step"]) == ("hole", None)
