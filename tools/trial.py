"""Trying one bucket's knobs: make a few instances and measure them, or learn why the generator cannot.

Boards are keyed by the knobs alone, so two configs that share a bucket's knobs get the same boards, and `env_stats`
and `simulate_config` give the same figures for the same config.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig, Knobs
from envwright.env.errors import InfeasibleError
from envwright.env.generator import generate
from envwright.env.hardness import Hardness, measure_hardness
from envwright.env.instance import Instance
from envwright.tools.deadline import check_time

__all__ = ["DIGITS", "Trial", "hardness_of", "same_instances", "try_knobs"]

_MAX_TRIES = 2_000
"""Boards drawn for one instance before a tool calls its cell infeasible: a session must not stall on a cell that is nearly so."""
DIGITS = 4
"""Decimals of the rates and means that tools report."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of making instances with one bucket's knobs."""

    instances: tuple[Instance, ...] = ()
    """The instances; empty when the knobs are infeasible."""
    acceptance: float | None = None
    """Share of drawn boards that the generator accepted."""
    repeated: int = 0
    """Instances that repeat a board, because the knobs allow no new one."""
    samplers: dict[str, int] = field(default_factory=dict)
    """Instances by the sampler that made them."""
    reason: str | None = None
    """Why the knobs are infeasible; None when they are not."""


def try_knobs(num_agents: int, bucket: str, knobs: Knobs, n: int, seed: int) -> Trial:
    """Make `n` training instances of a bucket with these knobs; an infeasible cell is told in the answer, not raised.

    Boards that were made before are remembered: a session asks for the same knobs in one tool after the other.
    """
    return _tried(num_agents, bucket, knobs.model_copy(update={"data_ratio": 1.0}), n, seed)


@lru_cache(maxsize=256)
def _tried(num_agents: int, bucket: str, knobs: Knobs, n: int, seed: int) -> Trial:
    def within_time(boards: int) -> None:
        """Let a call whose time is over end between two boards; it is not remembered."""
        check_time(f"{boards} of {n} boards of size {bucket} were made; ask for fewer with a smaller n")

    alone = GeneratorConfig(num_agents=num_agents, sizes={bucket: knobs})
    try:
        made = generate(alone, n, seed=seed, split=Split.TRAIN, key=("simulate",), max_tries=_MAX_TRIES, on_progress=within_time)
    except InfeasibleError as error:
        return Trial(reason=str(error))
    record = made.acceptance[bucket]
    return Trial(tuple(made.instances), round(record.rate, DIGITS), record.repeated, dict(record.samplers))


def same_instances(first: Knobs, second: Knobs) -> bool:
    """True when two sets of knobs ask for the same kind of instances, their share of the data aside."""
    return first.model_copy(update={"data_ratio": second.data_ratio}) == second


def hardness_of(instances: Sequence[Instance]) -> Hardness | None:
    """Return the figures of some instances, rounded; None when there are none."""
    figures = measure_hardness(instances)
    if figures is None:
        return None
    return figures.model_copy(update={name: round(value, DIGITS) for name, value in figures if isinstance(value, float)})
