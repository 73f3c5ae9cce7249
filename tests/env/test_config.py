"""Configs: what is refused, and counts that add up."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.config import GeneratorConfig, largest_remainder, read_config
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json
from tests.env.boards import FEW

KNOBS: dict[str, Any] = {"data_ratio": 1.0, "hole_ratio": 0.2, "wait_ratio": 0.25}


def raw_config(*ratios: float, **sizes: Any) -> dict[str, Any]:
    """A config with these data ratios on 3x3, 4x4, ..., or with these sizes."""
    given = {str(size): {**KNOBS, "data_ratio": ratio} for size, ratio in enumerate(ratios, start=3)}
    return {"schema_version": 1, "num_agents": 2, "sizes": given or sizes}


def parsed(raw: Any) -> GeneratorConfig:
    return GeneratorConfig.parse(raw, "config.json")


def test_counts_of_three_thirds_add_up_to_the_budget() -> None:
    assert parsed(raw_config(1 / 3, 1 / 3, 1 / 3)).counts(4000) == {"3": 1334, "4": 1333, "5": 1333}


@FEW
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda shares: sum(shares) > 0), st.integers(0, 5000))
def test_largest_remainder_adds_up_and_never_strays_by_a_whole_instance(shares: list[float], total: int) -> None:
    counts = largest_remainder(shares, total)
    assert sum(counts) == total
    assert all(abs(count - share / sum(shares) * total) < 1 + 1e-9 for count, share in zip(counts, shares, strict=True))
    assert all(count == 0 for count, share in zip(counts, shares, strict=True) if share == 0)


def test_sizes_are_kept_from_the_smallest_to_the_largest() -> None:
    config = parsed(raw_config(**{"10": {**KNOBS, "data_ratio": 0.25}, "9": {**KNOBS, "data_ratio": 0.75}}))
    assert list(config.to_json()["sizes"]) == ["9", "10"]
    assert config.counts(4) == {"9": 3, "10": 1}


def test_a_config_survives_being_written_and_read(tmp_path: Path) -> None:
    raw = raw_config(0.5, 0.5)
    (tmp_path / "config.json").write_text(dump_json(raw), encoding="utf-8")
    config = read_config(tmp_path / "config.json")
    assert config.to_json() == raw
    assert parsed(config.to_json()) == config


@pytest.mark.parametrize("ratios", [(0.99,), (0.495, 0.495), (1.0, 0.01), (1 / 3, 1 / 3, 1 / 3)])
def test_ratios_may_miss_the_sum_by_a_hundredth(ratios: tuple[float, ...]) -> None:
    assert sum(parsed(raw_config(*ratios)).counts(97).values()) == 97


REFUSED: dict[str, tuple[Any, str]] = {
    "a sum too low": (raw_config(0.5, 0.48), "the data ratios sum to 0.98, not to 1 (tolerance 0.01)"),
    "a sum too high": (raw_config(0.5, 0.52), "the data ratios sum to 1.02"),
    "all zero": (raw_config(0.0, 0.0), "every data_ratio is 0; at least one size needs a share"),
    "a ratio above 1": (raw_config(1.5), "sizes/3/data_ratio: Input should be less than or equal to 1 (got 1.5)"),
    "a ratio below 0": (raw_config(1.0, -0.1), "sizes/4/data_ratio: Input should be greater than or equal to 0 (got -0.1)"),
    "too many holes": (
        raw_config(**{"3": {**KNOBS, "hole_ratio": 0.6}}),
        "sizes/3/hole_ratio: Input should be less than or equal to 0.5 (got 0.6)",
    ),
    "NaN": (raw_config(float("nan")), "sizes/3/data_ratio: Input should be a finite number (got nan)"),
    "infinity": (raw_config(float("inf")), "sizes/3/data_ratio: Input should be a finite number (got inf)"),
    "a number beyond a double": (raw_config(10**399), "sizes/3/data_ratio: Input should be a valid number"),
    "a boolean": (raw_config(True), "sizes/3/data_ratio: must be a number, got True"),
    "a string": (raw_config(**{"3": {**KNOBS, "wait_ratio": "0.5"}}), "sizes/3/wait_ratio: must be a number, got '0.5'"),
    "null": (raw_config(**{"3": {**KNOBS, "wait_ratio": None}}), "sizes/3/wait_ratio: must be a number, got None"),
    "a missing knob": (raw_config(**{"3": {"data_ratio": 1.0, "hole_ratio": 0.1}}), "sizes/3/wait_ratio: Field required"),
    "an unknown knob": (raw_config(**{"3": {**KNOBS, "depth": 1}}), "sizes/3/depth: Extra inputs are not permitted (got 1)"),
    "an unknown key": ({**raw_config(1.0), "seed": 5}, "seed: Extra inputs are not permitted (got 5)"),
    "no size": (raw_config(), "sizes: Dictionary should have at least 1 item"),
    "a size of 1": (raw_config(**{"1": KNOBS}), "sizes/1"),
    "a size above 64": (raw_config(**{"65": KNOBS}), "sizes/65"),
    "a size with a leading zero": (raw_config(**{"04": KNOBS}), "sizes/04"),
    "a size with a line break": (raw_config(**{"4\n": KNOBS}), "sizes/4"),
    "no agent": ({**raw_config(1.0), "num_agents": 0}, "num_agents: Input should be greater than or equal to 1 (got 0)"),
    "too many agents": ({**raw_config(1.0), "num_agents": 11}, "num_agents: Input should be less than or equal to 10 (got 11)"),
    "half an agent": ({**raw_config(1.0), "num_agents": 2.5}, "num_agents: Input should be a valid integer (got 2.5)"),
    "agents in quotes": ({**raw_config(1.0), "num_agents": "2"}, "num_agents: Input should be a valid integer (got '2')"),
    "another version": ({**raw_config(1.0), "schema_version": 2}, "schema_version: Input should be 1 (got 2)"),
}


@pytest.mark.parametrize(("raw", "message"), REFUSED.values(), ids=REFUSED)
def test_a_bad_config_is_refused_with_place_value_and_rule(raw: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parsed(raw)
    assert str(caught.value).startswith("config.json: ")
    assert message in str(caught.value)


def test_a_config_file_that_is_no_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(UserError, match=r"config\.json: a config must be a JSON object, got list"):
        read_config(path)


def test_a_config_cannot_be_changed_in_place() -> None:
    config = parsed(raw_config(1.0))
    with pytest.raises(ValueError, match="frozen"):
        config.sizes["3"].wait_ratio = 0.5  # type: ignore[misc]
