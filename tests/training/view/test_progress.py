"""The plain lines that a person follows, and who prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from envwright.training.settings import RunSettings
from envwright.training.view.live_view import follow
from envwright.training.view.progress import Progress, tokens_per_second
from tests.training.played_run import play, report


def _lines(settings: RunSettings, folder: Path, patch: str = "more holes") -> list[str]:
    lines: list[str] = []
    play(Progress(lines.append), settings, folder, summary_of_patch=patch)
    return lines


def test_a_step_line_holds_means_since_the_line_before_and_the_speed(tiny_settings: RunSettings, tmp_path: Path) -> None:
    lines: list[str] = []
    progress = Progress(lines.append)
    progress.start(tiny_settings, tmp_path, 0)
    for step in range(1, 17):
        progress.step(report(step, reward=0.1 * step), 16)
    assert lines[2] == "   step   2/16  reward 0.150  groups with signal 0.25  tokens 10.0  2.00 s/step  28 s left  320 tokens/s"
    assert lines[-1] == "   step  16/16  reward 1.550  groups with signal 0.25  tokens 10.0  2.00 s/step  done  320 tokens/s"
    assert len(lines) == 2 + 8


def test_partial_credit_is_announced_with_what_it_did_in_a_trial(tiny_settings: RunSettings, tmp_path: Path) -> None:
    lines: list[str] = []
    grpo = tiny_settings.grpo.model_copy(update={"partial_credit": {"goal_not_reached": 0.1}})
    Progress(lines.append).start(tiny_settings.model_copy(update={"grpo": grpo}), tmp_path, 0)
    assert any(
        "partial credit is on (goal_not_reached 0.1): a trial of it taught a policy to stand still within 60 steps" in line
        for line in lines
    )


def test_steps_that_took_no_time_have_no_speed() -> None:
    assert tokens_per_second([report(1, seconds=0.0)]) == 0.0
    assert tokens_per_second([report(1), report(2, tokens=20.0)]) == pytest.approx(64 * 30 / 4)


def test_what_a_model_wrote_into_a_patch_cannot_steer_the_terminal(tiny_settings: RunSettings, tmp_path: Path) -> None:
    text = "\n".join(_lines(tiny_settings, tmp_path, patch="gone \x1b[2J\x07"))
    assert r"patch (patch_accepted): gone \x1b[2J\x07" in text
    assert "\x1b" not in text


def test_without_a_terminal_a_run_is_followed_by_the_plain_lines_alone(tiny_settings: RunSettings, tmp_path: Path) -> None:
    lines: list[str] = []
    with follow(lines.append) as progress:
        play(progress, tiny_settings, tmp_path)
    assert lines == _lines(tiny_settings, tmp_path)


def test_processes_but_the_main_one_are_silent_and_track_nothing(
    tiny_settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    lines: list[str] = []
    with follow(lines.append, ["tensorboard"]) as progress:
        play(progress, tiny_settings, tmp_path)
    assert (lines, capfd.readouterr().out, list(tmp_path.iterdir())) == ([], "", [])
