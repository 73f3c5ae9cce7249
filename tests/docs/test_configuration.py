"""docs/configuration.md is what the models say."""

from __future__ import annotations

import re
import subprocess
import sys

from envwright.training.settings import PRESETS, load_settings
from tests.docs.pages import DOCS, page


def _generate(*options: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, DOCS / "configuration.py", *options], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_the_page_is_up_to_date() -> None:
    assert _generate("--check") == (0, "")


def test_every_key_of_every_preset_has_its_row() -> None:
    rows = set(re.findall(r"^\| `([\w-]+)` \|", page("configuration.md"), re.MULTILINE))
    for preset in PRESETS.glob("*.json"):
        assert preset.stem in rows
        keys = load_settings(preset.stem, []).to_json()
        assert keys.keys() | keys["grpo"].keys() | keys["evaluation"].keys() <= rows


def test_no_field_is_without_a_meaning_and_no_link_leads_nowhere() -> None:
    text = page("configuration.md")
    assert not re.findall(r"^\|.*\| +\|$", text, re.MULTILINE)
    anchors = {heading.lower().replace(".", "") for heading in re.findall(r"^## `([^`]+)`$", text, re.MULTILINE)}
    assert set(re.findall(r"\(#([^)]+)\)", text)) <= anchors


def test_bounds_and_defaults_are_told() -> None:
    text = page("configuration.md")
    assert "| `num_generations` | integer, at least 2 | `8` |" in text
    assert "| `learning_rate` | number, above 0 | `0.00015` |" in text
    assert "| `scale_rewards` | `group`, `batch`, `none` |" in text
