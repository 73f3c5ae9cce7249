"""The generator: exact counts, one split, no repeats, the same boards for the same seed."""

from collections import Counter
from itertools import permutations

import pytest

from envwright.env.canonical import Split, split_of_hash
from envwright.env.config import GeneratorConfig
from envwright.env.errors import InfeasibleError
from envwright.env.generator import generate, num_holes, wait_count
from envwright.env.instance import Board, Instance, instance_id, label_board

Knobs = tuple[float, float, float]


def config_of(num_agents: int, **sizes: Knobs) -> GeneratorConfig:
    """`x4=(data, hole, wait)` gives 4x4 these ratios."""
    names = ("data_ratio", "hole_ratio", "wait_ratio")
    raw = {size[1:]: dict(zip(names, knobs, strict=True)) for size, knobs in sizes.items()}
    return GeneratorConfig.parse({"num_agents": num_agents, "sizes": raw}, "config")


MIXED = config_of(2, x3=(0.21, 0.2, 0.5), x4=(0.46, 0.15, 0.25), x6=(0.33, 0.1, 0.4))


def split_of(instance: Instance) -> Split:
    return split_of_hash(instance.id.rpartition("-")[2])


@pytest.mark.parametrize("split", list(Split))
def test_counts_holes_waits_agents_and_split_are_exactly_as_asked(split: Split) -> None:
    made = generate(MIXED, 26, seed=3, split=split)
    cells = Counter((i.size, i.num_agents, len(i.holes), i.wait_required) for i in made.instances)
    assert cells == {
        (3, 2, 2, True): 3,
        (3, 2, 2, False): 2,
        (4, 2, 2, True): 3,
        (4, 2, 2, False): 9,
        (6, 2, 4, True): 4,
        (6, 2, 4, False): 5,
    }
    assert {split_of(instance) for instance in made.instances} == {split}
    assert len({instance.id for instance in made.instances}) == 26
    assert {bucket: (record.accepted, record.repeated) for bucket, record in made.acceptance.items()} == {
        "3": (5, 0),
        "4": (12, 0),
        "6": (9, 0),
    }


def test_every_board_is_solvable_and_carries_its_exact_labels() -> None:
    for instance in generate(config_of(3, x4=(1.0, 0.2, 0.5)), 12, seed=0).instances:
        board = Board(size=instance.size, holes=instance.holes, starts=instance.starts, goals=instance.goals)
        assert label_board(board, "again") == instance
        assert all(start != goal for start, goal in zip(instance.starts, instance.goals, strict=True))


@pytest.mark.parametrize(("size", "ratio", "holes"), [(3, 0.2, 2), (4, 0.15, 2), (5, 0.1, 3), (10, 0.125, 13), (4, 0.0, 0), (3, 0.5, 5)])
def test_the_number_of_holes_is_rounded_half_up(size: int, ratio: float, holes: int) -> None:
    assert num_holes(size, ratio) == holes


@pytest.mark.parametrize(("count", "ratio", "waits"), [(10, 0.25, 3), (5, 0.5, 3), (3, 0.1, 0), (7, 1.0, 7), (0, 0.5, 0)])
def test_the_number_of_wait_required_boards_is_rounded_half_up(count: int, ratio: float, waits: int) -> None:
    assert wait_count(count, ratio) == waits


def test_one_seed_gives_the_same_boards_in_the_same_order_every_time() -> None:
    first = generate(MIXED, 20, seed=5).instances
    assert [generate(MIXED, 20, seed=5).instances for _ in range(2)] == [first, first]
    sizes = [instance.size for instance in first]
    assert sizes != sorted(sizes)


def test_another_seed_key_or_split_gives_other_boards() -> None:
    config = config_of(2, x6=(1.0, 0.1, 0.0))
    made = [
        generate(config, 10, seed=1),
        generate(config, 10, seed=2),
        generate(config, 10, seed=1, key=("stage", 1)),
        generate(config, 10, seed=1, split=Split.VALIDATION),
    ]
    assert len({instance.id for batch in made for instance in batch.instances}) == 40


def test_one_sizes_boards_do_not_depend_on_the_other_sizes() -> None:
    def fours(config: GeneratorConfig) -> set[str]:
        return {instance.id for instance in generate(config, 20, seed=1).instances if instance.size == 4}

    assert fours(config_of(2, x3=(0.5, 0.0, 0.0), x4=(0.5, 0.2, 0.5))) == fours(config_of(2, x4=(0.5, 0.2, 0.5), x5=(0.5, 0.3, 0.0)))


def test_progress_is_told_board_by_board() -> None:
    seen: list[int] = []
    generate(MIXED, 7, seed=0, on_progress=seen.append)
    assert seen == [1, 2, 3, 4, 5, 6, 7]


def test_a_cell_gives_all_its_boards_before_it_repeats_one_and_counts_the_repeats() -> None:
    cells = [(row, col) for row in range(3) for col in range(3)]
    every = {instance_id(3, [], [start], [goal]) for start, goal in permutations(cells, 2)}
    train = {name for name in every if split_of_hash(name.rpartition("-")[2]) is Split.TRAIN}
    made = generate(config_of(1, x3=(1.0, 0.0, 0.0)), 30, seed=0)
    ids = [instance.id for instance in made.instances]
    assert (len(ids), set(ids)) == (30, train)
    assert made.acceptance["3"].repeated == 30 - len(train)


def test_the_acceptance_is_that_of_the_stratum_whatever_the_split() -> None:
    rates = [generate(config_of(2, x5=(1.0, 0.2, 1.0)), 24, seed=0, split=split).acceptance["5"].rate for split in Split]
    assert 0.035 < min(rates) < max(rates) < 0.13


def test_easy_boards_are_nearly_all_accepted() -> None:
    assert 0.9 < generate(config_of(2, x6=(1.0, 0.1, 0.0)), 60, seed=0).acceptance["6"].rate <= 1.0


def test_boards_to_avoid_are_not_made_again_while_there_are_others() -> None:
    config = config_of(2, x4=(1.0, 0.2, 0.25))
    first = {instance.id for instance in generate(config, 20, seed=1).instances}
    again = generate(config, 20, seed=1, avoid=first)
    assert not first & {instance.id for instance in again.instances}
    assert again.acceptance["4"].repeated == 0


def test_boards_to_avoid_are_repeated_and_counted_when_there_is_nothing_else() -> None:
    config = config_of(1, x3=(1.0, 0.0, 0.0))
    known = {instance.id for instance in generate(config, 30, seed=0).instances}
    made = generate(config, 3, seed=1, avoid=known)
    assert (len(made.instances), made.acceptance["3"].repeated) == (3, 3)


def test_more_agents_than_free_cells_are_refused_by_counting() -> None:
    crowded = config_of(6, x3=(1.0, 0.5, 0.0))
    with pytest.raises(InfeasibleError) as caught:
        generate(crowded, 3, seed=0, split=Split.VALIDATION)
    assert str(caught.value) == (
        "no board for 3x3 with 6 agents, 5 holes, wait-free: too few free cells, 4 for 6 agents that start away from their goals; "
        "lower the size's hole_ratio"
    )


def test_a_stratum_without_boards_is_named_with_the_reasons() -> None:
    with pytest.raises(InfeasibleError) as caught:
        generate(config_of(2, x2=(1.0, 0.25, 1.0)), 3, seed=0, split=Split.VALIDATION, max_tries=300)
    message = str(caught.value)
    assert message.startswith("no board for 2x2 with 2 agents, 1 holes, wait-required (validation split) in 300 tries: ")
    assert message.endswith("; change the size's hole_ratio or wait_ratio")
    reasons = message.partition("tries: ")[2].partition(";")[0].split(", ")
    assert sum(int(reason.split()[0]) for reason in reasons) == 300
    assert {"free of conflicts", "an agent starts at its goal"} <= {reason.partition(" ")[2] for reason in reasons}


def test_an_infeasible_stratum_is_found_before_any_board_of_the_others_is_made() -> None:
    made: list[int] = []
    with pytest.raises(InfeasibleError, match="no board for 8x8 with 2 agents, 6 holes, wait-required"):
        generate(config_of(2, x4=(0.9, 0.0, 0.0), x8=(0.1, 0.1, 1.0)), 500, seed=0, max_tries=9, on_progress=made.append)
    assert made == []


def test_tries_on_boards_of_the_wrong_kind_and_split_are_told_apart() -> None:
    hopeless = config_of(2, x2=(1.0, 0.25, 1.0))
    with pytest.raises(InfeasibleError, match=r"2x2 with 2 agents, 1 holes, wait-required \(train split\) in 300 tries: \d+ \w+"):
        generate(hopeless, 3, seed=0, max_tries=300)


def test_a_lone_agent_that_should_have_to_wait_is_refused_at_once() -> None:
    with pytest.raises(InfeasibleError, match="a single agent never has to wait; set the size's wait_ratio to 0"):
        generate(config_of(1, x3=(1.0, 0.0, 1.0)), 3, seed=0)
