"""Many holes and many agents: boards all the same, or a reason why not."""

from itertools import islice

import pytest

from envwright.env.candidates import choose_sampler
from envwright.env.config import GeneratorConfig
from envwright.env.errors import InfeasibleError
from envwright.env.generator import generate
from envwright.env.independent import cell_bits, distance_layers, shortest_mdd
from envwright.env.instance import Board, label_board
from envwright.env.sampling import Draw, Sampler, uniform_draws
from envwright.env.seeding import random_stream
from envwright.env.solver import SolveStatus, solve
from envwright.env.strata import Stratum
from envwright.env.walks import walk_draws


def config_of(num_agents: int, size: int, hole_ratio: float, wait_ratio: float) -> GeneratorConfig:
    knobs = {"data_ratio": 1.0, "hole_ratio": hole_ratio, "wait_ratio": wait_ratio}
    return GeneratorConfig.parse({"num_agents": num_agents, "sizes": {str(size): knobs}}, "config")


def walked(stratum: Stratum, number: int) -> list[Draw]:
    draws = walk_draws(random_stream(0, "walk"), stratum)
    return list(islice((draw for draw in draws if isinstance(draw, Draw)), number))


@pytest.mark.parametrize(
    ("size", "agents", "hole_ratio"),
    [(5, 2, 0.5), (6, 3, 0.45), (8, 4, 0.4), (5, 5, 0.5), (4, 6, 0.45), (8, 10, 0.45), (10, 10, 0.4), (6, 7, 0.3)],
)
def test_many_holes_and_many_agents_are_filled(size: int, agents: int, hole_ratio: float) -> None:
    made = generate(config_of(agents, size, hole_ratio, 0.5), 4, seed=0)
    assert sorted(instance.wait_required for instance in made.instances) == [False, False, True, True]
    assert {(instance.num_agents, len(instance.holes)) for instance in made.instances} == {(agents, int(hole_ratio * size * size + 0.5))}


def test_boards_of_agents_that_walked_carry_their_exact_labels() -> None:
    made = generate(config_of(6, 8, 0.45, 0.5), 6, seed=1)
    assert made.acceptance["8"].samplers == {"walk": 6}
    for instance in made.instances:
        board = Board(size=8, holes=instance.holes, starts=instance.starts, goals=instance.goals)
        assert label_board(board, "again") == instance


@pytest.mark.parametrize("stratum", [Stratum(4, 6, 6, False), Stratum(8, 8, 29, True), Stratum(10, 10, 45, False)])
def test_walks_stay_in_the_largest_component_and_end_away_from_their_starts(stratum: Stratum) -> None:
    bits, width = cell_bits(stratum.size), stratum.size + 1
    for draw in walked(stratum, 20):
        assert (len(set(draw.holes)), len(set(draw.starts)), len(set(draw.goals))) == (stratum.holes, *[stratum.num_agents] * 2)
        assert all(start != goal for start, goal in zip(draw.starts, draw.goals, strict=True))
        component = sum(distance_layers(draw.free, width, bits[draw.starts[0]]))
        assert all(bits[cell] & component for cell in (*draw.starts, *draw.goals))
        assert 2 * component.bit_count() >= draw.free.bit_count() or component == max(
            (sum(distance_layers(draw.free, width, bit)) for bit in bits if bit & draw.free), key=int.bit_count
        )


def test_boards_of_agents_that_walked_are_never_unsolvable_and_free_ones_often_are() -> None:
    stratum = Stratum(4, 4, 8, True)

    def statuses(draws: list[Draw]) -> list[SolveStatus]:
        def cells(places: list[int]) -> list[tuple[int, int]]:
            return [divmod(place, stratum.size) for place in places]

        return [solve(stratum.size, cells(draw.holes), cells(draw.starts), cells(draw.goals)).status for draw in draws]

    assert set(statuses(walked(stratum, 40))) == {SolveStatus.OPTIMAL}
    free = [draw for draw in islice(uniform_draws(random_stream(0, "free"), stratum), 60) if isinstance(draw, Draw)]
    assert SolveStatus.UNSOLVABLE in statuses(free)


def test_walks_lead_to_nearer_goals_than_free_ones() -> None:
    stratum = Stratum(10, 8, 40, True)

    def mean_distance(draws: list[Draw]) -> float:
        bits = cell_bits(10)
        mdds = [shortest_mdd(d.free, 11, bits[s], bits[g]) or [] for d in draws for s, g in zip(d.starts, d.goals, strict=True)]
        return sum(map(len, mdds)) / len(mdds) - 1

    free = [draw for draw in islice(uniform_draws(random_stream(0, "free"), stratum), 40) if isinstance(draw, Draw)]
    assert 2 < mean_distance(walked(stratum, 40)) < mean_distance(free)


@pytest.mark.parametrize("stratum", [Stratum(5, 5, 7, False), Stratum(8, 6, 29, False), Stratum(10, 10, 10, False)])
def test_the_sampler_of_a_crowd_does_not_give_its_wait_label_away(stratum: Stratum) -> None:
    required = Stratum(stratum.size, stratum.num_agents, stratum.holes, True)
    assert choose_sampler(stratum) == choose_sampler(required)
    assert choose_sampler(stratum).main is (Sampler.REJECTION if stratum.holes == 10 else Sampler.WALK)


def test_a_crowd_that_cannot_move_is_refused_with_the_reason() -> None:
    with pytest.raises(
        InfeasibleError, match=r"8 holes, wait-free \(train split\) in 2000 tries: .*too few connected cells.*; use fewer agents"
    ):
        generate(config_of(8, 4, 0.5, 0.0), 2, seed=0, max_tries=2_000)


def test_a_stratum_beyond_the_solver_is_given_up_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envwright.env.labelling.CROWD_NODES", 1)
    with pytest.raises(InfeasibleError, match=r"\d+ not solved within the solver's budget.*; use fewer agents, or change the size's"):
        generate(config_of(8, 4, 0.0, 1.0), 2, seed=0)
