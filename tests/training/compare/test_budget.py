"""Budgets: totals and flags."""

from __future__ import annotations

from typing import Any

from envwright.training.compare.budget import budget_flags, total_budget


def test_stages_add_up_and_what_one_lacks_is_not_known() -> None:
    stages: list[dict[str, Any]] = [
        {"stage": 0, "boards": 3, "training_seconds": 1.5, "engineer_seconds": None},
        {"stage": 1, "boards": 4, "training_seconds": 2.0, "engineer_seconds": 1.0},
    ]
    assert total_budget(stages) == {"boards": 7, "training_seconds": 3.5, "engineer_seconds": None}


def test_an_arm_that_spent_over_one_percent_more_is_flagged() -> None:
    def spent(boards: int, completions: int, simulated: int | None = 0) -> dict[str, int | None]:
        return {"boards": boards, "completions": completions, "simulated_completions": simulated}

    flags = budget_flags({"a": spent(1000, 8000), "b": spent(1010, 8080), "c": spent(1100, 8000, 400), "d": spent(1000, 8000, None)})
    assert flags["a"] == flags["b"] == []
    assert flags["c"] == [
        "trained on 1100 boards, 10.0 % more than a",
        "sampled 400 completions in simulations beside training, 5.0 % of those trained on",
    ]
    assert flags["d"] == ["its simulations cannot be counted: a transcript is cut off, or an answer in it was shortened"]
