"""Strata: the fixed cells (size, agents, holes, wait required) inside which the generator accepts or rejects boards.

Inside a stratum neither the size nor the number of holes tells the wait label, so a policy cannot read it off them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from envwright.env.config import GeneratorConfig
from envwright.env.errors import InfeasibleError

__all__ = ["Stratum", "num_holes", "strata_of", "wait_count"]

CROWD = 5
"""Agents from which on boards can be beyond the solver's budget: so many where holes are many, more than that everywhere."""
CROWD_HOLES = 0.25
"""Share of holes above which `CROWD` agents are in each other's way."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """One kind of board."""

    size: int
    """Side length N of the N x N board."""
    num_agents: int
    """Agents on the board."""
    holes: int
    """Number of holes."""
    wait_required: bool
    """Whether every plan of minimal sum of costs waits."""

    def __str__(self) -> str:
        kind = "wait-required" if self.wait_required else "wait-free"
        return f"{self.size}x{self.size} with {self.num_agents} agents, {self.holes} holes, {kind}"

    @property
    def num_free(self) -> int:
        """Cells that are no holes."""
        return self.size * self.size - self.holes

    @property
    def is_crowd(self) -> bool:
        """Whether many uniform boards may be unsolvable or beyond the solver's budget."""
        narrow = self.holes > CROWD_HOLES * self.size * self.size
        return self.num_agents > CROWD or (self.num_agents == CROWD and narrow)

    def key(self) -> tuple[int, ...]:
        """Return the integers that name the stratum's random streams."""
        return (self.size, self.num_agents, self.holes, int(self.wait_required))

    def check(self) -> None:
        """Refuse a stratum that cannot have a board, by counting alone.

        Raises:
            InfeasibleError: the agents do not fit, or a lone agent should have to wait.
        """
        if self.wait_required and self.num_agents == 1:
            raise InfeasibleError(f"no board for {self}: a single agent never has to wait; set the size's wait_ratio to 0")
        if self.num_free < max(self.num_agents, 2):
            raise InfeasibleError(
                f"no board for {self}: too few free cells, {self.num_free} for {self.num_agents} agents that start away from "
                "their goals; lower the size's hole_ratio"
            )


def num_holes(size: int, hole_ratio: float) -> int:
    """Return the number of holes of a board: the ratio of its cells, rounded half up."""
    return math.floor(hole_ratio * size * size + 0.5)


def wait_count(count: int, wait_ratio: float) -> int:
    """Return how many of `count` instances are wait-required: the ratio, rounded half up."""
    return math.floor(wait_ratio * count + 0.5)


def strata_of(config: GeneratorConfig, n: int) -> list[tuple[str, Stratum, int]]:
    """Return `(bucket, stratum, instances)` for every stratum that a budget of `n` instances has to fill.

    Raises:
        InfeasibleError: a stratum cannot have a board, whatever is drawn.
    """
    wanted = []
    for bucket, count in config.counts(n).items():
        knobs, size = config.sizes[bucket], int(bucket)
        holes, waits = num_holes(size, knobs.hole_ratio), wait_count(count, knobs.wait_ratio)
        for wait_required, number in ((True, waits), (False, count - waits)):
            if number:
                stratum = Stratum(size, config.num_agents, holes, wait_required)
                stratum.check()
                wanted.append((bucket, stratum, number))
    return wanted
