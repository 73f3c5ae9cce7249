"""SVG pictures: every agent, goal and hole is an element, text is text, and the description tells the plan."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from xml.etree.ElementTree import Element

import pytest

from envwright.env.instance import Board
from envwright.env.pictures.layout import moment_picture, overview_picture, strip_picture
from envwright.env.pictures.palette import AGENT_COLOURS, HOLE, ICE, INK, agent_colour, agent_dash, contrast, edge, ink_on
from envwright.env.pictures.shapes import Picture
from envwright.env.pictures.story import Story, story_of
from envwright.env.pictures.svg import svg_text
from envwright.env.rules import paths_from_moves
from tests.env.boards import board_of, instance_of

NS = "{http://www.w3.org/2000/svg}"
BOARD = instance_of("a.b .#. d.c", "ab", "cd")


def story(*plan: str, board: Board = BOARD) -> Story:
    return story_of(board, paths_from_moves(board.starts, plan))


def read(picture: Picture) -> Element:
    return ET.fromstring(svg_text(picture))


def groups(root: Element, kind: str) -> list[Element]:
    return [group for group in root.iter(f"{NS}g") if group.get("class") == kind]


def test_an_overview_has_an_element_per_agent_goal_path_and_hole() -> None:
    root = read(overview_picture(story("RR", "LL")))
    for kind in ("agent", "goal", "path"):
        assert [group.get("data-agent") for group in groups(root, kind)] == ["0", "1"]
    (holes,) = groups(root, "holes")
    assert len(holes.findall(f"{NS}rect")) == 1
    assert groups(root, "violation") == []
    assert {group.findtext(f"{NS}text") for group in groups(root, "agent")} == {"0", "1"}


def test_agents_are_discs_and_goals_squares() -> None:
    root = read(overview_picture(story("RR", "LL")))
    assert all(len(group.findall(f"{NS}circle")) == 1 and not group.findall(f"{NS}rect") for group in groups(root, "agent"))
    assert all(len(group.findall(f"{NS}rect")) == 1 and not group.findall(f"{NS}circle") for group in groups(root, "goal"))


def test_title_and_description_tell_the_picture_to_those_who_cannot_see_it() -> None:
    root = read(overview_picture(story("RD", "LL")))
    assert (root.get("role"), root.get("aria-label")) == ("img", root.findtext(f"{NS}title"))
    assert root.findtext(f"{NS}title") == "MAPF-FrozenLake 3x3, 2 agents: a plan"
    assert root.findtext(f"{NS}desc") == (
        "Cells are (row, col) from the top left. Holes: (1, 1). agent 0: start (0, 0), goal (0, 2), moves RD; "
        "agent 1: start (2, 2), goal (2, 0), moves LL. hole at timestep 2: agent 0 enters the hole (1, 1)."
    )


@pytest.mark.parametrize(
    ("plan", "frames", "arrows"),
    [(("RD", "LL"), 1, 1), (("DDR", "WWL"), 1, 2), (("DDRR", "WWWL"), 1, 2), (("U", "R"), 2, 2), (("R", "LL"), 1, 0), (("X", "L"), 1, 0)],
    ids=["hole", "vertex_conflict", "swap_conflict", "out_of_bounds", "goal_not_reached", "illegal_move"],
)
def test_a_violation_has_a_frame_where_it_happens_and_an_arrow_per_mover_at_fault(plan: tuple[str, ...], frames: int, arrows: int) -> None:
    told = story(*plan)
    root = read(moment_picture(told, told.last))
    (violation,) = groups(root, "violation")
    assert violation.findtext(f"{NS}title") == told.verdict()
    assert len([rect for rect in violation.findall(f"{NS}rect") if rect.get("fill") == "none"]) == frames
    heads = [polygon for polygon in violation.findall(f"{NS}polygon") if polygon.get("fill") == INK]
    assert len(heads) == arrows


def test_the_broken_timestep_alone_shows_the_violation() -> None:
    told = story("RD", "LL")
    assert groups(read(moment_picture(told, 1)), "violation") == []
    assert len(groups(read(strip_picture(told)), "violation")) == 1
    assert len(groups(read(overview_picture(told)), "violation")) == 1


def test_a_strip_has_a_panel_per_timestep() -> None:
    told = story("WRR", "LL")
    texts = [text.text for text in read(strip_picture(told)).iter(f"{NS}text")]
    assert [text for text in texts if text and text.startswith("t = ")] == ["t = 0", "t = 1", "t = 2", "t = 3"]
    assert len(groups(read(strip_picture(told)), "agent")) == 4 * 2


def test_waits_are_marked_where_they_happen() -> None:
    titles = [group.findtext(f"{NS}title") for group in groups(read(overview_picture(story("WWRR", "LWL"))), "wait")]
    assert titles == ["agent 0 waits 2 timesteps at (0, 0)", "agent 1 waits at (2, 1)"]


def test_the_number_of_a_goal_moves_to_the_corner_under_another_agent_and_goes_under_its_own() -> None:
    swap = board_of("ab ..", "ab", "ba")
    start, home = read(moment_picture(story("DRU", "L", board=swap), 0)), read(moment_picture(story("DRU", "L", board=swap), 3))
    assert [group.findtext(f"{NS}text") for group in groups(start, "goal")] == ["0", "1"]
    assert [group.findtext(f"{NS}text") for group in groups(home, "goal")] == [None, None]


@pytest.mark.parametrize("size", [3, 10, 32, 64])
def test_everything_stays_inside_the_picture_at_every_size(size: int) -> None:
    cells = [(row, col) for row in range(size) for col in range(size)]
    agents = min(30, size * size // 3)
    board = Board(size=size, holes=tuple(cells[-size:-2]), starts=tuple(cells[:agents]), goals=tuple(cells[agents : 2 * agents]))
    picture = overview_picture(story(*["DU"[: index % 3] for index in range(agents)], board=board))
    root = read(picture)
    assert len(groups(root, "agent")) >= agents
    for text in root.iter(f"{NS}text"):
        assert 0 <= float(text.get("x", "nan")) <= picture.width
        assert 0 <= float(text.get("y", "nan")) <= picture.height
        assert float(text.get("font-size", "0")) >= 7
    for circle in root.iter(f"{NS}circle"):
        radius = float(circle.get("r", "nan"))
        assert radius <= float(circle.get("cx", "nan")) <= picture.width - radius


def test_a_large_board_stays_small() -> None:
    cells = [(row, col) for row in range(64) for col in range(64)]
    board = Board(size=64, holes=tuple(cells[100:900]), starts=tuple(cells[:30]), goals=tuple(cells[-30:]))
    assert len(svg_text(overview_picture(story(*["W"] * 30, board=board)))) < 250_000


def test_text_from_outside_is_escaped() -> None:
    told = Story(BOARD, [[], []], None, "a < b & c")
    assert read(moment_picture(told, 0)).findtext(f"{NS}desc", "").endswith("a < b & c.")


def test_colours_tell_agents_apart_from_ice_and_holes_in_lightness_and_from_each_other() -> None:
    assert len(set(AGENT_COLOURS)) == 7
    for colour in AGENT_COLOURS:
        assert contrast(ink_on(colour), colour) >= 4.5
        assert contrast(edge(colour), ICE) >= 3
    assert contrast(HOLE, ICE) >= 7
    looks = {(agent_colour(agent), agent_dash(agent)) for agent in range(30)}
    assert len(looks) == 30


def test_the_same_plan_gives_the_same_document_without_needless_digits() -> None:
    text = svg_text(overview_picture(story("RD", "LL")))
    assert text == svg_text(overview_picture(story("RD", "LL")))
    assert re.search(r"\d\.\d{3}", text) is None
