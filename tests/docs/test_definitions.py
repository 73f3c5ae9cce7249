"""docs/definitions.md: every drawing, verdict, figure and label on the page is what the code says."""

from itertools import product

import pytest

from envwright.env.canonical import Split
from envwright.env.config import GeneratorConfig
from envwright.env.drawing import draw_board, draw_plan
from envwright.env.generator import num_holes, wait_count
from envwright.env.grading import read_answer
from envwright.env.instance import Board, Instance, board_split, instance_id, label_board
from envwright.env.rollout import graded_rollout, parse_rollout
from envwright.env.rules import Outcome, Simulation, paths_from_moves, simulate
from tests.docs.pages import Block, json_blocks, page, plan_rows

BLOCKS = json_blocks("definitions.md")
ROLLOUTS = [block for block in BLOCKS if "completion" in block.data]
INSTANCES = [block for block in BLOCKS if "optimal_cost" in block.data]
TABLES = [block for block in INSTANCES if plan_rows(block.after)]
(CONFIG,) = [block for block in BLOCKS if "sizes" in block.data]


def named(blocks: list[Block]) -> list[str]:
    return [f"{index}-{block.heading}" for index, block in enumerate(blocks)]


def test_every_example_is_of_a_kind_that_is_checked() -> None:
    assert len(ROLLOUTS) + len(INSTANCES) + 1 == len(BLOCKS)
    assert (len(ROLLOUTS), len(INSTANCES), len(TABLES)) >= (18, 5, 3)


def test_every_outcome_has_a_section_with_an_example_of_it() -> None:
    shown = {(block.heading.strip("`"), block.data["outcome"]) for block in ROLLOUTS}
    assert {(str(outcome), str(outcome)) for outcome in Outcome} <= shown


@pytest.mark.parametrize("block", ROLLOUTS, ids=named(ROLLOUTS))
def test_a_completions_verdict_step_agents_and_cost_are_as_printed(block: Block) -> None:
    graded = graded_rollout(parse_rollout(block.data, block.heading))
    told = {key: block.data.get(key) for key in ("outcome", "failure_step", "failure_agents", "cost")}
    assert told == {
        "outcome": str(graded.outcome),
        "failure_step": graded.failure_step,
        "failure_agents": list(graded.failure_agents) or None,
        "cost": graded.cost,
    }


@pytest.mark.parametrize("block", ROLLOUTS, ids=named(ROLLOUTS))
def test_a_plans_drawing_shows_every_timestep_up_to_the_break(block: Block) -> None:
    instance = parse_rollout(block.data, block.heading).instance
    answer = read_answer(instance, block.data["completion"])
    if isinstance(answer, Outcome):
        assert block.before == draw_board(instance)
    else:
        assert block.before == draw_plan(instance, answer, simulate(instance, answer).step)


@pytest.mark.parametrize("block", INSTANCES, ids=named(INSTANCES))
def test_a_boards_drawing_id_and_labels_are_exact(block: Block) -> None:
    instance = Instance.parse(block.data, block.heading)
    assert block.before == draw_board(instance)
    assert instance.id == instance_id(instance.size, instance.holes, instance.starts, instance.goals)
    assert instance == label_board(instance, block.heading)


def valid_plans(board: Board, longest: list[int]) -> dict[tuple[str, ...], Simulation]:
    """All valid plans, those that differ in waits after arrival once; `longest` bounds each agent's actions."""
    alone = []
    for agent, length in enumerate(longest):
        one = Board(size=board.size, holes=board.holes, starts=(board.starts[agent],), goals=(board.goals[agent],))
        letters = {"".join(actions).rstrip("W") for actions in product("UDLRW", repeat=length)}
        alone.append([text for text in letters if simulate(one, paths_from_moves(one.starts, [text])).violation is None])
    simulated = ((plan, simulate(board, paths_from_moves(board.starts, plan))) for plan in product(*alone))
    return {plan: simulation for plan, simulation in simulated if simulation.violation is None}


def optimal_plans(instance: Instance) -> dict[tuple[str, ...], Simulation]:
    """All plans of minimal sum of costs, by trying everything."""
    others = [
        sum(abs(s[0] - g[0]) + abs(s[1] - g[1]) for s, g in zip(instance.starts, instance.goals, strict=True) if s != start)
        for start in instance.starts
    ]
    plans = valid_plans(instance, [instance.optimal_cost - least for least in others])
    return {plan: simulation for plan, simulation in plans.items() if simulation.sum_of_costs == instance.optimal_cost}


@pytest.mark.parametrize("block", TABLES, ids=named(TABLES))
def test_a_table_of_plans_gives_their_figures(block: Block) -> None:
    board = Instance.parse(block.data, block.heading)
    for plan, figures in plan_rows(block.after):
        simulation = simulate(board, paths_from_moves(board.starts, plan))
        waits = "".join(letters.rstrip("W") for letters in plan).count("W")
        assert figures == [simulation.sum_of_costs, simulation.makespan, waits]


@pytest.mark.parametrize("block", TABLES, ids=named(TABLES))
def test_a_wait_is_required_when_every_plan_of_minimal_cost_has_one(block: Block) -> None:
    instance = Instance.parse(block.data, block.heading)
    best = optimal_plans(instance)
    assert instance.wait_required is all("W" in "".join(plan) for plan in best)
    assert instance.optimal_makespan == min(simulation.makespan or 0 for simulation in best.values())


def test_the_page_lists_all_optimal_plans_of_the_board_that_requires_a_wait() -> None:
    (block,) = [block for block in TABLES if block.data["wait_required"]]
    assert {tuple(plan) for plan, _ in plan_rows(block.after)} == set(optimal_plans(Instance.parse(block.data, "page")))


def test_the_page_has_a_board_whose_optimal_plans_wait_or_do_not() -> None:
    (block,) = [block for block in TABLES if block.heading == "When a wait is required" and not block.data["wait_required"]]
    best = optimal_plans(Instance.parse(block.data, "page"))
    listed = [tuple(plan) for plan, _ in plan_rows(block.after)]
    assert set(listed) <= set(best)
    assert [("W" in "".join(plan)) for plan in listed] == [True, False]


def test_sum_of_costs_and_makespan_disagree_on_the_pages_board() -> None:
    (block,) = [block for block in TABLES if block.heading == "Cost, makespan, optimal"]
    instance = Instance.parse(block.data, "page")
    cheapest, fastest = (figures[:2] for _, figures in plan_rows(block.after))
    assert cheapest == [instance.optimal_cost, instance.optimal_makespan]
    assert {simulation.makespan for simulation in optimal_plans(instance).values()} == {cheapest[1]}
    assert valid_plans(instance, [fastest[1] - 1] * 2) == {}
    assert fastest[0] == min(simulation.sum_of_costs or 0 for simulation in valid_plans(instance, [fastest[1]] * 2).values())


def test_the_same_board_turned_and_renamed_has_the_same_id_and_split() -> None:
    first, second = (Instance.parse(block.data, "page") for block in INSTANCES if block.heading == "Same boards and splits")
    turned = [(col, 2 - row) for row, col in (*first.holes, *first.starts[::-1], *first.goals[::-1])]
    assert turned == [*second.holes, *second.starts, *second.goals]
    assert first.id == second.id
    assert f"The two boards above are in the split `{board_split(first)}`" in page("definitions.md")
    assert all(f"`{split}`" in page("definitions.md") for split in Split)


def test_the_pages_config_gives_the_counts_that_it_says() -> None:
    config = GeneratorConfig.model_validate(CONFIG.data)
    counts = config.counts(10)
    told = [
        (count, int(size), num_holes(int(size), config.sizes[size].hole_ratio), wait_count(count, config.sizes[size].wait_ratio))
        for size, count in counts.items()
    ]
    assert told == [(3, 3, 2, 1), (7, 5, 5, 4)]
    prose = " ".join(page("definitions.md").split())
    assert "3 boards of size 3 with 2 holes each, of which 1 requires a wait, and 7 boards of size 5 with 5 holes each, of which 4" in prose
