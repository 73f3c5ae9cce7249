"""`simulate_config`: what edits would do before they are proposed: feasibility, hardness, and the policy's success."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.config import GeneratorConfig
from envwright.env.hardness import Hardness
from envwright.env.instance import Instance
from envwright.env.patch import Change, Edit, PatchProblem, check_patch
from envwright.tools.deadline import check_time
from envwright.tools.errors import ToolError, ToolErrorCode
from envwright.tools.evidence import Evidence, PolicyProbe
from envwright.tools.trial import DIGITS, Trial, hardness_of, same_instances, try_knobs

__all__ = ["Forecast", "SimulateConfig", "SimulateConfigArguments", "SimulatedBucket", "SimulatedEdit", "run"]


def _as_in_a_patch(name: str) -> Callable[[dict[str, Any]], None]:
    """Tell models the bounds of a patch's field while `check_patch`, whose words are better, enforces them."""

    def extend(schema: dict[str, Any]) -> None:
        of_patch: dict[str, Any] = Edit.model_json_schema()["properties"][name]
        schema.update({key: of_patch[key] for key in ("pattern", "minimum", "maximum") if key in of_patch})

    return extend


class SimulatedEdit(FrozenModel):
    """One knob of one size, set to a new value; a trial needs no reason."""

    op: Literal["replace"] = "replace"
    """The only operation."""
    path: str = Field(json_schema_extra=_as_in_a_patch("path"))
    """JSON pointer of the knob: /sizes/<size>/<knob>."""
    value: Annotated[float, Field(strict=True)] = Field(json_schema_extra=_as_in_a_patch("value"))
    """New value: data_ratio and wait_ratio 0 to 1, hole_ratio 0 to 0.5."""
    reason: str | None = None
    """Why; may be left out."""
    evidence: tuple[str, ...] = ()
    """Ids of the tool results that support the edit; may be left out."""


class SimulateConfigArguments(FrozenModel):
    """Try edits without proposing them: is each map size feasible, how hard is it, how would the policy do, against the current config."""

    edits: tuple[SimulatedEdit, ...]
    """The edits to try, as in a patch; an empty list tries the current config."""
    n: StrictInt = Field(default=32, ge=1, le=200)
    """Instances made per map size, 1 to 200: more is slower and more exact."""


class Forecast(FrozenModel):
    """How the policy at hand does on sampled instances; null without a policy or without instances."""

    predicted_valid: float | None = None
    """Share of completions that are valid, 0 to 1."""
    mixed_groups: float | None = None
    """Share of instances whose group of completions holds both valid and invalid ones: only those give a training signal."""


class SimulatedBucket(FrozenModel):
    """One bucket under the edits and under the current config."""

    bucket: str
    """Name of the bucket: the map size."""
    data_ratio: float
    """Share of the data under the edits."""
    current_data_ratio: float
    """Share of the data now."""
    changed: bool
    """Whether the edits change what the bucket's instances are like, their share aside."""
    feasible: bool | None
    """Whether the generator can fill the bucket; null when its data_ratio becomes 0 and nothing was made."""
    reason: str | None
    """Why the generator cannot fill it."""
    acceptance: float | None
    """Share of drawn boards that the generator accepted: low means slow to make."""
    repeated: int | None
    """Instances that repeat a board because there are no new ones."""
    hardness: Hardness | None
    """Figures of the instances under the edits."""
    current_hardness: Hardness | None
    """Figures of the instances now; null when the bucket is unchanged and the figures are the same."""
    forecast: Forecast
    """How the policy does under the edits."""
    current_forecast: Forecast
    """How the policy does now."""


class SimulateConfig(FrozenModel):
    """Answer of `simulate_config`."""

    n: int
    """Instances made per bucket."""
    feasible: bool
    """Whether the generator can fill every bucket that has a share of the data."""
    diff: tuple[Change, ...]
    """Every knob that the edits change, scaled data ratios included."""
    buckets: tuple[SimulatedBucket, ...]
    """One row per bucket that has a share of the data, now or under the edits."""
    forecast: Forecast
    """Over all buckets, weighted by their share of the data, under the edits."""
    current_forecast: Forecast
    """The same for the current config."""
    warnings: tuple[PatchProblem, ...]
    """What to know about the edits, as `propose_patch` would say."""
    notes: tuple[str, ...]
    """Why figures are missing."""


@dataclass(frozen=True, slots=True)
class _Side:
    """A config and what was made with it, per bucket that has a share of the data."""

    config: GeneratorConfig
    trials: dict[str, Trial]
    forecasts: dict[str, Forecast]

    def overall(self) -> Forecast:
        """Mean over the buckets that have figures, weighted by their share of the data."""
        return Forecast(predicted_valid=self._weighted("predicted_valid"), mixed_groups=self._weighted("mixed_groups"))

    def _weighted(self, figure: str) -> float | None:
        pairs = [(self.config.sizes[bucket].data_ratio, getattr(forecast, figure)) for bucket, forecast in self.forecasts.items()]
        known = [(share, value) for share, value in pairs if value is not None]
        total = sum(share for share, _ in known)
        return round(sum(share * value for share, value in known) / total, DIGITS) if total else None


def run(arguments: SimulateConfigArguments, evidence: Evidence) -> SimulateConfig:
    """Make instances under the edits and measure them, and the policy on them, against the current config.

    Raises:
        ToolError: `validation_failed` when a patch with these edits would be refused; the message holds every problem.
            `timeout` when the call's time is over before every size is made.
    """
    config, diff, warnings = _candidate(arguments.edits, evidence.config)
    candidate = _trials(config, arguments.n, evidence.seed, {})
    shared = {bucket: trial for bucket, trial in candidate.items() if same_instances(config.sizes[bucket], evidence.config.sizes[bucket])}
    current = _trials(evidence.config, arguments.n, evidence.seed, shared)
    check_time("the boards are made, but no time is left to try the policy on them; ask for fewer boards with a smaller n")
    forecasts = _forecasts(evidence.probe, [*candidate.values(), *current.values()])
    after = _Side(config, candidate, {bucket: forecasts[trial.instances] for bucket, trial in candidate.items()})
    before = _Side(evidence.config, current, {bucket: forecasts[trial.instances] for bucket, trial in current.items()})
    return SimulateConfig(
        n=arguments.n,
        feasible=all(trial.reason is None for trial in candidate.values()),
        diff=diff,
        buckets=tuple(_bucket(bucket, after, before) for bucket in config.sizes if bucket in candidate or bucket in current),
        forecast=after.overall(),
        current_forecast=before.overall(),
        warnings=warnings,
        notes=_notes(evidence.probe is not None, candidate, current),
    )


def _candidate(
    edits: Sequence[SimulatedEdit], config: GeneratorConfig
) -> tuple[GeneratorConfig, tuple[Change, ...], tuple[PatchProblem, ...]]:
    if not edits:
        return config, (), ()
    complete = [{**edit.to_json(), "reason": edit.reason or "simulated"} for edit in edits]
    check = check_patch(config, {"summary": "simulated", "edits": complete})
    if not check.accepted:
        problems = "; ".join(f"{problem.path}: {problem.message}" for problem in check.errors)
        raise ToolError(ToolErrorCode.VALIDATION_FAILED, f"these edits would be refused: {problems}")
    return check.config, check.diff, check.warnings


def _used(config: GeneratorConfig) -> list[str]:
    return [bucket for bucket, knobs in config.buckets() if knobs.data_ratio > 0]


def _trials(config: GeneratorConfig, n: int, seed: int, made: Mapping[str, Trial]) -> dict[str, Trial]:
    """Make boards for every bucket in use that has none in `made` yet."""
    used = _used(config)
    trials = {}
    for number, bucket in enumerate(used):
        check_time(f"{number} of {len(used)} sizes were made, with n={n} boards each; ask for fewer boards with a smaller n")
        trials[bucket] = made[bucket] if bucket in made else try_knobs(config.num_agents, bucket, config.sizes[bucket], n, seed)
    return trials


def _forecasts(probe: PolicyProbe | None, trials: Sequence[Trial]) -> dict[tuple[Instance, ...], Forecast]:
    """Ask the policy once for all boards, those that both configs share counted once; boards -> figures."""
    batches = {id(trial.instances): trial.instances for trial in trials}
    if probe is None:
        return {boards: Forecast() for boards in batches.values()}
    asked = [instance for boards in batches.values() for instance in boards]
    groups = list(probe(asked)) if asked else []
    if len(groups) != len(asked):
        raise ValueError(f"the probe answered for {len(groups)} of {len(asked)} instances")
    result, first = {}, 0
    for boards in batches.values():
        result[boards] = _forecast(groups[first : first + len(boards)])
        first += len(boards)
    return result


def _forecast(groups: Sequence[Sequence[bool]]) -> Forecast:
    completions = sum(len(group) for group in groups)
    if completions == 0:
        return Forecast()
    valid = sum(sum(map(bool, group)) for group in groups)
    mixed = sum(any(group) and not all(group) for group in groups)
    return Forecast(predicted_valid=round(valid / completions, DIGITS), mixed_groups=round(mixed / len(groups), DIGITS))


def _bucket(bucket: str, after: _Side, before: _Side) -> SimulatedBucket:
    trial, now = after.trials.get(bucket), before.trials.get(bucket)
    return SimulatedBucket(
        bucket=bucket,
        data_ratio=after.config.sizes[bucket].data_ratio,
        current_data_ratio=before.config.sizes[bucket].data_ratio,
        changed=not same_instances(after.config.sizes[bucket], before.config.sizes[bucket]),
        feasible=None if trial is None else trial.reason is None,
        reason=None if trial is None else trial.reason,
        acceptance=None if trial is None else trial.acceptance,
        repeated=None if trial is None or trial.reason else trial.repeated,
        hardness=None if trial is None else hardness_of(trial.instances),
        current_hardness=None if now is None or now is trial else hardness_of(now.instances),
        forecast=after.forecasts.get(bucket, Forecast()),
        current_forecast=before.forecasts.get(bucket, Forecast()),
    )


def _notes(has_probe: bool, candidate: Mapping[str, Trial], current: Mapping[str, Trial]) -> tuple[str, ...]:
    notes = []
    if not has_probe:
        notes.append("no policy is at hand, so nothing is predicted; feasibility and hardness do not need one")
    for name, trials in (("under the edits", candidate), ("in the current config", current)):
        if failed := [bucket for bucket, trial in trials.items() if trial.reason is not None]:
            notes.append(f"infeasible {name}, and not in its overall figures: {', '.join(failed)}")
    return tuple(notes)
