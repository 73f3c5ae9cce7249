"""Several processes make the same boards as one, and are started where they are worth it."""

import os

import pytest

from envwright.env import workers
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.generator import generate
from envwright.env.workers import Workers

KNOBS = {"data_ratio": 0.5, "hole_ratio": 0.2, "wait_ratio": 0.5}
CONFIG = GeneratorConfig.parse({"num_agents": 2, "sizes": {"3": {**KNOBS, "wait_ratio": 0.9}, "6": KNOBS}}, "config")
"""The 3x3 boards run out, so repeats and the list of all boards are part of it."""


@pytest.fixture
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any work is worth sending away."""
    for name in ("START_WORTH", "SHARE_WORTH", "TRIAL"):
        monkeypatch.setattr(workers, name, 0.0)


def process_of(_: int) -> int:
    return os.getpid()


@pytest.mark.usefixtures("_eager")
def test_boards_and_counts_are_the_same_for_any_number_of_workers() -> None:
    alone, seen = generate(CONFIG, 120, seed=2, split=Split.BENCHMARK), list[int]()
    shared = generate(CONFIG, 120, seed=2, split=Split.BENCHMARK, workers=2, on_progress=seen.append)
    assert alone.instances == shared.instances
    assert alone.acceptance == shared.acceptance
    assert alone.acceptance["3"].samplers["enumeration"] >= alone.acceptance["3"].repeated > 0
    assert seen == list(range(1, 121))


@pytest.mark.usefixtures("_eager")
def test_work_comes_back_in_order_from_other_processes() -> None:
    with Workers(2) as pool:
        assert list(pool.map(str, range(50))) == [str(number) for number in range(50)]
        first, *others = pool.map(process_of, range(50))
    assert first == os.getpid()
    assert first not in others


def test_no_process_is_started_for_a_little_work() -> None:
    with Workers(2) as pool:
        assert set(pool.map(process_of, range(1_000))) == {os.getpid()}


@pytest.mark.parametrize("number", [0, -1, 65])
def test_a_bad_number_of_workers_is_refused(number: int) -> None:
    with pytest.raises(UserError, match=f"workers must be between 1 and 64, got {number}"):
        generate(CONFIG, 4, seed=0, workers=number)
