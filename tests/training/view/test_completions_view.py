"""Completions that are shown after a stage: which ones, and how."""

from __future__ import annotations

from envwright.env.rollout import Rollout, graded_rollout
from envwright.training.view.completions_view import choose_completions, completion_lines
from tests.env.boards import instance_of
from tests.training.played_run import rollouts

SQUARE = instance_of("A.b\n.#.\nB.a", "Aa", "Bb")


def _rollout(completion: str) -> Rollout:
    return graded_rollout(Rollout(instance=SQUARE, completion=completion))


def test_sizes_take_turns_with_a_solved_board_and_the_most_frequent_failure() -> None:
    chosen = [(rollout.instance.size, rollout.verdict.valid) for rollout in choose_completions(rollouts(), 4)]
    assert sorted(chosen) == [(3, False), (3, True), (4, False), (4, True)]
    assert [(rollout.instance.size, rollout.verdict.valid) for rollout in choose_completions(rollouts(), 2)] == [(3, True), (4, False)]


def test_the_most_frequent_failure_comes_before_the_others_and_each_before_more_of_the_same() -> None:
    texts = ["nonsense", '{"plan": ["R", "U"]}', '{"plan": ["W", "W"]}', "nonsense again", '{"plan": ["W", "WW"]}', '{"plan": ["L", "R"]}']
    given = [_rollout(text) for text in texts]
    assert [rollout.completion for rollout in choose_completions(given, 1)] == ['{"plan": ["R", "U"]}']
    assert {rollout.verdict.value for rollout in choose_completions(given, 3)} == {"goal_not_reached", "parse_error", "out_of_bounds"}


def test_more_than_there_are_shows_all_once() -> None:
    given = [_rollout("nonsense"), _rollout("more")]
    assert choose_completions(given, 9) == given
    assert choose_completions([], 9) == []


def test_the_table_shows_the_board_what_was_written_and_where_it_broke() -> None:
    written = _rollout('{"plan": ["RRDD", "UURR"]}')
    assert completion_lines([written]) == [
        "completions on validation boards",
        "+------------------------------------------------------------------------------+",
        "| board | what the policy wrote                           | verdict            |",
        "|-------+-------------------------------------------------+--------------------|",
        '|   012 | {"plan": ["RRDD", "UURR"]}                      | optimal            |',
        "| 0 A.b |                                                 | cost 8 of 8        |",
        "| 1 .#. |                                                 |                    |",
        "| 2 B.a |                                                 |                    |",
        "+------------------------------------------------------------------------------+",
    ]
    broken = "\n".join(completion_lines([_rollout('{"plan": ["RD", "W"]}')]))
    assert "hole" in broken
    assert "at step 2" in broken
    assert "by A" in broken


def test_control_characters_are_shown_and_long_text_is_cut() -> None:
    lines = completion_lines([_rollout("<think>\x1b[2J\x07\t" + "so many words " * 80)])
    text = "\n".join(lines)
    assert r"\x1b[2J\x07" in text
    assert "... (1133 characters in all)" in text
    assert len(lines) == 5 + 8
    assert max(map(len, lines)) <= 80


def test_a_board_too_large_for_the_table_is_named() -> None:
    picture = "\n".join(["A" + "." * 23, *["." * 24] * 22, "." * 23 + "a"])
    large = graded_rollout(Rollout(instance=instance_of(picture, "Aa"), completion=""))
    text = "\n".join(completion_lines([large]))
    assert "24x24," in text
    assert "(nothing)" in text
