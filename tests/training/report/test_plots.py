"""Plots and sample boards by themselves."""

from __future__ import annotations

from envwright.env.canonical import Split
from envwright.env.instance import Instance, parse_instance
from envwright.env.rollout import Rollout, graded_rollout
from envwright.training.report.boards import sample_boards
from envwright.training.report.look import category, css_variables, new_figure, png_bytes, svg_element
from envwright.training.report.plots import Line, line_plot, outcome_bars
from tests.cli.commands import _BOARDS


def _rollouts() -> list[Rollout]:
    rollouts = []
    for raw, valid, failing in _BOARDS:
        instance: Instance = parse_instance(raw, "board")
        for text in (failing, valid, '{"plan": ["W", "W"]}', '{"plan": ["W", "W"]}', "no plan"):
            rollouts.append(graded_rollout(Rollout(instance=instance, completion=text, split=Split.VALIDATION)))
    return rollouts


def test_samples_are_the_most_frequent_failure_and_a_solved_board_of_every_size() -> None:
    samples = sample_boards(_rollouts())
    assert [(sample.size, sample.outcome) for sample in samples] == [
        ("3", "goal_not_reached"),
        ("3", "optimal"),
        ("4", "goal_not_reached"),
        ("4", "optimal"),
    ]
    assert samples == sample_boards(_rollouts())
    assert all(sample.verdict in sample.svg.replace("\n", " ") or sample.wide for sample in samples)


def test_a_sample_names_the_line_that_it_comes_from() -> None:
    rollouts = _rollouts()
    for sample in sample_boards(rollouts):
        assert rollouts[sample.line - 1].completion == sample.completion
        assert rollouts[sample.line - 1].instance.id == sample.instance_id


def test_a_completion_without_a_plan_is_drawn_as_its_board() -> None:
    rollouts = [rollout for rollout in _rollouts() if rollout.completion == "no plan"][:1]
    (sample,) = sample_boards(rollouts)
    assert sample.outcome == "parse_error"
    assert "no plan could be read" in sample.verdict


def test_names_in_a_plot_are_text_and_no_markup_or_formula() -> None:
    name = "<script>$x$</script>"
    plot = line_plot("p", "t", "c", [Line(name, category(0), [0, 1], [0.2, 0.4])], "rate")
    assert plot is not None
    assert "<script>" not in plot.svg
    assert "&lt;script&gt;$x$&lt;/script&gt;" in plot.svg


def test_colours_become_variables_that_the_page_defines_for_light_and_dark() -> None:
    plot = outcome_bars("p", "t", "c", [("bar", {"optimal": 3, "vertex_conflict": 2})])
    assert plot is not None
    variables = css_variables()
    assert "var(--optimal)" in plot.svg
    assert "var(--vertex-conflict)" in plot.svg
    assert all(light != dark for light, dark in variables.values())
    assert len({light for light, _ in variables.values()}) == len(variables)
    assert plot.rows == (("bar", "optimal", 3, 0.6), ("bar", "vertex_conflict", 2, 0.4))


def test_a_figure_gives_the_same_bytes_again() -> None:
    made = []
    for _ in range(2):
        with new_figure(2.0) as (figure, (axes,)):
            axes.plot([0, 1], [0, 1], marker="o")
            made.append((svg_element(figure, "p", "alt"), png_bytes(figure)))
    assert made[0] == made[1]


def test_nothing_to_plot_is_no_plot() -> None:
    assert line_plot("p", "t", "c", [], "rate") is None
    assert outcome_bars("p", "t", "c", [("bar", {})]) is None
