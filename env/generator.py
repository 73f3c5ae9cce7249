"""Makes instances that follow a config: exact counts per size, exact numbers of holes and of wait-required boards.

Boards are made inside fixed strata (`envwright.env.strata`), by rejection, by construction or by letting a crowd walk, as
a pilot decides (`envwright.env.candidates`); what made them is counted. Every instance has its own random streams, keyed
by stratum and index, so the result is the same for any number of worker processes. A board appears once in a file as
long as its stratum has new ones. Every stratum has to yield a first board before the bulk is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import chain

from envwright.env.candidates import MAX_TOO_HARD, Candidate, Request, SamplerChoice, choose_sampler, make_candidate
from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.enumeration import all_boards, is_listable, turned
from envwright.env.errors import InfeasibleError
from envwright.env.instance import Instance
from envwright.env.labelling import OTHER_SPLIT, SOLVED_REASONS, TOO_HARD, Labelled
from envwright.env.sampling import Sampler
from envwright.env.seeding import random_stream
from envwright.env.strata import Stratum, num_holes, strata_of, wait_count
from envwright.env.workers import Pool, Workers

__all__ = ["Acceptance", "Generated", "generate", "num_holes", "wait_count"]

MAX_TRIES = 20_000
"""Boards drawn for one instance before its stratum is called infeasible."""
PATIENCE = 100
"""Repeated boards in a row before a stratum is taken to be exhausted."""
LIST_PATIENCE = 30
"""The same for a stratum that is small enough to list, which settles the question."""
_LAST_ATTEMPTS = 10
_SEEN_REASONS = (*SOLVED_REASONS, OTHER_SPLIT, "repeated", "an agent starts at its goal")


@dataclass(slots=True)
class Acceptance:
    """How the strata of one bucket were filled."""

    accepted: int = 0
    """Instances made."""
    repeated: int = 0
    """Of these, boards that were in the file (or in the boards to avoid) before, because the stratum has no new ones."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Boards drawn and thrown away, by reason."""
    samplers: Counter[str] = field(default_factory=Counter)
    """Instances by the sampler that made them: rejection, construction, walk, enumeration."""

    draws: float = 0.0
    """Boards that had to be drawn for the instances, splits and repeats aside."""

    @property
    def rate(self) -> float:
        """Share of drawn boards that fit their stratum, whatever their split and whether they are new."""
        return self.accepted / self.draws if self.draws else 0.0

    def count_draws(self) -> None:
        """Estimate `draws` of a filled stratum: boards of other splits count as those of this one turned out."""
        fitting = self.accepted - self.samplers[Sampler.ENUMERATION] + self.rejected["repeated"]
        solved = fitting + sum(self.rejected[reason] for reason in SOLVED_REASONS)
        seen = solved + self.rejected[OTHER_SPLIT]
        drawn = seen + sum(count for reason, count in self.rejected.items() if reason not in _SEEN_REASONS)
        self.draws = self.accepted * (solved / fitting) * (drawn / seen)


@dataclass(frozen=True, slots=True)
class Generated:
    """Instances and how they came about."""

    instances: list[Instance]
    """The instances, sizes mixed."""
    acceptance: dict[str, Acceptance]
    """Per bucket, how its strata were filled."""


def generate(
    config: GeneratorConfig,
    n: int,
    *,
    seed: int,
    split: Split = Split.TRAIN,
    key: tuple[str | int, ...] = (),
    avoid: Collection[str] = (),
    max_tries: int = MAX_TRIES,
    on_progress: Callable[[int], object] | None = None,
    workers: int = 1,
    pool: Pool | None = None,
) -> Generated:
    """Make `n` instances.

    Args:
        config: sizes and their knobs.
        n: instances in all; sizes get theirs by largest remainder.
        seed: seed of the run.
        split: split that every instance belongs to.
        key: names the use ("stage", 3), so that uses with one seed draw different boards.
        avoid: ids of boards not to repeat while there are others.
        max_tries: boards drawn for one instance before its stratum is called infeasible.
        on_progress: called with the number of instances made so far.
        workers: processes that share the work; the result does not depend on it.
        pool: who shares it out instead, such as the processes of one training launch.

    Raises:
        InfeasibleError: a stratum could not be filled; the message names it and says why its boards were rejected.
    """
    avoided = frozenset(name.rpartition("-")[2] for name in avoid)
    fillers = [(bucket, wanted, _Filler(stratum, split, seed, key, avoided, max_tries)) for bucket, stratum, wanted in strata_of(config, n)]
    for _, _, filler in fillers:
        filler.probe()
    instances: list[Instance] = []
    acceptance = {bucket: Acceptance() for bucket in config.sizes}

    def on_board() -> None:
        if on_progress is not None:
            on_progress(len(instances) + filler.record.accepted)

    with Workers(workers, expected=n) as own:
        for bucket, wanted, filler in fillers:
            instances += [board.instance(filler.stratum) for board in filler.fill(wanted, pool or own, on_board)]
            _add(acceptance[bucket], filler.record)
    order = random_stream(seed, "order", *key).permutation(len(instances))
    return Generated([instances[index] for index in order], acceptance)


def _add(total: Acceptance, part: Acceptance) -> None:
    total.accepted += part.accepted
    total.repeated += part.repeated
    total.rejected.update(part.rejected)
    total.samplers.update(part.samplers)
    total.draws += part.draws


class _Filler:
    """Fills one stratum: takes the candidates index by index and keeps the new ones."""

    def __init__(
        self, stratum: Stratum, split: Split, seed: int, key: tuple[str | int, ...], avoid: frozenset[str], max_tries: int
    ) -> None:
        self.stratum = stratum
        self.record = Acceptance()
        self._split, self._seed, self._key, self._max_tries = split, seed, key, max_tries
        self._avoid = avoid
        self._seen: set[str] = set()
        self._made: dict[int, Labelled] = {}
        self._choice = SamplerChoice()
        self._first: Candidate | None = None
        self._on_board: Callable[[], None] = lambda: None

    def probe(self) -> None:
        """Choose the sampler and make one board, so that a stratum that has none is found before any is filled."""
        self._choice = choose_sampler(self.stratum)
        self._first = make_candidate(self._request(0, 0))
        if self._first.board is None:
            raise self._infeasible(self._first)

    def fill(self, wanted: int, pool: Pool, on_board: Callable[[], None]) -> list[Labelled]:
        """Make `wanted` boards."""
        self._on_board = on_board
        patience = LIST_PATIENCE if is_listable(self.stratum) else PATIENCE
        left = [(index, 0) for index in range(wanted)]
        stale = 0
        while left and stale < patience:
            left, stale = self._round(left, stale, patience, pool)
        if left:
            self._exhaust(left, pool)
        self.record.count_draws()
        return [self._made[index] for index in range(wanted)]

    def _round(self, left: list[tuple[int, int]], stale: int, patience: int, pool: Pool) -> tuple[list[tuple[int, int]], int]:
        """Ask every index that has no board for its next candidate; stop after `patience` repeats in a row.

        Returns:
            The indices still without a board, each with its next attempt, and the repeats in a row.
        """
        again = []
        done = 0
        requests = [self._request(index, attempt) for index, attempt in left]
        if self._first is not None:
            candidates = chain([self._first], pool.map(make_candidate, requests[1:]))
            self._first = None
        else:
            candidates = chain(pool.map(make_candidate, requests))
        for (index, attempt), candidate in zip(left, candidates, strict=True):
            done += 1
            board = self._board_of(candidate)
            if self._is_new(board):
                stale = 0
                self._take(index, board, candidate.sampler)
                continue
            stale += 1
            self.record.rejected["repeated"] += 1
            again.append((index, attempt + 1))
            if stale >= patience:
                break
        return sorted([*again, *left[done:]]), stale

    def _exhaust(self, left: list[tuple[int, int]], pool: Pool) -> None:
        """Give the indices that are left the last new boards, then repeats."""
        if is_listable(self.stratum):
            self._take_listed([index for index, _ in left])
            return
        for _ in range(_LAST_ATTEMPTS):
            left, _ = self._round(left, 0, len(left) + 1, pool)
        for index, attempt in left:
            candidate = make_candidate(self._request(index, attempt))
            board = self._board_of(candidate)
            self._take(index, board, candidate.sampler)

    def _take_listed(self, indices: list[int]) -> None:
        """Take from the list of all boards: the new ones first, then all of them round and round, each round shuffled."""
        boards = all_boards(self.stratum, self._split)
        rng = random_stream(self._seed, "listed", *self._key, self._split.value, *self.stratum.key())
        queue = [board for board in boards if self._is_new(board)]
        queue = [queue[place] for place in rng.permutation(len(queue))]
        while len(queue) < len(indices):
            queue += [boards[place] for place in rng.permutation(len(boards))]
        for index, board in zip(indices, queue, strict=False):
            self._take(index, turned(board, self.stratum.size, rng), Sampler.ENUMERATION)

    def _is_new(self, board: Labelled) -> bool:
        return board.digest not in self._seen and board.digest not in self._avoid

    def _take(self, index: int, board: Labelled, sampler: Sampler) -> None:
        self.record.accepted += 1
        self.record.repeated += not self._is_new(board)
        self.record.samplers[sampler.value] += 1
        self._seen.add(board.digest)
        self._made[index] = board
        self._on_board()

    def _request(self, index: int, attempt: int) -> Request:
        choice = self._choice
        return Request(
            stratum=self.stratum,
            split=self._split,
            sampler=choice.sampler(index),
            seed=self._seed,
            key=self._key,
            index=index,
            attempt=attempt,
            max_tries=self._max_tries,
            natural_tries=choice.natural_tries,
        )

    def _board_of(self, candidate: Candidate) -> Labelled:
        """Return the candidate's board and count what was thrown away."""
        if candidate.board is None:
            raise self._infeasible(candidate)
        self.record.rejected.update(candidate.rejected)
        return candidate.board

    def _infeasible(self, candidate: Candidate) -> InfeasibleError:
        """Say why the stratum cannot be filled."""
        why = ", ".join(f"{count} {reason}" for reason, count in candidate.rejected.most_common())
        advice = "change the size's hole_ratio or wait_ratio"
        if candidate.rejected[TOO_HARD] >= MAX_TOO_HARD or self.stratum.is_crowd:
            advice = "use fewer agents, or " + advice
        return InfeasibleError(f"no board for {self.stratum} ({self._split} split) in {candidate.tries} tries: {why}; {advice}")
