"""Settings: presets parse, overrides are checked, mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from envwright.env.errors import UserError
from envwright.training.settings import list_presets, load_settings


def test_every_preset_parses() -> None:
    for name in list_presets():
        assert load_settings(name, []).num_stages >= 1


def test_overrides_reach_nested_settings() -> None:
    settings = load_settings("demo", ["seed=3", "grpo.learning_rate=1e-4", "config.sizes.4.wait_ratio=0.5"], engineer="fixed")
    assert (settings.seed, settings.grpo.learning_rate, settings.config.sizes["4"].wait_ratio, settings.engineer) == (3, 1e-4, 0.5, "fixed")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learning_rate=1", "no such setting; did you mean 'grpo.learning_rate'"),
        ("seed", "expected KEY=VALUE"),
        ("seed=-1", "seed"),
        ("seed=1.5", "seed"),
        ("gate_tolerance=NaN", "NaN"),
        ("config.sizes.4.wait_ratio=2", "config/sizes/4/wait_ratio"),
        ("config.sizes.4.waits=0.2", "config/sizes/4/waits"),
        ("grpo.per_device_train_batch_size=100", "set it to 96"),
    ],
)
def test_a_bad_override_is_refused_in_one_line(override: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_settings("demo", [override])
    assert "\n" not in str(caught.value)


def test_an_unknown_preset_lists_those_that_exist() -> None:
    with pytest.raises(UserError, match=r"neither a preset \(.*demo.*\) nor a settings file"):
        load_settings("dmeo", [])


def test_a_settings_file_with_a_repeated_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"seed": 1, "seed": 2}', encoding="utf-8")
    with pytest.raises(UserError, match="'seed' is repeated"):
        load_settings(str(path), [])
