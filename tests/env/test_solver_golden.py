"""Boards whose optimal costs other optimal solvers agree on (kept outside the repository)."""

import json
from pathlib import Path

import pytest

from envwright.env.solver import SolveStatus, solve

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
MOST_AGENTS = 5


@pytest.mark.parametrize("name", ["random_golden.jsonl", "public_8x8_golden.jsonl"])
def test_golden_boards_are_solved_at_their_known_cost(name: str) -> None:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    boards = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    boards = [board for board in boards if len(board["starts"]) <= MOST_AGENTS]
    assert boards
    wrong = []
    for board in boards:
        found = solve(board["size"], board["holes"], board["starts"], board["goals"], label_waits=False, break_ties=False)
        if (found.status, found.sum_of_costs) != (SolveStatus.OPTIMAL, board["optimal_cost"]):
            wrong.append((board["id"], found))
    assert not wrong
