"""`failure_breakdown`: how completions ended, counted per group. Raw counts with intervals, no prose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import Field, field_validator

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.canonical import Split
from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome
from envwright.env.statistics import Interval, wilson
from envwright.tools.evidence import Evidence
from envwright.tools.selection import select

__all__ = ["BreakdownRow", "FailureBreakdown", "FailureBreakdownArguments", "run"]

GroupKey = Literal["size", "num_agents", "wait_required", "outcome", "hole_ratio"]
_BANDS = 10
_OUTCOMES = tuple(Outcome)
_VALID = frozenset(outcome for outcome in Outcome if outcome.valid)


class FailureBreakdownArguments(FrozenModel):
    """Count how the policy's completions ended, per group: n, counts per outcome, valid and optimal rate with 95 % intervals."""

    by: tuple[GroupKey, ...] = Field(max_length=5)
    """What to group by, outermost first; hole_ratio groups by bands of width 0.1. An empty list gives the totals alone."""
    split: Split = Split.VALIDATION
    """Which rollouts to count: those on validation boards (default) or those of training."""
    stage: StrictInt | None = Field(default=None, ge=0)
    """Stage of the run, from 0; null means the latest one that has rollouts of this split."""

    @field_validator("by", mode="after")
    @classmethod
    def _distinct(cls, by: tuple[GroupKey, ...]) -> tuple[GroupKey, ...]:
        repeated = [key for key, count in Counter(by).items() if count > 1]
        if repeated:
            raise ValueError(f"{repeated[0]!r} is repeated; name each group key once")
        return by


class BreakdownRow(FrozenModel):
    """How the completions of one group ended."""

    group: dict[str, int | bool | str]
    """Group key -> its value; hole_ratio is a band such as "0.1-0.2", its lower end included. Empty for the totals."""
    n: int = Field(ge=0)
    """Completions."""
    outcomes: dict[str, int]
    """Outcome -> completions that ended so; outcomes that did not occur are left out."""
    valid: Interval
    """Share of completions that break no rule and reach every goal."""
    optimal: Interval
    """Share of completions that are valid and of minimal cost."""


class FailureBreakdown(FrozenModel):
    """Answer of `failure_breakdown`."""

    stage: int
    """Stage that was counted."""
    split: Split
    """Split that was counted."""
    rows: tuple[BreakdownRow, ...]
    """One row per group that has completions, sorted by the group keys."""
    totals: BreakdownRow
    """All of them together."""


class _Facts(NamedTuple):
    """All that groups and rates are made of; far fewer differ than there are rollouts."""

    outcome: Outcome
    size: int
    num_agents: int
    wait_required: bool
    holes: int

    def value(self, key: GroupKey) -> int:
        """Return the sortable value of a group key."""
        if key == "outcome":
            return _OUTCOMES.index(self.outcome)
        if key == "hole_ratio":
            return self.holes * _BANDS // (self.size * self.size)
        value: int = getattr(self, key)
        return value


def run(arguments: FailureBreakdownArguments, evidence: Evidence) -> FailureBreakdown:
    """Count the outcomes of a split and stage per group.

    Raises:
        ToolError: `not_found` when the split or stage has no rollouts.
    """
    stage, rollouts = select(evidence, arguments.split, arguments.stage)
    counts_of_groups = evidence.remember(_counts)
    key = (arguments.split, stage)
    if key not in counts_of_groups:
        counts_of_groups[key] = _counted(rollouts)
    groups: dict[tuple[int, ...], Counter[Outcome]] = {}
    for facts, count in counts_of_groups[key].items():
        group = groups.setdefault(tuple(facts.value(key) for key in arguments.by), Counter())
        group[facts.outcome] += count
    totals: Counter[Outcome] = Counter()
    for counts in groups.values():
        totals.update(counts)
    rows = tuple(_row(dict(zip(arguments.by, map(_label, arguments.by, values), strict=True)), groups[values]) for values in sorted(groups))
    return FailureBreakdown(stage=stage, split=arguments.split, rows=rows, totals=_row({}, totals))


def _counts(_evidence: Evidence) -> dict[tuple[Split, int], dict[_Facts, int]]:
    """Where the counts of a split and stage are kept once somebody has asked for them."""
    return {}


def _counted(rollouts: Sequence[Rollout]) -> dict[_Facts, int]:
    """Count rollouts by their facts in one pass, with as little work per rollout as can be: there may be 100,000."""
    plain = Counter(
        (
            rollout.outcome,
            (instance := rollout.instance).size,
            len(instance.starts),
            instance.wait_required,
            len(instance.holes),
        )
        for rollout in rollouts
    )
    counted: dict[_Facts, int] = {}
    for (outcome, size, num_agents, wait_required, holes), count in plain.items():
        if outcome is None:
            raise ValueError("a rollout is not graded; use read_rollouts or graded_rollout")
        counted[_Facts(outcome, size, num_agents, wait_required, holes)] = count
    return counted


def _label(key: str, value: int) -> int | bool | str:
    """Turn a sortable group value into what the answer shows."""
    if key == "outcome":
        return _OUTCOMES[value].value
    if key == "hole_ratio":
        return f"{value / _BANDS:.1f}-{(value + 1) / _BANDS:.1f}"
    return value


def _row(group: dict[str, int | bool | str], counts: Counter[Outcome]) -> BreakdownRow:
    n = counts.total()
    return BreakdownRow(
        group=group,
        n=n,
        outcomes={outcome.value: counts[outcome] for outcome in _OUTCOMES if counts[outcome]},
        valid=wilson(sum(counts[outcome] for outcome in _VALID), n).rounded(),
        optimal=wilson(counts[Outcome.OPTIMAL], n).rounded(),
    )
