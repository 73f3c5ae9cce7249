"""Candidates: for every index of a stratum a stream of boards that fit, each a pure function of its place in it.

The generator takes an index's first candidate that is new. A candidate depends on nothing but its arguments, so the
work can be spread over any number of processes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import numpy as np

from envwright.env.canonical import Split
from envwright.env.labelling import TOO_HARD, Labelled, judge
from envwright.env.sampling import Draw, Sampler, constructed_draws, uniform_draws
from envwright.env.seeding import random_stream
from envwright.env.strata import Stratum
from envwright.env.walks import walk_draws

__all__ = ["Candidate", "Request", "SamplerChoice", "choose_sampler", "make_candidate"]

REJECTION_ENOUGH = 0.02
"""From this acceptance on a board costs milliseconds by rejection, and the natural population is preferred."""
CONSTRUCTION_COST = 3.0
"""What a constructed draw costs in uniform ones: its two agents meet, so more of them go to the solver."""
NATURAL_STRIDE = 4
"""Where boards are constructed, every fourth still comes by rejection, so that no stratum holds one kind of crossing only."""
MAX_TOO_HARD = 100
"""Boards beyond the solver's budget that are drawn for one candidate before it is given up."""
NATURAL_ENOUGH = 0.0035
"""Below this acceptance rejection would need too many draws even for that."""
NATURAL_TRIES = 5_000
"""Uniform draws for such a board; after them it is constructed like the others."""
WALK_HOLES, WALK_DENSITY = 0.375, 0.5
"""From this share of holes, or above so many agents per free cell, a crowd walks without a pilot, which would take long to say the same."""
WALK_TRIES = 5_000
"""Walks tried for one board: one costs up to a millisecond, and a crowd that cannot move should be named within seconds."""
_PILOT_DRAWS = 512
_PILOT_TOO_HARD = 20
_CROWD_ACCEPTED, _CROWD_WASTE = 4, 9
"""Of a crowd's uniform boards so many must fit before so much of the solver's work is lost, or its agents walk."""
_WASTE = {TOO_HARD: 3, "unsolvable": 3, "wait-free": 1, "wait-required": 1}
"""What is lost with a board that does not fit: the longest searches are those that end without a plan."""


@dataclass(frozen=True, slots=True)
class SamplerChoice:
    """How a stratum's boards are made."""

    main: Sampler = Sampler.REJECTION
    """What draws the boards."""
    natural: bool = True
    """Where boards are constructed: make every fourth by rejection all the same."""

    @property
    def natural_tries(self) -> int:
        """Uniform draws for the boards that come by rejection where the others are constructed."""
        return NATURAL_TRIES if self.main is Sampler.CONSTRUCTION else 0

    def sampler(self, index: int) -> Sampler:
        """Return the sampler of an index."""
        if self.main is Sampler.CONSTRUCTION and self.natural and index % NATURAL_STRIDE == 0:
            return Sampler.REJECTION
        return self.main


@dataclass(frozen=True, slots=True)
class Request:
    """One candidate to make."""

    stratum: Stratum
    """What it must be."""
    split: Split
    """Where it must belong."""
    sampler: Sampler
    """How it is drawn."""
    seed: int
    """Seed of the run."""
    key: tuple[str | int, ...]
    """Names the use, as in `generate`."""
    index: int
    """Number of the instance in the stratum."""
    attempt: int
    """How many candidates of this index were repeats."""
    max_tries: int
    """Boards drawn before giving up."""
    natural_tries: int = 0
    """Uniform draws after which the board is constructed; 0 for a stratum that is filled by rejection alone."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What came of a request."""

    board: Labelled | None
    """A board that fits; None when the tries ran out."""
    tries: int
    """Boards drawn."""
    rejected: Counter[str]
    """Boards thrown away, by reason."""
    sampler: Sampler
    """What drew the last board."""


def make_candidate(request: Request) -> Candidate:
    """Draw boards until one fits, at most `max_tries`."""
    stratum, split = request.stratum, request.split
    rng = random_stream(request.seed, "instances", *request.key, split.value, *stratum.key(), request.index, request.attempt)
    rejected: Counter[str] = Counter()
    tries, sampler = 0, request.sampler
    limit = min(request.max_tries, WALK_TRIES) if request.sampler is Sampler.WALK else request.max_tries
    for sampler, draw in islice(_draws(request, rng), limit):
        tries += 1
        found = draw if isinstance(draw, str) else judge(draw, stratum, split)
        if not isinstance(found, str):
            return Candidate(found, tries, rejected, sampler)
        rejected[found] += 1
        if found == TOO_HARD and rejected[TOO_HARD] >= MAX_TOO_HARD:
            break
    return Candidate(None, tries, rejected, sampler)


def _draws(request: Request, rng: np.random.Generator) -> Iterator[tuple[Sampler, Draw | str]]:
    """Yield the boards to try, with what drew them."""
    if request.sampler is Sampler.WALK:
        yield from ((Sampler.WALK, draw) for draw in walk_draws(rng, request.stratum))
    if request.sampler is Sampler.REJECTION:
        uniform = uniform_draws(rng, request.stratum)
        limited = islice(uniform, min(request.natural_tries, request.max_tries // 2)) if request.natural_tries else uniform
        yield from ((Sampler.REJECTION, draw) for draw in limited)
    yield from ((Sampler.CONSTRUCTION, draw) for draw in constructed_draws(rng, request.stratum))


@lru_cache(maxsize=1024)
def choose_sampler(stratum: Stratum) -> SamplerChoice:
    """Decide how a stratum's boards are made, from a pilot that depends on the stratum alone.

    Rejection is kept where it accepts at least `REJECTION_ENOUGH` of its draws, and otherwise where construction does not
    accept `CONSTRUCTION_COST` times as many. Boards that never wait come by rejection. Agents of a crowd
    (`Stratum.is_crowd`) walk to their goals where holes are many or uniform boards are lost on the solver; as this is asked
    of both wait labels together, the sampler does not give the label away.
    """
    if stratum.is_crowd:
        labels = (replace(stratum, wait_required=wait) for wait in (False, True))
        narrow = stratum.holes >= WALK_HOLES * stratum.size * stratum.size or stratum.num_agents > WALK_DENSITY * stratum.num_free
        return SamplerChoice(Sampler.WALK if narrow or not all(map(_crowd_fits, labels)) else Sampler.REJECTION)
    if not stratum.wait_required:
        return SamplerChoice()
    rejection = _pilot(stratum, Sampler.REJECTION, math.ceil(REJECTION_ENOUGH * _PILOT_DRAWS))
    if rejection >= REJECTION_ENOUGH * _PILOT_DRAWS:
        return SamplerChoice()
    needed = math.floor(CONSTRUCTION_COST * rejection) + 1
    construct = _pilot(stratum, Sampler.CONSTRUCTION, needed) >= needed
    return SamplerChoice(Sampler.CONSTRUCTION if construct else Sampler.REJECTION, natural=rejection >= NATURAL_ENOUGH * _PILOT_DRAWS)


@lru_cache(maxsize=1024)
def _crowd_fits(stratum: Stratum) -> bool:
    """Tell whether uniform boards of a crowd fit often enough for what the others cost."""
    accepted = waste = 0
    for draw in islice(uniform_draws(random_stream(0, "crowd", *stratum.key()), stratum), _PILOT_DRAWS):
        found = draw if isinstance(draw, str) else judge(draw, stratum, None)
        accepted += not isinstance(found, str)
        waste += _WASTE.get(found, 0) if isinstance(found, str) else 0
        if accepted >= _CROWD_ACCEPTED or waste >= _CROWD_WASTE:
            break
    return accepted >= _CROWD_ACCEPTED


def _pilot(stratum: Stratum, sampler: Sampler, enough: int) -> int:
    """Return how many of the pilot's draws fit; it ends when there are `enough`, or too many that the solver cannot settle."""
    rng = random_stream(0, "pilot", sampler.value, *stratum.key())
    draws = constructed_draws if sampler is Sampler.CONSTRUCTION else uniform_draws
    accepted = too_hard = 0
    for draw in islice(draws(rng, stratum), _PILOT_DRAWS):
        found = draw if isinstance(draw, str) else judge(draw, stratum, None)
        accepted += not isinstance(found, str)
        too_hard += found == TOO_HARD
        if accepted >= enough or too_hard >= _PILOT_TOO_HARD:
            break
    return accepted
