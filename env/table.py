"""The results table in the paper's shape: valid and optimal rates per size and number of agents, for every set of boards.

`envwright grade` and `envwright evaluate` print it, and add it to their JSON. A set is a wait ratio of the benchmark when
the boards' cells are known; otherwise the boards that need a wait and those that do not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from pydantic import Field

from envwright.env.base import FrozenModel
from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome
from envwright.env.statistics import Interval, wilson, wilson_mean
from envwright.env.summary import RolloutSummary, Tally, summarise, tally_of

__all__ = ["Rates", "Report", "TableRow", "TableSet", "report"]

Counts = dict[tuple[int, int], Counter[Outcome]]
"""Outcomes per (number of agents, size)."""


class Rates(FrozenModel):
    """Valid and optimal rates of a number of completions."""

    n: int = Field(ge=0)
    """Completions."""
    valid: Interval
    """Share that is valid, 0 to 1."""
    optimal: Interval
    """Share that is optimal, 0 to 1."""


class TableRow(FrozenModel):
    """One number of agents."""

    num_agents: int = Field(ge=1)
    """Agents on each board."""
    by_size: dict[str, Rates]
    """Map size -> rates; sizes without completions are left out."""
    sum: Rates
    """The paper's "Sum": the plain mean over the sizes, each counting the same whatever its n."""


class TableSet(FrozenModel):
    """One set of boards."""

    wait: str
    """`all`; a wait ratio such as `0.25`; or `required` and `free`, by each board's own label."""
    rows: list[TableRow]
    """Fewest agents first."""


class AgentsTally(Tally):
    """A tally of one number of agents, with the mean over sizes."""

    sum: Rates
    """The plain mean over the sizes."""


class Report(RolloutSummary):
    """A summary with the results table."""

    by_num_agents: dict[str, AgentsTally]
    """The same per number of agents."""
    by_wait_required: dict[str, Tally]
    """The same per label `wait_required`: `true` and `false`."""
    sum: Rates
    """The plain mean over the sizes, whatever the number of agents."""
    table: list[TableSet]
    """The results table: first all boards, then the sets."""


def report(rollouts: Sequence[Rollout], wait_ratios: Mapping[str, float] | None = None) -> Report:
    """Return the figures of graded rollouts.

    Args:
        rollouts: graded rollouts.
        wait_ratios: instance id -> wait ratio of its benchmark cell, where cells are known.

    Raises:
        KeyError: `wait_ratios` lacks an instance.
    """
    sets: dict[str, Counts] = defaultdict(lambda: defaultdict(Counter))
    for rollout in rollouts:
        board, outcome = rollout.instance, rollout.verdict
        label = ("required" if board.wait_required else "free") if wait_ratios is None else f"{wait_ratios[board.id]:.2f}"
        for name in ("all", label):
            sets[name][board.num_agents, board.size][outcome] += 1
    everything = sets.setdefault("all", {})
    summary = summarise(rollouts)
    return Report(
        **dict(summary),
        by_num_agents={str(agents): _agents_tally(everything, agents) for agents in sorted({agents for agents, _ in everything})},
        by_wait_required={
            key: summary.by_wait[label] for key, label in (("false", "free"), ("true", "required")) if label in summary.by_wait
        },
        sum=_mean(_by_size(everything)),
        table=[TableSet(wait=name, rows=_rows(sets[name])) for name in sorted(sets, key=lambda name: (name != "all", name))],
    )


def _rows(counts: Counts) -> list[TableRow]:
    rows = []
    for agents in sorted({agents for agents, _ in counts}):
        sizes = _by_size(counts, agents)
        rows.append(TableRow(num_agents=agents, by_size={str(size): _rates(sizes[size]) for size in sorted(sizes)}, sum=_mean(sizes)))
    return rows


def _by_size(counts: Counts, agents: int | None = None) -> dict[int, Counter[Outcome]]:
    """Outcomes per size, of one number of agents or of all."""
    sizes: dict[int, Counter[Outcome]] = defaultdict(Counter)
    for (number, size), outcomes in counts.items():
        if agents in (None, number):
            sizes[size] += outcomes
    return sizes


def _agents_tally(counts: Counts, agents: int) -> AgentsTally:
    sizes = _by_size(counts, agents)
    return AgentsTally(**dict(tally_of(sum(sizes.values(), Counter()))), sum=_mean(sizes))


def _successes(outcomes: Counter[Outcome]) -> tuple[int, int, int]:
    """`(valid, optimal, n)`."""
    return sum(count for outcome, count in outcomes.items() if outcome.valid), outcomes[Outcome.OPTIMAL], outcomes.total()


def _rates(outcomes: Counter[Outcome]) -> Rates:
    valid, optimal, n = _successes(outcomes)
    return Rates(n=n, valid=wilson(valid, n), optimal=wilson(optimal, n))


def _mean(sizes: Mapping[int, Counter[Outcome]]) -> Rates:
    counts = [_successes(outcomes) for outcomes in sizes.values()]
    return Rates(
        n=sum(n for _, _, n in counts),
        valid=wilson_mean([(valid, n) for valid, _, n in counts]),
        optimal=wilson_mean([(optimal, n) for _, optimal, n in counts]),
    )
