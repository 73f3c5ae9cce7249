"""From completions to verdicts, in both notations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.cells import plan_words
from envwright.env.chat import chat_prompt
from envwright.env.grading import Grade, grade_completion, solution_answer
from envwright.env.instance import Instance
from envwright.env.rules import Outcome
from tests.env.boards import FEW, instance_of, instances, plan_of
from tests.env.reference import reference_grade

TWO = instance_of("a.b ... d.c", "ab", "cd")
"""Agent 0 goes RR along the top, agent 1 LL along the bottom: 4 in all, nobody waits."""
OPTIMAL = Grade(Outcome.OPTIMAL, cost=4, makespan=2)

CHAT = {
    "a plan": ('{"plan": ["RR", "LL"]}', OPTIMAL),
    "a bare list": ('["RR", "LL"]', OPTIMAL),
    "lists of letters": ('{"plan": [["R", "R"], ["L", "L"]]}', OPTIMAL),
    "names of moves": ('{"plan": [["right", "Right "], ["LEFT", "l"]]}', OPTIMAL),
    "small letters and spaces": ('{"plan": ["r r", " ll"]}', OPTIMAL),
    "a fence": ('```json\n{"plan": ["RR", "LL"]}\n```', OPTIMAL),
    "prose around it": ('Sure! Agent {0} moves first.\n{"plan": ["RR", "LL"]}\nNote [1].', OPTIMAL),
    "cells in the prose": ('From [0, 0] to [0, 2]: {"plan": ["RR", "LL"]}', OPTIMAL),
    "cells before a bare list": ('From [0, 0]: ["RR", "LL"]', OPTIMAL),
    "a brace inside a string": ('{"note": "}{[\\"", "plan": ["RR", "LL"]}', OPTIMAL),
    "other keys": ('{"cost": 4, "plan": ["RR", "LL"]}', OPTIMAL),
    "the first of two plans": ('{"plan": ["RR", "LL"]} or {"plan": ["", ""]}', OPTIMAL),
    "one brace too many": ('{"plan": ["RR", "LL"]}}', OPTIMAL),
    "thinking before the answer": ('<think>{"plan": ["U", "U"]} no</think>{"plan": ["RR", "LL"]}', OPTIMAL),
    "thinking that ends twice": ('{"plan": ["U", "U"]}</think>{"plan": ["D", "D"]}</think>{"plan": ["RR", "LL"]}', OPTIMAL),
    "the end of thinking alone": ('hm</think>{"plan": ["RR", "LL"]}', OPTIMAL),
    "a longer plan": ('{"plan": ["WRR", "LLW"]}', Grade(Outcome.SUBOPTIMAL, cost=5, makespan=3)),
    "an empty plan": ('{"plan": ["", ""]}', Grade(Outcome.GOAL_NOT_REACHED, 0, (0, 1))),
    "an agent that stops short": ('{"plan": ["RR", "L"]}', Grade(Outcome.GOAL_NOT_REACHED, 2, (1,))),
    "an unknown letter": ('{"plan": ["RX", "LL"]}', Grade(Outcome.ILLEGAL_MOVE, 2, (0,))),
    "an unknown name": ('{"plan": [["jump"], ["L"]]}', Grade(Outcome.ILLEGAL_MOVE, 1, (0,))),
    "a move off the board": ('{"plan": ["RU", "LL"]}', Grade(Outcome.OUT_OF_BOUNDS, 2, (0,))),
    "a collision": ('{"plan": ["RDW", "LU"]}', Grade(Outcome.VERTEX_CONFLICT, 2, (0, 1))),
    "too few agents": ('{"plan": ["RR"]}', Grade(Outcome.PARSE_ERROR)),
    "too many agents": ('{"plan": ["RR", "LL", ""]}', Grade(Outcome.PARSE_ERROR)),
    "no agent": ('{"plan": []}', Grade(Outcome.PARSE_ERROR)),
    "numbers for moves": ('{"plan": [[1, 1], [2, 2]]}', Grade(Outcome.PARSE_ERROR)),
    "one string": ('{"plan": "RR LL"}', Grade(Outcome.PARSE_ERROR)),
    "an object of agents": ('{"plan": {"0": "RR", "1": "LL"}}', Grade(Outcome.PARSE_ERROR)),
    "no plan in the object": ('{"paths": ["RR", "LL"]}', Grade(Outcome.PARSE_ERROR)),
    "Python's quotes": ('{\'plan\': ["RR", "LL"]}', Grade(Outcome.PARSE_ERROR)),
    "a repeated key": ('{"plan": ["RR", "LL"], "plan": ["RR", "LL"]}', Grade(Outcome.PARSE_ERROR)),
    "NaN": ('{"cost": NaN, "plan": ["RR", "LL"]}', Grade(Outcome.PARSE_ERROR)),
    "prose": ("Agent 0 moves right twice.", Grade(Outcome.PARSE_ERROR)),
    "nothing": ("", Grade(Outcome.PARSE_ERROR)),
    "thinking without an answer": ("<think>done</think>", Grade(Outcome.PARSE_ERROR)),
    "cut inside a string": ('{"plan": ["RR", "L', Grade(Outcome.TRUNCATED)),
    "cut before the last brace": ('{"plan": ["RR", "LL"]', Grade(Outcome.TRUNCATED)),
    "cut after a list that is no answer": ('{"draft": ["RR", "LL"], "plan": ["R', Grade(Outcome.TRUNCATED)),
    "cut after a brace in the prose": ('I use {letters}: {"plan": ["R', Grade(Outcome.TRUNCATED)),
    "cut inside a bare list": ('["RR", "L', Grade(Outcome.TRUNCATED)),
    "cut while thinking": ('<think>maybe {"plan": ["RR", "LL"]}', Grade(Outcome.TRUNCATED)),
    "nested without end": ("[" * 100_000, Grade(Outcome.TRUNCATED)),
}

CELLS = {
    "a plan": ("01 21 02 20 end", OPTIMAL),
    "words after the end": ("01 21 02 20 end 99 99", OPTIMAL),
    "a wait too many": ("00 22 01 21 02 20 end", Grade(Outcome.SUBOPTIMAL, cost=6, makespan=3)),
    "waiting at the goal": ("01 21 02 20 02 20 end", OPTIMAL),
    "nothing but the end": ("end", Grade(Outcome.GOAL_NOT_REACHED, 0, (0, 1))),
    "a jump": ("02 21 end", Grade(Outcome.ILLEGAL_MOVE, 1, (0,))),
    "a cell off the board": ("01 32 end", Grade(Outcome.OUT_OF_BOUNDS, 1, (1,))),
    "half a timestep": ("01 21 02 end", Grade(Outcome.PARSE_ERROR)),
    "no end": ("01 21 02 20", Grade(Outcome.TRUNCATED)),
    "a word that is no cell": ("01 21 02 plan end", Grade(Outcome.PARSE_ERROR)),
}


@pytest.mark.parametrize(("completion", "grade"), CHAT.values(), ids=CHAT)
def test_a_chat_answer_is_graded(completion: str, grade: Grade) -> None:
    assert grade_completion(TWO, completion) == grade


@pytest.mark.parametrize(("completion", "grade"), CELLS.values(), ids=CELLS)
def test_a_cell_answer_is_graded(completion: str, grade: Grade) -> None:
    assert grade_completion(TWO, completion) == grade


def test_a_hole_and_a_swap_are_graded_with_their_timestep_and_agents() -> None:
    corridor = instance_of("ab. #.. ...", "ab", "ba")
    assert grade_completion(corridor, '{"plan": ["D", ""]}') == Grade(Outcome.HOLE, 1, (0,))
    assert grade_completion(corridor, '{"plan": ["R", "L"]}') == Grade(Outcome.SWAP_CONFLICT, 1, (0, 1))


@FEW
@given(instances())
def test_the_solvers_plan_is_optimal_in_both_notations(instance: Instance) -> None:
    plan = plan_of(instance)
    best = Grade(Outcome.OPTIMAL, cost=instance.optimal_cost, makespan=instance.optimal_makespan)
    assert grade_completion(instance, solution_answer(plan)) == best
    assert grade_completion(instance, plan_words(instance, plan)) == best


@FEW
@given(instances())
def test_no_completion_is_better_than_the_optimum_and_waiting_first_is_worse(instance: Instance) -> None:
    late = tuple("W" + letters if letters else "" for letters in plan_of(instance))
    moving = sum(map(bool, late))
    verdict = grade_completion(instance, solution_answer(late))
    assert verdict.outcome is (Outcome.SUBOPTIMAL if moving else Outcome.OPTIMAL)
    assert verdict.cost == instance.optimal_cost + moving


@st.composite
def edited(draw: st.DrawFn, text: str, marks: str) -> str:
    """A text with up to three of its characters replaced, removed, or put before another one."""
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        kept = draw(st.sampled_from((place, place + 1, len(text) + 1)))
        text = text[:place] + draw(st.sampled_from(["", *marks])) + text[kept:]
    return text


@st.composite
def cell_answers(draw: st.DrawFn, instance: Instance) -> str:
    """The solver's plan with agents delayed and words changed."""
    late = ["W" * draw(st.integers(0, 2)) + letters for letters in plan_of(instance)]
    return draw(edited(plan_words(instance, late), "0123 "))


@st.composite
def chat_answers(draw: st.DrawFn, instance: Instance) -> str:
    """The solver's plan or random letters, as strings or lists, after thinking or prose, whole or broken."""
    some = st.lists(st.sampled_from("UDLRWudlrw X"), max_size=6).map("".join)
    plan = [letters if draw(st.booleans()) else draw(some) for letters in plan_of(instance)]
    shaped = [list(letters) for letters in plan] if draw(st.booleans()) else plan
    text = json.dumps(draw(st.sampled_from(({"plan": shaped}, shaped))), indent=draw(st.sampled_from((None, 1))))
    return draw(edited(draw(st.sampled_from(("", " ", "[0, 1] ", "I say: ", "<think>hm</think>"))) + text, '{}[]", \\RuX'))


@FEW
@given(st.data())
def test_verdicts_are_those_of_a_plain_reading_in_both_notations(data: st.DataObject) -> None:
    instance = data.draw(instances())
    for answers in (cell_answers(instance), chat_answers(instance)):
        for completion in data.draw(st.lists(answers, min_size=4, max_size=4)):
            assert grade_completion(instance, completion) == reference_grade(instance, completion), completion


def test_the_prompt_states_the_board_the_agents_and_the_answers_form() -> None:
    system, user = chat_prompt(TWO)
    assert (system["role"], user["role"]) == ("system", "user")
    for rule in ("U = up (row -1)", "W = wait (stay)", "exchange cells", "may enter a cell that another one leaves", "still block"):
        assert rule in system["content"]
    assert user["content"].startswith(
        "Board 3x3:\n  012\n0 A.a\n1 ...\n2 b.B\nagent 0: start (0, 0), goal (0, 2)\nagent 1: start (2, 2), goal (2, 0)\n"
    )
    assert grade_completion(TWO, user["content"].rpartition("like ")[2]).outcome is not Outcome.PARSE_ERROR
