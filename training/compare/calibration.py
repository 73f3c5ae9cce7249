"""How well `simulate_config` foretells the next stage: predicted against measured valid rates, per map size.

A prediction is what an answer of `simulate_config` in the engineer's transcript says of a size under knobs that the next stage
then has: the hole and wait ratio of the size decide which boards are made, its share does not. Where several answers speak of the
same knobs the last one counts. `measured_on` says what it is held against:

- `train_first`: the completions of the first tenth of the next stage's steps (at least one step): the boards that were meant, and
  a policy that has hardly moved since. This is the calibration proper.
- `train`: all completions of the next stage's training: the same kind of boards, while the policy learns.
- `validation`: sampled completions on the fixed validation boards after the next stage, whose knobs are others.

`error` is predicted minus measured. The size `all` joins the sizes, weighted by their shares in the next stage; it is there when
every size with a share was predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from envwright.agent.transcript import read_transcript
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.patch import check_patch
from envwright.tools.trial import same_instances
from envwright.training.compare.budget import simulations
from envwright.training.compare.completions import Completion, read_completions, validity_groups
from envwright.training.runstore import RunStore, StageFolder
from envwright.training.settings import RunSettings

__all__ = ["calibration_rows"]

_FIRST_SHARE = 0.1


class _Prediction(NamedTuple):
    """What a simulation says of one size."""

    valid: float
    signal: float
    boards: int


def calibration_rows(store: RunStore, settings: RunSettings, number: int, trained: Sequence[Completion]) -> list[dict[str, Any]]:
    """Return the rows of one engineer's predictions.

    Args:
        store: the run.
        settings: its settings.
        number: the stage after which the engineer predicted.
        trained: the completions of the next stage's training, in the order of sampling.
    """
    config = store.stage(number + 1).config()
    predictions = _predictions(store.stage(number), config)
    if not predictions:
        return []
    shares = {bucket: knobs.data_ratio for bucket, knobs in config.buckets() if knobs.data_ratio > 0}
    if shares.keys() <= predictions.keys():
        predictions["all"] = _joined(predictions, shares)
    grpo = settings.grpo
    first = math.ceil(_FIRST_SHARE * settings.steps_per_stage) * grpo.boards_per_step * grpo.num_generations
    validation = store.stage(number + 1).path / "validation.jsonl"
    rows = []
    for measured_on, completions, group in (
        ("train_first", trained[:first], grpo.num_generations),
        ("train", trained, grpo.num_generations),
        ("validation", read_completions(validation), None),
    ):
        for size, prediction in predictions.items():
            own = [completion for completion in completions if size in ("all", completion.size)]
            if own:
                rows.append({"stage": number, "size": size, "measured_on": measured_on, **_held_against(prediction, own, group)})
    return rows


def _held_against(prediction: _Prediction, completions: Sequence[Completion], group: int | None) -> dict[str, Any]:
    measured = sum(completion.outcome.valid for completion in completions) / len(completions)
    signal = None
    if group is not None:
        groups = validity_groups(completions, group)
        signal = sum(0 < valid < group for _, valid in groups) / len(groups)
    return {
        "predicted": prediction.valid,
        "predicted_boards": prediction.boards,
        "measured": measured,
        "measured_completions": len(completions),
        "error": prediction.valid - measured,
        "predicted_signal": prediction.signal,
        "measured_signal": signal,
    }


def _predictions(folder: StageFolder, following: GeneratorConfig) -> dict[str, _Prediction]:
    """Predictions of a stage's session for the knobs that the next stage has; size -> the last one."""
    if not folder.transcript.is_file():
        return {}
    try:
        recording = read_transcript(folder.transcript)
    except UserError:
        return {}
    config, found = folder.config(), dict[str, _Prediction]()
    for arguments, answer in simulations(recording):
        tried = _tried(config, arguments)
        if tried is None:
            continue
        for row in answer["buckets"]:
            bucket = row["bucket"]
            if bucket not in following.sizes:
                continue
            for knobs, hardness, forecast in (
                (config.sizes[bucket], row["current_hardness"] or row["hardness"], row["current_forecast"]),
                (tried.sizes[bucket], row["hardness"], row["forecast"]),
            ):
                if hardness is not None and forecast["predicted_valid"] is not None and same_instances(knobs, following.sizes[bucket]):
                    found[bucket] = _Prediction(forecast["predicted_valid"], forecast["mixed_groups"], hardness["instances"])
    return {bucket: found[bucket] for bucket in sorted(found, key=int)}


def _tried(config: GeneratorConfig, arguments: dict[str, Any]) -> GeneratorConfig | None:
    """The config that a simulation tried."""
    edits = arguments.get("edits")
    if not edits:
        return config
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        return None
    complete = [{"op": "replace", **edit, "reason": "simulated", "evidence": []} for edit in edits]
    check = check_patch(config, {"summary": "simulated", "edits": complete})
    return check.config if check.accepted else None


def _joined(predictions: dict[str, _Prediction], shares: dict[str, float]) -> _Prediction:
    total = sum(shares.values())
    valid, signal = (sum(share * predictions[bucket][index] for bucket, share in shares.items()) / total for index in (0, 1))
    return _Prediction(valid, signal, sum(predictions[bucket].boards for bucket in shares))
