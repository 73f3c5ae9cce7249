"""The competence-frontier rule as plain functions: validation counts and a config in, a few planned edits out.

GRPO learns from a board only when its group of completions is mixed: some valid, some not. At a success rate p and
groups of G that has the chance 1 - p^G - (1 - p)^G, so practice belongs where the policy is just beginning to succeed.
The policy fails first on boards that require a wait, so `wait_ratio` is the main lever; holes and shares follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from envwright.env.config import KNOB_BOUNDS, GeneratorConfig, Knobs
from envwright.env.rules import Outcome
from envwright.env.statistics import Interval, wilson

__all__ = ["Counts", "PlannedEdit", "SizeEvidence", "halved", "mixed_chance", "plan_edits", "practice_rate"]

GROUP_SIZE = 8
"""Completions per board in the runs that the thresholds were set for; the chance of a mixed group depends on it weakly."""
FRONTIER_LOW = 0.2
"""Below this valid rate practice is too hard: most groups fail as a whole."""
TARGET_RATE = 0.5
"""Valid rate that wait ratios steer practice to: where p(1-p) is largest. At 0.3 the demo's policy learned to wait everywhere (docs/notes)."""
SOLVED_RATE = 0.6
"""Wait-free boards count as mostly solved from this rate on (70 to 85 % after pretraining): coordination is what is missing."""
MASTERED_RATE = 0.9
"""Above this valid rate groups are all valid more often than mixed."""
MIN_SAMPLES = 10
"""Fewer completions of a kind say nothing: at 10 a 95 % Wilson interval is already half a unit wide."""
LEARNABLE_CHANCE = 0.2
"""Chance of a mixed group below which a kind of board is out of reach: four groups of five would teach nothing."""
WAIT_STEP = 0.25
"""Largest change of a wait ratio in a stage."""
WAIT_MAX = 0.75
"""Highest wait ratio steered to: at 0.75 success on held-out conflict boards doubled; the rest keeps plain path-finding alive."""
WAIT_DEADBAND = 0.1
"""Smaller changes of a wait ratio are not worth an edit: less than a board in ten would be another one."""
HOLE_STEP = 0.05
"""Change of a hole ratio in a stage: about one hole on a 4x4 or 5x5 board."""
HOLE_MAX = 0.35
"""Highest hole ratio steered to: beyond it boards fall apart and the generator rejects most of them."""
SHARE_CUT = 0.25
"""Part of its share of instances that a size that teaches nothing gives up in a stage."""
FLOOR = 0.3
"""No size is brought below this fraction of an equal share: an abandoned size is forgotten, and cannot be judged again."""
MAX_EDITS = 6
"""Edits per patch: selective edits beat rewriting everything, and few edits can be told apart afterwards."""
_FULL = 0.95
_NEVER = 0.05


@dataclass(frozen=True)
class Counts:
    """How completions ended."""

    outcomes: Mapping[str, int]
    """Completions per outcome."""

    @cached_property
    def n(self) -> int:
        """Completions."""
        return sum(self.outcomes.values())

    @cached_property
    def valid(self) -> int:
        """Valid completions."""
        return sum(count for outcome, count in self.outcomes.items() if Outcome(outcome).valid)

    @property
    def rate(self) -> float:
        """Valid rate, 0 without completions."""
        return self.valid / self.n if self.n else 0.0

    @cached_property
    def interval(self) -> Interval:
        """95 % Wilson interval of the valid rate."""
        return wilson(self.valid, self.n)

    @property
    def measured(self) -> bool:
        """True when there are enough completions to judge by."""
        return self.n >= MIN_SAMPLES

    @property
    def chance(self) -> float:
        """Chance of a mixed group, at the rate smoothed by one success and one failure: few zeros prove nothing."""
        return mixed_chance((self.valid + 1) / (self.n + 2))

    def told(self, kind: str) -> str:
        """Return the commonest failure with its count: "41 of 60 wait-required boards end in vertex_conflict"."""
        failures = {outcome: count for outcome, count in self.outcomes.items() if count and not Outcome(outcome).valid}
        if not failures:
            return f"{self.valid} of {self.n} {kind} boards are valid"
        outcome = min(failures, key=lambda name: (-failures[name], name))
        return f"{failures[outcome]} of {self.n} {kind} boards end in {outcome}"

    def __add__(self, other: Counts) -> Counts:
        """Pool two kinds of boards."""
        return Counts(dict(Counter(self.outcomes) + Counter(other.outcomes)))


@dataclass(frozen=True, slots=True)
class SizeEvidence:
    """What validation says about one size; None for a kind of board that was not seen."""

    wait: Counts | None
    """Boards on which every optimal plan waits."""
    free: Counts | None
    """All other boards."""

    @property
    def both(self) -> Counts:
        """All boards of the size."""
        return (self.wait or Counts({})) + (self.free or Counts({}))


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """One edit before it becomes part of a patch."""

    bucket: str
    """Size."""
    knob: str
    """Knob."""
    before: float
    """Current value."""
    value: float
    """New value."""
    reason: str
    """Why, with counts; the change itself is told by the values."""
    weight: float = 0.0
    """How much of practice it changes, to choose the most important ones."""
    tentative: bool = False
    """True when only a simulation with the policy can justify it."""

    @property
    def path(self) -> str:
        """JSON pointer of the knob."""
        return f"/sizes/{self.bucket}/{self.knob}"


def mixed_chance(rate: float, group: int = GROUP_SIZE) -> float:
    """Return the chance that a group holds both a valid and an invalid completion, at a success rate."""
    return 1.0 - rate**group - (1.0 - rate) ** group


def plan_edits(config: GeneratorConfig, evidence: Mapping[str, SizeEvidence]) -> list[PlannedEdit]:
    """Return the edits that move practice towards the frontier, the most important ones, smallest map first.

    A size whose wait ratio is about to change keeps its share: it will be another kind of practice.
    """
    edits: list[PlannedEdit] = []
    for bucket, knobs in config.buckets():
        seen = evidence.get(bucket)
        if seen is not None and knobs.data_ratio > 0:
            edit = _wait_edit(bucket, knobs, seen) or _hole_edit(bucket, knobs, seen)
            if edit is not None:
                edits.append(edit)
    waits = {edit.bucket for edit in edits if edit.knob == "wait_ratio" and not edit.tentative}
    edits += [edit for edit in _share_edits(config, evidence) if edit.bucket not in waits]
    chosen = sorted(edits, key=lambda edit: (edit.tentative, -edit.weight, int(edit.bucket), edit.knob))[:MAX_EDITS]
    return sorted(chosen, key=lambda edit: (int(edit.bucket), edit.knob))


def halved(edit: PlannedEdit) -> PlannedEdit:
    """Return the edit with half its step."""
    return replace(edit, value=_rounded(edit.knob, (edit.before + edit.value) / 2))


def _rounded(knob: str, value: float) -> float:
    low, high = KNOB_BOUNDS[knob]
    return round(min(high, max(low, value)), 3)


def practice_rate(knobs: Knobs, seen: SizeEvidence) -> float | None:
    """Return the valid rate on the size's own mix of boards; None when a kind that it practises is not measured."""
    total = 0.0
    for counts, share in ((seen.wait, knobs.wait_ratio), (seen.free, 1.0 - knobs.wait_ratio)):
        if counts is not None and counts.measured:
            total += share * counts.rate
        elif share > _NEVER:
            return None
    return total


def _wait_edit(bucket: str, knobs: Knobs, seen: SizeEvidence) -> PlannedEdit | None:
    """Plan a wait ratio that brings practice to the target rate, one bounded step at most."""
    wait, free = seen.wait, seen.free
    if wait is None or free is None or not (wait.measured and free.measured):
        return None
    rate = practice_rate(knobs, seen)
    if rate is None or free.interval.low <= wait.rate:
        return None
    wish = (free.rate - TARGET_RATE) / (free.rate - wait.rate)
    current = knobs.wait_ratio
    if free.rate >= SOLVED_RATE and wait.interval.high < MASTERED_RATE and wish > current:
        out_of_reach = wait.chance < LEARNABLE_CHANCE
        value = min(wish, WAIT_MAX, current + (WAIT_STEP / 2 if out_of_reach else WAIT_STEP))
        reason = f"{wait.valid} of {wait.n} are valid against {free.valid} of {free.n} wait-free ones: practise coordination"
    elif rate < FRONTIER_LOW and wish < current:
        out_of_reach = False
        value = max(wish, 0.0, current - WAIT_STEP)
        reason = f"practice is at {rate:.2f} valid: wait-free boards ({free.valid} of {free.n} valid) give it a foothold"
    else:
        return None
    value = _rounded("wait_ratio", value)
    if abs(value - current) < WAIT_DEADBAND:
        return None
    reason = f"{bucket}x{bucket}: {wait.told('wait-required')}, {reason}"
    return PlannedEdit(bucket, "wait_ratio", current, value, reason, abs(value - current) * knobs.data_ratio, out_of_reach)


def _hole_edit(bucket: str, knobs: Knobs, seen: SizeEvidence) -> PlannedEdit | None:
    """Plan more holes for a mastered size, fewer for one that fails even without waiting."""
    rate = practice_rate(knobs, seen)
    total = seen.both
    if rate is None:
        return None
    current = knobs.hole_ratio
    if rate > MASTERED_RATE and total.interval.low > MASTERED_RATE - 0.1 and current < HOLE_MAX:
        value = _rounded("hole_ratio", min(HOLE_MAX, current + HOLE_STEP))
        reason = f"{bucket}x{bucket}: {total.valid} of {total.n} boards are valid: too easy to teach, a little more to get around"
    elif (
        rate < FRONTIER_LOW
        and total.interval.high < FRONTIER_LOW + 0.1
        and seen.free is not None
        and seen.free.rate < FRONTIER_LOW
        and current > 0
    ):
        value = _rounded("hole_ratio", max(0.0, current - HOLE_STEP))
        reason = f"{bucket}x{bucket}: only {seen.free.valid} of {seen.free.n} wait-free boards are valid: fewer holes until paths are found"
    else:
        return None
    return PlannedEdit(bucket, "hole_ratio", current, value, reason, abs(value - current) * knobs.data_ratio)


def _share_edits(config: GeneratorConfig, evidence: Mapping[str, SizeEvidence]) -> list[PlannedEdit]:
    """Plan smaller shares for sizes that teach nothing; the patch scales up the sizes that are not edited."""
    floor = round(FLOOR / len(config.sizes), 3)
    edits: list[PlannedEdit] = []
    receivers = 0.0
    for bucket, knobs in config.buckets():
        verdict = _teaches_nothing(bucket, knobs, evidence.get(bucket))
        if verdict is None:
            receivers += knobs.data_ratio
        elif (value := _rounded("data_ratio", max(floor, knobs.data_ratio * (1 - SHARE_CUT)))) < knobs.data_ratio:
            edits.append(PlannedEdit(bucket, "data_ratio", knobs.data_ratio, value, verdict, knobs.data_ratio - value))
    teaches = [bucket for bucket, knobs in config.buckets() if _on_frontier(knobs, evidence.get(bucket))]
    if receivers < 1 - _FULL or not teaches:
        return []
    return [replace(edit, reason=f"{edit.reason}; {_names(teaches)} can use the share") for edit in edits]


def _names(buckets: Sequence[str]) -> str:
    return ", ".join(f"{bucket}x{bucket}" for bucket in buckets)


def _on_frontier(knobs: Knobs, seen: SizeEvidence | None) -> bool:
    """True when the size is in practice, measured, and some of its groups are mixed."""
    if seen is None or knobs.data_ratio == 0:
        return False
    rate = practice_rate(knobs, seen)
    return rate is not None and FRONTIER_LOW / 2 <= rate <= MASTERED_RATE


def _teaches_nothing(bucket: str, knobs: Knobs, seen: SizeEvidence | None) -> str | None:
    """Say why a size is mastered or out of reach as it is practised; None when it is neither, or not measured."""
    rate = None if seen is None else practice_rate(knobs, seen)
    if seen is None or rate is None:
        return None
    total = seen.both
    counts = f"{bucket}x{bucket}: {total.valid} of {total.n} boards are valid"
    if rate > MASTERED_RATE and total.interval.low > MASTERED_RATE - 0.1:
        return f"{counts}, mastered as it is practised"
    if all(kind is None or kind.chance < LEARNABLE_CHANCE for kind in (seen.wait, seen.free)):
        return f"{counts}, out of reach for now"
    return None
