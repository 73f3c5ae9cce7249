"""Instance files and rollout files: what is completed on the way in, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from envwright.env.canonical import Split
from envwright.env.errors import UserError
from envwright.env.instance import Instance, read_instances
from envwright.env.jsonio import dump_json, write_json_lines
from envwright.env.rollout import Rollout, graded_rollout, read_rollouts
from envwright.env.rules import Outcome
from envwright.env.summary import summarise
from tests.env.boards import instance_of

INSTANCE = instance_of("a.b ... d.c", "ab", "cd")
BOARD = {"size": 3, "holes": [], "starts": [[0, 0], [2, 2]], "goals": [[0, 2], [2, 0]]}
LINE = INSTANCE.to_json()
ROLLOUT = {"instance": LINE, "completion": '{"plan": ["RR", "LL"]}'}


def without(line: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in keys}


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "lines.jsonl"
    path.write_text("".join((line if isinstance(line, str) else dump_json(line)) + "\n" for line in lines), encoding="utf-8")
    return path


def test_the_keys_of_an_instance_line_are_in_the_documented_order() -> None:
    keys = ["schema_version", "id", "size", "holes", "starts", "goals", "optimal_cost", "optimal_makespan", "wait_required"]
    assert list(LINE) == keys


def test_instances_are_read_as_they_were_written(tmp_path: Path) -> None:
    other = instance_of("ab ..", "ab", "ba")
    path = tmp_path / "instances.jsonl"
    write_json_lines(path, (instance.to_json() for instance in (INSTANCE, other)))
    assert read_instances(path) == [INSTANCE, other]


@pytest.mark.parametrize("missing", [("id",), ("optimal_cost",), ("optimal_makespan", "wait_required"), tuple(without(LINE, *BOARD))])
def test_missing_labels_and_ids_are_computed(tmp_path: Path, missing: tuple[str, ...]) -> None:
    assert read_instances(written(tmp_path, without(LINE, *missing))) == [INSTANCE]


def test_a_given_id_is_kept_when_the_labels_are_computed(tmp_path: Path) -> None:
    (read,) = read_instances(written(tmp_path, {**BOARD, "id": "mine"}))
    assert read == INSTANCE.model_copy(update={"id": "mine"})


BAD_INSTANCES: dict[str, tuple[Any, str]] = {
    "not JSON": ("{", "not valid JSON"),
    "no object": ([1], "an instance must be a JSON object, got list"),
    "NaN": (dump_json(LINE).replace(":4,", ":NaN,"), "NaN is not a JSON number"),
    "repeated key": ('{"size": 3, "size": 3}', "the key 'size' is repeated"),
    "unknown key": ({**LINE, "note": 1}, "unknown key 'note' (got 1); known keys are"),
    "unknown key without labels": ({**BOARD, "note": 1}, "unknown key 'note' (got 1); known keys are"),
    "missing key": (without(BOARD, "goals"), "goals: Field required"),
    "size 0": ({**BOARD, "size": 0}, "size: Input should be greater than or equal to 1 (got 0)"),
    "size 65": ({**BOARD, "size": 65}, "size: Input should be less than or equal to 64 (got 65)"),
    "size as a string": ({**BOARD, "size": "3"}, "size: Input should be a valid integer (got '3')"),
    "size as a boolean": ({**BOARD, "size": True}, "size: Input should be a valid integer (got True)"),
    "half a cell": ({**BOARD, "holes": [[1]]}, "holes/0/1: Field required"),
    "three coordinates": ({**BOARD, "holes": [[1, 1, 1]]}, "holes/0"),
    "half coordinates": ({**BOARD, "holes": [[1, 0.5]]}, "holes/0/1: Input should be a valid integer (got 0.5)"),
    "hole off the board": ({**BOARD, "holes": [[0, 3]]}, "holes[0] [0, 3] is off the 3x3 board (rows and columns 0 to 2)"),
    "start off the board": ({**BOARD, "starts": [[0, 0], [-1, 0]]}, "starts[1] [-1, 0] is off the 3x3 board"),
    "repeated hole": ({**BOARD, "holes": [[1, 1], [1, 1]]}, "holes[1] [1, 1] is repeated; holes must be distinct"),
    "equal starts": ({**BOARD, "starts": [[0, 0], [0, 0]]}, "starts[1] [0, 0] is repeated; starts must be distinct"),
    "equal goals": ({**BOARD, "goals": [[0, 2], [0, 2]]}, "goals[1] [0, 2] is repeated; goals must be distinct"),
    "start on a hole": ({**BOARD, "holes": [[0, 0]]}, "starts[0] [0, 0] is on a hole"),
    "goal on a hole": ({**BOARD, "holes": [[0, 2]]}, "goals[0] [0, 2] is on a hole"),
    "an agent without a goal": ({**BOARD, "goals": [[0, 2]]}, "2 starts but 1 goals; each agent has one of each"),
    "no agent": ({**BOARD, "starts": [], "goals": []}, "starts: Tuple should have at least 1 item"),
    "unreachable goal": ({**BOARD, "holes": [[0, 1], [1, 1], [2, 1]]}, "the board is unsolvable; every instance must have a plan"),
    "negative cost": ({**LINE, "optimal_cost": -1}, "optimal_cost: Input should be greater than or equal to 0 (got -1)"),
    "label as a number": ({**LINE, "wait_required": 0}, "wait_required: Input should be a valid boolean (got 0)"),
    "empty id": ({**LINE, "id": ""}, "id: String should have at least 1 character (got '')"),
    "other version": ({**LINE, "schema_version": 2}, "schema_version: Input should be 1 (got 2)"),
}


@pytest.mark.parametrize(("line", "message"), BAD_INSTANCES.values(), ids=BAD_INSTANCES)
def test_a_bad_instance_line_is_refused_in_one_line_with_file_line_value_and_rule(tmp_path: Path, line: Any, message: str) -> None:
    path = written(tmp_path, LINE, line)
    with pytest.raises(UserError) as caught:
        read_instances(path)
    told = str(caught.value)
    assert told.startswith(f"{path} line 2: ")
    assert message in told
    assert len(told.splitlines()) == 1


def test_a_rollout_without_a_verdict_is_graded_on_the_way_in(tmp_path: Path) -> None:
    failed = {"instance": BOARD, "completion": '{"plan": ["D", "U"]}', "stage": 2, "split": "train", "reward": 0.5, "tokens": 9}
    assert read_rollouts(written(tmp_path, ROLLOUT, failed)) == [
        Rollout(instance=INSTANCE, completion=ROLLOUT["completion"], outcome=Outcome.OPTIMAL, cost=4),
        Rollout(
            instance=INSTANCE,
            completion='{"plan": ["D", "U"]}',
            stage=2,
            split=Split.TRAIN,
            outcome=Outcome.GOAL_NOT_REACHED,
            failure_step=1,
            failure_agents=(0, 1),
            reward=0.5,
            tokens=9,
        ),
    ]


def test_a_recorded_verdict_is_kept_when_read_and_replaced_when_graded(tmp_path: Path) -> None:
    (recorded,) = read_rollouts(written(tmp_path, {**ROLLOUT, "outcome": "hole", "failure_step": 1, "failure_agents": [0]}))
    assert (recorded.verdict, recorded.failure_step) == (Outcome.HOLE, 1)
    graded = graded_rollout(recorded)
    assert (graded.verdict, graded.failure_step, graded.failure_agents, graded.cost) == (Outcome.OPTIMAL, None, (), 4)


def test_rollouts_are_read_as_they_were_written(tmp_path: Path) -> None:
    rollouts = read_rollouts(written(tmp_path, ROLLOUT, {**ROLLOUT, "completion": "…"}))
    assert read_rollouts(written(tmp_path, *(rollout.to_json() for rollout in rollouts))) == rollouts


BAD_ROLLOUTS: dict[str, tuple[Any, str]] = {
    "not JSON": ("{", "not valid JSON"),
    "no object": ("null", "a rollout must be a JSON object, got NoneType"),
    "no instance": (without(ROLLOUT, "instance"), "instance: Field required"),
    "no completion": (without(ROLLOUT, "completion"), "completion: Field required"),
    "completion that is no text": ({**ROLLOUT, "completion": ["RR"]}, "completion: Input should be a valid string (got ['RR'])"),
    "half a surrogate pair": ('{"instance": ' + dump_json(LINE) + ', "completion": "\\ud800"}', "half a surrogate pair is no text"),
    "unknown outcome": ({**ROLLOUT, "outcome": "crashed"}, "outcome: Input should be 'parse_error', 'truncated'"),
    "unknown split": ({**ROLLOUT, "split": "test"}, "split: Input should be 'train', 'validation' or 'benchmark' (got 'test')"),
    "negative stage": ({**ROLLOUT, "stage": -1}, "stage: Input should be greater than or equal to 0 (got -1)"),
    "NaN reward": (dump_json({**ROLLOUT, "reward": 5}).replace('"reward":5', '"reward":NaN'), "NaN is not a JSON number"),
    "infinite reward": (dump_json({**ROLLOUT, "reward": 5}).replace('"reward":5', '"reward":1e999'), "the number 1e999 is too large"),
    "half a token": ({**ROLLOUT, "tokens": 1.5}, "tokens: Input should be a valid integer (got 1.5)"),
    "unknown key": ({**ROLLOUT, "logprob": -1}, "logprob: Extra inputs are not permitted (got -1)"),
    "bad instance": ({**ROLLOUT, "instance": {**BOARD, "size": 2}}, "instance: value: starts[1] [2, 2] is off the 2x2 board"),
    "unsolvable instance": ({**ROLLOUT, "instance": {**BOARD, "holes": [[0, 1], [1, 0]]}}, "instance: the board is unsolvable"),
}


@pytest.mark.parametrize(("line", "message"), BAD_ROLLOUTS.values(), ids=BAD_ROLLOUTS)
def test_a_bad_rollout_line_is_refused_in_one_line_with_file_line_value_and_rule(tmp_path: Path, line: Any, message: str) -> None:
    path = written(tmp_path, ROLLOUT, line)
    with pytest.raises(UserError) as caught:
        read_rollouts(path)
    told = str(caught.value)
    assert told.startswith(f"{path} line 2: ")
    assert message in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_is_refused_with_the_next_step(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError, match=r"holds no instance; write some with `envwright generate`"):
        read_instances(path)
    with pytest.raises(UserError, match=r"holds no rollout; a line is documented by `envwright schema rollout`"):
        read_rollouts(path)


def test_an_ungraded_rollout_has_no_verdict() -> None:
    with pytest.raises(ValueError, match="this rollout is not graded"):
        _ = Rollout(instance=INSTANCE, completion="").verdict


def test_a_summary_counts_outcomes_per_size_and_per_wait_label() -> None:
    small: Instance = instance_of("ab ..", "ab", "ba")
    completions = [
        (INSTANCE, '{"plan": ["RR", "LL"]}'),
        (INSTANCE, '{"plan": ["WRR", "LL"]}'),
        (INSTANCE, ""),
        (small, '{"plan": ["R", "L"]}'),
    ]
    summary = summarise([graded_rollout(Rollout(instance=instance, completion=text)) for instance, text in completions]).to_json()
    assert {key: summary[key] for key in ("n", "outcomes")} == {
        "n": 4,
        "outcomes": {"parse_error": 1, "swap_conflict": 1, "suboptimal": 1, "optimal": 1},
    }
    assert (summary["valid"]["rate"], summary["optimal"]["rate"]) == (0.5, 0.25)
    assert {size: (tally["n"], tally["outcomes"]) for size, tally in summary["by_size"].items()} == {
        "2": (1, {"swap_conflict": 1}),
        "3": (3, {"parse_error": 1, "suboptimal": 1, "optimal": 1}),
    }
    assert {label: tally["n"] for label, tally in summary["by_wait"].items()} == {"free": 4}
