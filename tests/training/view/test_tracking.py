"""Trackers: one run over all stages, in TensorBoard's own files and trackio's own database."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envwright.env.errors import UserError
from envwright.training.settings import RunSettings
from envwright.training.view.live_view import follow
from envwright.training.view.tracking import check_trackers
from tests.training.played_run import play, report, summary

tensorboard = pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")


@pytest.fixture(autouse=True)
def _fresh_accelerate() -> Iterator[None]:
    """What a tracker makes when no trainer came before it must not reach the next test's trainer."""
    yield
    from accelerate.state import PartialState

    PartialState._reset_state()


def _ignore(_: str) -> None:
    """A line that nobody reads."""


def _points(folder: Path, name: str) -> list[tuple[int, Any]]:
    """Return (step, value) of a scalar in TensorBoard's files, without steps that a later file took back."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tracking" / "tensorboard"))
    events.Reload()
    return [(event.step, pytest.approx(event.value, rel=1e-5)) for event in events.Scalars(name)]


@tensorboard
def test_steps_are_counted_over_all_stages_and_every_figure_is_there(tiny_settings: RunSettings, tmp_path: Path) -> None:
    with follow(_ignore, ["tensorboard"]) as progress:
        play(progress, tiny_settings, tmp_path)
    assert _points(tmp_path, "train/reward") == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    assert _points(tmp_path, "train/tokens_per_second")[0] == (1, 320.0)
    assert _points(tmp_path, "knobs/4x4/hole_ratio") == [(1, 0.2), (3, 0.3)]
    assert _points(tmp_path, "validation/valid/3x3") == [(step, summary().by_size["3"].valid.rate) for step in (2, 4)]
    assert _points(tmp_path, "validation/greedy_optimal") == [(step, summary().optimal.rate) for step in (2, 4)]
    assert _points(tmp_path, "heldout/valid") == [(4, summary().valid.rate)]
    for figure in ("signal", "tokens", "loss", "grad_norm", "entropy", "seconds"):
        assert [step for step, _ in _points(tmp_path, f"train/{figure}")] == [1, 2, 3, 4]


@tensorboard
def test_the_settings_are_kept_with_the_run(tiny_settings: RunSettings, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with follow(_ignore, ["tensorboard"]) as progress:
        play(progress, tiny_settings, tmp_path)
    events = EventAccumulator(str(tmp_path / "tracking" / "tensorboard"))
    events.Reload()
    (event,) = events.Tensors("settings/text_summary")
    text = event.tensor_proto.string_val[0].decode("utf-8")
    assert json.loads(text.removeprefix("```json\n").removesuffix("\n```")) == tiny_settings.to_json()


@tensorboard
def test_a_killed_run_goes_on_in_the_same_run_and_repeats_no_step(tiny_settings: RunSettings, tmp_path: Path) -> None:
    settings = tiny_settings.model_copy(update={"steps_per_stage": 4})
    with follow(_ignore, ["tensorboard"]) as progress:
        play(progress, settings, tmp_path, stop_at=(1, 3))  # killed; the newest checkpoint is that of step 2
    with follow(_ignore, ["tensorboard"]) as progress:
        progress.start(settings, tmp_path, 1)
        progress.stage(1, settings.config, 8, 0.0)
        progress.resumed(2, 4)
        progress.step(report(3, reward=0.7), 4)
        progress.step(report(4, reward=0.8), 4)
        progress.validated(summary(), summary())
    assert [step for step, _ in _points(tmp_path, "train/reward")] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert _points(tmp_path, "train/reward")[-2:] == [(7, 0.7), (8, 0.8)]
    assert [step for step, _ in _points(tmp_path, "validation/valid")] == [4, 8]


@tensorboard
def test_a_stage_that_was_trained_before_keeps_its_steps(tiny_settings: RunSettings, tmp_path: Path) -> None:
    with follow(_ignore, ["tensorboard"]) as progress:
        play(progress, tiny_settings, tmp_path, stop_at=(0, 2))  # killed while the engineer worked
    with follow(_ignore, ["tensorboard"]) as progress:
        progress.start(tiny_settings, tmp_path, 0)
        progress.stage(0, tiny_settings.config, 8, 0.0)
        progress.resumed(2, 2)
        progress.validated(summary(), summary())
        progress.stage(1, tiny_settings.config, 8, 0.0)
        progress.step(report(1), 2)
    assert [step for step, _ in _points(tmp_path, "train/reward")] == [1, 2, 3]
    assert [step for step, _ in _points(tmp_path, "validation/valid")] == [2]


def test_trackio_keeps_one_run_for_a_run_and_its_resumption(
    tiny_settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = pytest.importorskip("trackio.sqlite_storage")
    monkeypatch.setattr(storage, "TRACKIO_DIR", tmp_path / "trackio")
    for stop_at in ((0, 2), None):
        with follow(_ignore, ["trackio"]) as progress:
            play(progress, tiny_settings, tmp_path / "run", stop_at=stop_at)
    with sqlite3.connect(tmp_path / "trackio" / "envwright.db") as database:
        rows = [
            (name, step, json.loads(figures)) for name, step, figures in database.execute("select run_name, step, metrics from metrics")
        ]
        ((settings,),) = database.execute("select config from configs")
    assert len({name for name, _, _ in rows}) == 1
    assert {step: figures["train/reward"] for _, step, figures in rows if "train/reward" in figures} == pytest.approx(
        {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}
    )
    assert tiny_settings.to_json().items() <= json.loads(settings).items()


def test_a_tracker_whose_package_is_missing_is_named_with_the_fix_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envwright.training.view.tracking.TRACKERS", ("no_such_tracker",))
    with pytest.raises(UserError, match="report_to no_such_tracker needs 'no_such_tracker', which is not installed: pip install no_such"):
        check_trackers(["no_such_tracker"])


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(UserError, match="'mlflow' is no tracker; those are tensorboard, trackio, wandb"):
        check_trackers(["mlflow"])
