"""The results table: the paper's shape, the plain mean over sizes, and text that fits a terminal."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envwright.env.instance import Instance
from envwright.env.reported import REPORTED, reported_json
from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome
from envwright.env.statistics import wilson, wilson_mean
from envwright.env.table import report
from envwright.env.table_text import reported_lines, table_lines

KINDS = {"o": Outcome.OPTIMAL, "s": Outcome.SUBOPTIMAL, "x": Outcome.VERTEX_CONFLICT, "h": Outcome.HOLE}


def board(size: int, agents: int, *, wait: bool = False) -> Instance:
    row = tuple((0, col) for col in range(agents))
    name = f"{agents}-{size}-{wait}"
    return Instance(id=name, size=size, holes=(), starts=row, goals=row[::-1], optimal_cost=9, optimal_makespan=9, wait_required=wait)


def rollouts(instance: Instance, outcomes: str) -> list[Rollout]:
    return [Rollout(instance=instance, completion="", outcome=KINDS[kind]) for kind in outcomes]


MIXED = [
    *rollouts(board(3, 2), "oooo" + "ss" + "xxxx"),
    *rollouts(board(4, 2), "xh"),
    *rollouts(board(4, 2, wait=True), "ox"),
    *rollouts(board(4, 3, wait=True), "xxxs"),
]


def test_a_cell_of_the_table_has_its_count_and_its_wilson_intervals() -> None:
    table = report(MIXED).table
    assert [block.wait for block in table] == ["all", "free", "required"]
    assert [[row.num_agents for row in block.rows] for block in table] == [[2, 3], [2], [2, 3]]
    two = table[0].rows[0]
    assert {size: (cell.n, cell.valid, cell.optimal) for size, cell in two.by_size.items()} == {
        "3": (10, wilson(6, 10), wilson(4, 10)),
        "4": (4, wilson(1, 4), wilson(1, 4)),
    }
    assert list(table[2].rows[0].by_size) == ["4"]


def test_the_sum_is_the_plain_mean_over_the_sizes_however_many_completions_each_has() -> None:
    figures = report(MIXED)
    two = figures.table[0].rows[0].sum
    assert two.n == 14
    assert [two.valid.rate, two.optimal.rate] == pytest.approx([(0.6 + 0.25) / 2, (0.4 + 0.25) / 2])
    assert figures.by_num_agents["2"].sum == two
    assert figures.sum.valid.rate == pytest.approx((0.6 + 2 / 8) / 2)


def test_tallies_per_number_of_agents_and_per_wait_label_add_up() -> None:
    figures = report(MIXED).to_json()
    assert {agents: tally["n"] for agents, tally in figures["by_num_agents"].items()} == {"2": 14, "3": 4}
    assert {label: tally["n"] for label, tally in figures["by_wait_required"].items()} == {"false": 12, "true": 6}
    assert figures["by_num_agents"]["3"]["outcomes"] == {"vertex_conflict": 3, "suboptimal": 1}
    assert figures["n"] == sum(figures["outcomes"].values()) == 18


def test_where_cells_are_known_the_sets_are_their_wait_ratios() -> None:
    ratios = {"2-3-False": 0.25, "2-4-False": 0.75, "2-4-True": 0.25, "3-4-True": 0.5}
    table = report(MIXED, ratios).table
    assert [block.wait for block in table] == ["all", "0.25", "0.50", "0.75"]
    assert {size: cell.n for size, cell in table[1].rows[0].by_size.items()} == {"3": 10, "4": 2}


def test_without_rollouts_there_is_an_empty_table_and_no_rate() -> None:
    figures = report([])
    assert (figures.n, figures.sum.valid.rate, figures.table[0].rows) == (0, None, [])
    assert "0 completions" in next(table_lines(figures))


counts = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(st.lists(counts, min_size=1, max_size=8))
def test_the_mean_lies_in_its_interval_and_no_interval_is_tighter_than_that_of_all_trials_pooled(samples: list[tuple[int, int]]) -> None:
    mean = wilson_mean(samples)
    assert mean.rate is not None
    assert mean.rate == pytest.approx(sum(successes / n for successes, n in samples) / len(samples))
    assert 0.0 <= mean.low <= mean.rate <= mean.high <= 1.0
    sizes = [n for _, n in samples]
    assert len(sizes) ** 2 / sum(1 / n for n in sizes) <= sum(sizes) * (1 + 1e-12)


@given(st.integers(1, 60).flatmap(lambda n: st.lists(st.integers(0, n).map(lambda successes: (successes, n)), min_size=1, max_size=8)))
def test_with_equal_counts_the_interval_of_the_mean_is_that_of_the_pooled_trials(samples: list[tuple[int, int]]) -> None:
    pooled = wilson(sum(successes for successes, _ in samples), sum(n for _, n in samples))
    mean = wilson_mean(samples)
    assert [mean.rate, mean.low, mean.high] == pytest.approx([pooled.rate, pooled.low, pooled.high])


def test_the_mean_of_nothing_is_unknown_and_impossible_counts_are_refused() -> None:
    assert wilson_mean([]) == wilson_mean([(0, 0)]) == wilson(0, 0)
    assert wilson_mean([(0, 0), (1, 2)]) == wilson(1, 2)
    with pytest.raises(ValueError, match="between 0 and n"):
        wilson_mean([(1, 2), (3, 2)])


def told(lines: Iterable[str]) -> list[str]:
    return list(lines)


def test_the_text_has_rates_with_their_intervals_below_in_one_column_per_size() -> None:
    lines = told(table_lines(report(MIXED)))
    start = lines.index("all boards")
    assert lines[start + 1].split() == ["3x3", "4x4", "Sum"]
    assert lines[start + 2].split() == ["2", "agents", "n", "10", "4", "14"]
    assert lines[start + 3].split() == ["valid", "60.0", "25.0", "42.50"]
    assert lines[start + 4].split()[:2] == ["31-83", "5-70"]
    assert lines[start + 7].split() == ["3", "agents", "n", "-", "4", "4"]
    ends = {
        line.rstrip().rfind(word) + len(word)
        for line, word in ((lines[start + 1], "3x3"), (lines[start + 3], "60.0"), (lines[start + 4], "31-83"))
    }
    assert len(ends) == 1
    last = lines.index("completions without a valid plan, by how they ended")
    assert [line.split() for line in lines[last + 1 :]] == [
        ["3x3", "4x4", "all"],
        ["hole", "0", "1", "1"],
        ["vertex_conflict", "4", "5", "9"],
    ]


def test_equal_counts_are_told_once() -> None:
    lines = told(table_lines(report([*rollouts(board(3, 2), "ox"), *rollouts(board(4, 2), "oo")])))
    assert "all boards, 2 per cell" in lines
    assert not any(" n " in line for line in lines)


@pytest.mark.parametrize("sizes", [range(3, 11), range(2, 30)])
def test_the_text_fits_100_columns_of_ascii_and_shows_every_size(sizes: range) -> None:
    many = [
        rollout
        for size in sizes
        for agents in (2, 3, 4, 5)
        if size * size > agents
        for rollout in rollouts(board(max(size, agents), agents), "ox" * 10)
    ]
    lines = [*table_lines(report(many)), *reported_lines(report(many))]
    assert max(map(len, lines)) <= 100
    assert all(line.isascii() for line in lines)
    assert all(any(f"{size}x{size}" in line.split() for line in lines) for size in sizes if size >= 5)


def test_reported_figures_stand_beside_ones_own_and_are_marked_as_the_papers() -> None:
    lines = told(reported_lines(report(MIXED)))
    assert lines[1].split() == ["2", "agents", "3", "agents", "4", "agents", "5", "agents"]
    assert lines[2].split() == ["these", "completions", "42.50", "/", "32.50", "25.00", "/", "0.00", "-", "-"]
    assert lines[3] == "reported in arXiv 2606.17682, on its own boards, which are not these and not published"
    assert "  Qwen3-4B, GRPO + environment engineer" in lines[6]
    assert lines[6].split()[-10:] == ["-", "51.67", "/", "31.67", "33.14", "/", "21.33", "18.67", "/", "11.00"]
    assert lines[-1] == "note: with 3 agents the paper's Sum is over 8 (3 to 10) sizes, this one over 1 (4 to 4)"
    assert len(lines) == 4 + len(REPORTED) + 1


def test_the_reported_figures_as_data_are_rates_and_name_their_boards() -> None:
    document = reported_json()
    assert (document["source"], document["boards"]) == ("arXiv 2606.17682", "the paper's own, not published")
    base = document["rows"][0]
    assert (base["name"], base["sum"]["3"]) == ("Qwen3-4B, base", {"valid": 0.1483, "optimal": 0.14})
