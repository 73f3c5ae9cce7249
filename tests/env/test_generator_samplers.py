"""What makes the boards: rejection where that is cheap, construction where waits are rare, the list where boards run out."""

from collections import Counter
from itertools import islice

import pytest

from envwright.env.candidates import NATURAL_STRIDE, choose_sampler
from envwright.env.canonical import Split, content_hash
from envwright.env.config import GeneratorConfig
from envwright.env.enumeration import all_boards, is_listable, turned
from envwright.env.generator import generate
from envwright.env.independent import cell_bits, shortest_mdd
from envwright.env.instance import Board, label_board
from envwright.env.sampling import Draw, Sampler, constructed_draws, uniform_draws
from envwright.env.seeding import random_stream
from envwright.env.strata import Stratum


def config_of(num_agents: int, size: int, hole_ratio: float, wait_ratio: float) -> GeneratorConfig:
    knobs = {"data_ratio": 1.0, "hole_ratio": hole_ratio, "wait_ratio": wait_ratio}
    return GeneratorConfig.parse({"num_agents": num_agents, "sizes": {str(size): knobs}}, "config")


@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_the_demos_boards_come_by_rejection(size: int) -> None:
    assert choose_sampler(Stratum(size, 2, {3: 2, 4: 3, 5: 5, 6: 7}[size], True)).main is Sampler.REJECTION


def test_where_waits_are_rare_boards_are_constructed_and_every_fourth_is_natural() -> None:
    made = generate(config_of(2, 10, 0.1, 0.5), 48, seed=0)
    assert made.acceptance["10"].samplers == {"construction": 18, "rejection": 24 + 24 // NATURAL_STRIDE}
    for instance in made.instances:
        board = Board(size=10, holes=instance.holes, starts=instance.starts, goals=instance.goals)
        assert label_board(board, "again") == instance
    assert sum(instance.wait_required for instance in made.instances) == 24
    assert {len(instance.holes) for instance in made.instances} == {10}


def test_boards_that_never_wait_are_never_constructed() -> None:
    assert choose_sampler(Stratum(10, 2, 10, False)).main is Sampler.REJECTION


@pytest.mark.parametrize("agents", [2, 4])
def test_constructed_agents_cross_and_none_starts_at_its_goal(agents: int) -> None:
    stratum = Stratum(6, agents, 6, True)
    draws = [draw for draw in islice(constructed_draws(random_stream(0, "test"), stratum), 300) if isinstance(draw, Draw)]
    assert len(draws) > 50
    bits = cell_bits(6)
    for draw in draws:
        assert (len(set(draw.holes)), len(set(draw.starts)), len(set(draw.goals))) == (6, agents, agents)
        assert all(start != goal for start, goal in zip(draw.starts, draw.goals, strict=True))
        assert all(bits[cell] & draw.free for cell in (*draw.starts, *draw.goals))
        mdds = [shortest_mdd(draw.free, 7, bits[s], bits[g]) for s, g in zip(draw.starts, draw.goals, strict=True)]
        covered = Counter(cell for mdd in mdds if mdd is not None for cell in bits if any(layer & cell for layer in mdd))
        assert max(covered.values()) > 1


def test_the_crossing_agents_are_not_told_by_their_place_in_the_order() -> None:
    goals = Counter[int]()
    for draw in islice(constructed_draws(random_stream(0, "order"), Stratum(5, 3, 3, True)), 600):
        if isinstance(draw, Draw):
            bits = cell_bits(5)
            mdds = [shortest_mdd(draw.free, 6, bits[s], bits[g]) or [] for s, g in zip(draw.starts, draw.goals, strict=True)]
            goals[min(range(3), key=lambda agent: len(mdds[agent]))] += 1
    assert min(goals[agent] for agent in range(3)) > 0.25 * sum(goals.values())


@pytest.mark.parametrize("stratum", [Stratum(6, 2, 7, True), Stratum(5, 3, 12, False)])
def test_uniform_draws_are_legal_and_keep_to_one_component_where_holes_are_many(stratum: Stratum) -> None:
    draws = [draw for draw in islice(uniform_draws(random_stream(0, "test"), stratum), 200) if isinstance(draw, Draw)]
    assert len(draws) > 20
    bits = cell_bits(stratum.size)
    reached = 0
    for draw in draws:
        assert len(set(draw.holes)) == stratum.holes
        assert draw.free.bit_count() == stratum.num_free
        paths = [shortest_mdd(draw.free, stratum.size + 1, bits[s], bits[g]) for s, g in zip(draw.starts, draw.goals, strict=True)]
        reached += None not in paths
    assert reached == len(draws) if stratum.holes == 12 else reached > 0


def test_all_boards_of_a_small_stratum_are_listed_once_and_are_what_sampling_finds() -> None:
    stratum = Stratum(3, 2, 2, True)
    assert is_listable(stratum)
    listed = all_boards(stratum, Split.BENCHMARK)
    names = {board.digest for board in listed}
    assert len(names) == len(listed)
    made = generate(config_of(2, 3, 0.2, 1.0), 3 * len(listed), seed=4, split=Split.BENCHMARK)
    assert {instance.id.rpartition("-")[2] for instance in made.instances} == names
    record = made.acceptance["3"]
    assert record.repeated == 2 * len(listed)
    counts = Counter(instance.id for instance in made.instances)
    assert max(counts.values()) <= 5


def test_a_listed_board_is_turned_but_stays_the_same_board() -> None:
    stratum = Stratum(3, 2, 2, True)
    board = all_boards(stratum, Split.BENCHMARK)[0]
    faces = {turned(board, 3, random_stream(seed, "turn")) for seed in range(64)}
    assert len(faces) > 4
    for face in faces:
        assert content_hash(3, face.holes, face.starts, face.goals) == board.digest
        again = label_board(Board(size=3, holes=face.holes, starts=face.starts, goals=face.goals), "turned")
        assert again == face.instance(stratum)


def test_large_strata_are_not_listed() -> None:
    assert not is_listable(Stratum(6, 2, 7, True))
    assert not is_listable(Stratum(4, 3, 3, False))
