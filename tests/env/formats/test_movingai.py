"""MovingAI maps and scenarios: what is read, what is written, and that the two are inverse."""

import math
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given

from envwright.env.errors import UserError
from envwright.env.formats.movingai_map import map_text, read_map
from envwright.env.formats.movingai_scenario import boards_of_scenario, read_scenario, scenario_text
from envwright.env.formats.octile import octile_distance
from envwright.env.instance import Board, label_board
from tests.env.boards import FEW, board_of, boards, instances

MAP = "type octile\nheight 2\nwidth 3\nmap\n.@.\nGST\n"
SCEN = "version 1\n0\tm.map\t3\t2\t2\t0\t1\t1\t2.00000000\n0\tm.map\t3\t2\t0\t1\t0\t0\t1\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_a_map_is_read_with_its_terrain_and_padded_to_a_square_with_holes(tmp_path: Path) -> None:
    grid = read_map(written(tmp_path, "m.map", MAP))
    assert (grid.height, grid.width, grid.size) == (2, 3, 3)
    assert grid.holes == ((0, 1), (1, 2))
    assert grid.padding == ((2, 0), (2, 1), (2, 2))


def test_every_terrain_is_free_or_a_hole_as_the_format_says(tmp_path: Path) -> None:
    grid = read_map(written(tmp_path, "m.map", "type octile\nheight 1\nwidth 7\nmap\n.GS@OTW\n"))
    assert grid.holes == ((0, 3), (0, 4), (0, 5), (0, 6))


def test_x_is_a_column_and_y_a_row(tmp_path: Path) -> None:
    lines = read_scenario(written(tmp_path, "m.scen", SCEN))
    assert [(line.start, line.goal) for line in lines] == [((0, 2), (1, 1)), ((1, 0), (0, 0))]
    text = scenario_text(board_of("..a ..b ...", "ab"), "m.map")
    assert text.splitlines()[1].split("\t") == ["0", "m.map", "3", "3", "2", "0", "2", "1", "1.00000000"]


def test_the_last_column_is_an_octile_distance_and_no_cost(tmp_path: Path) -> None:
    board = board_of("a.. ... ..b", "ab")
    assert scenario_text(board, "m.map").split("\t")[-1] == "2.82842712\n"
    false_length = SCEN.replace("2.00000000", "77")
    (read,) = boards_of_scenario(
        read_map(written(tmp_path, "m.map", MAP.replace("T", "."))), read_scenario(written(tmp_path, "m.scen", false_length)), 2
    )
    assert label_board(read, "m").optimal_cost == 2 + 1


def test_dos_line_ends_blank_lines_and_spaces_between_columns_are_read(tmp_path: Path) -> None:
    plain = (read_map(written(tmp_path, "m.map", MAP)), [line.start for line in read_scenario(written(tmp_path, "m.scen", SCEN))])
    grid = read_map(written(tmp_path, "d.map", MAP.replace("\n", "\r\n") + "\r\n"))
    lines = read_scenario(
        written(tmp_path, "d.scen", SCEN.replace("version 1", "version 1.0").replace("\t", " ").replace("\n", "\r\n\r\n"))
    )
    assert (grid, [line.start for line in lines]) == plain


@FEW
@given(instances(largest=6, most_agents=4))
def test_a_board_that_is_written_and_read_is_the_same_board(tmp_path_factory: pytest.TempPathFactory, instance: Board) -> None:
    folder = tmp_path_factory.mktemp("movingai")
    grid = read_map(written(folder, "b.map", map_text(instance)))
    lines = read_scenario(written(folder, "b.scen", scenario_text(instance, "b.map")))
    (read,) = boards_of_scenario(grid, lines, instance.num_agents)
    assert (read.size, set(read.holes)) == (instance.size, set(instance.holes))
    assert (read.starts, read.goals) == (instance.starts, instance.goals)


def octile_graph(board: Board) -> "nx.Graph[tuple[int, int]]":
    """The free cells with straight moves, and diagonal ones between cells that share two free neighbours."""
    free = {(row, col) for row in range(board.size) for col in range(board.size)} - board.hole_set
    graph: nx.Graph[tuple[int, int]] = nx.Graph()
    graph.add_nodes_from(free)
    for a, b in free:
        graph.add_weighted_edges_from(((a, b), cell, 1.0) for cell in ((a + 1, b), (a, b + 1)) if cell in free)
        for side in (-1, 1):
            if {(a + 1, b + side), (a + 1, b), (a, b + side)} <= free:
                graph.add_edge((a, b), (a + 1, b + side), weight=math.sqrt(2))
    return graph


@FEW
@given(boards(largest=6, most_agents=1))
def test_octile_distances_agree_with_networkx(board: Board) -> None:
    start, goal = board.starts[0], board.goals[0]
    graph = octile_graph(board)
    expected = nx.shortest_path_length(graph, start, goal, weight="weight") if nx.has_path(graph, start, goal) else None
    assert octile_distance(board, start, goal) == (None if expected is None else pytest.approx(expected))


def test_a_scenario_gives_several_boards_of_consecutive_lines(tmp_path: Path) -> None:
    grid = read_map(written(tmp_path, "m.map", MAP))
    lines = read_scenario(written(tmp_path, "m.scen", SCEN))
    one, two = boards_of_scenario(grid, lines, 1, 2)
    assert (one.starts, two.starts) == (((0, 2),), ((1, 0),))


BAD_MAPS = {
    "nothing": ("", "a map begins with the lines"),
    "another type": (MAP.replace("octile", "hex"), "line 1: expected 'type octile', got 'type hex'"),
    "no height": (MAP.replace("height 2", "depth 2"), "line 2: expected 'height H' or 'width W', got 'depth 2'"),
    "width twice": (MAP.replace("height 2", "width 2"), "line 3: expected 'height H' or 'width W', got 'width 3'"),
    "too large": (MAP.replace("height 2", "height 65"), "line 2: height 65 is outside 1 to 64"),
    "no size": (MAP.replace("width 3", "width 0"), "line 3: width 0 is outside 1 to 64"),
    "a row missing": (MAP.replace(".@.\n", ""), "height is 2, but 1 rows follow"),
    "a row too many": (MAP + "...\n", "height is 2, but 3 rows follow"),
    "a short row": (MAP.replace(".@.", ".@"), "line 5: width is 3, but the row has 2 characters"),
    "unknown terrain": (MAP.replace(".@.", ".#."), "line 5: '#' at x 1 is no terrain"),
}


@pytest.mark.parametrize(("text", "message"), BAD_MAPS.values(), ids=BAD_MAPS)
def test_a_bad_map_is_refused_with_file_line_and_rule(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, "m.map", text)
    with pytest.raises(UserError) as caught:
        read_map(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


BAD_SCENARIOS = {
    "nothing": ("", "line 1: expected 'version 1' or 'version 1.0', got ''"),
    "no version": (SCEN.partition("\n")[2], "line 1: expected 'version 1'"),
    "version 2": (SCEN.replace("version 1", "version 2"), "line 1: expected 'version 1'"),
    "no agent": ("version 1\n", "holds no agent"),
    "eight columns": (SCEN.replace("\t2.00000000", ""), "line 2: expected 9 columns (bucket, map, map width"),
    "half a cell": (SCEN.replace("\t2\t0\t1\t1", "\t2\t0.5\t1\t1"), "line 2: start y must be a whole number from 0, got '0.5'"),
    "negative": (SCEN.replace("\t2\t0\t1\t1", "\t2\t0\t-1\t1"), "line 2: goal x must be a whole number from 0, got '-1'"),
    "no length": (SCEN.replace("2.00000000", "nan"), "line 2: optimal length must be a number from 0, got 'nan'"),
    "two maps": (SCEN.replace("0\tm.map\t3\t2\t0", "0\tn.map\t3\t2\t0"), "line 3: is about 'n.map', but the lines before about 'm.map'"),
    "another size": (
        SCEN.replace("m.map\t3\t2\t2", "m.map\t2\t3\t2"),
        "line 2: map width 2 and height 3 are not those of the map, 3 and 2",
    ),
    "exchanged coordinates": (
        SCEN.replace("\t2\t0\t1\t1", "\t0\t2\t1\t1"),
        "line 2: start x 0, y 2 is off the map of width 3 and height 2",
    ),
    "on the padding": (SCEN.replace("\t2\t0\t1\t1", "\t2\t0\t1\t2"), "line 2: goal x 1, y 2 is off the map"),
    "on a hole": (SCEN.replace("\t2\t0\t1\t1", "\t2\t0\t1\t0"), "line 2: goal x 1, y 0 (row 0, col 1) is on a hole of the map"),
    "equal starts": (SCEN.replace("\t0\t1\t0\t0", "\t2\t0\t0\t0"), "line 2 to 3: value: starts[1] [0, 2] is repeated"),
}


@pytest.mark.parametrize(("text", "message"), BAD_SCENARIOS.values(), ids=BAD_SCENARIOS)
def test_a_bad_scenario_is_refused_with_file_line_value_and_rule(tmp_path: Path, text: str, message: str) -> None:
    grid = read_map(written(tmp_path, "m.map", MAP))
    path = written(tmp_path, "m.scen", text)
    with pytest.raises(UserError) as caught:
        boards_of_scenario(grid, read_scenario(path), 2)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("agents", "count", "message"),
    [
        (0, 1, "1 to 30 agents, got 0"),
        (31, 1, "1 to 30 agents, got 31"),
        (1, 0, "-n must be at least 1, got 0"),
        (2, 2, "need 4 lines; the scenario has 2"),
    ],
)
def test_numbers_of_agents_and_boards_are_bounded(tmp_path: Path, agents: int, count: int, message: str) -> None:
    grid, lines = read_map(written(tmp_path, "m.map", MAP)), read_scenario(written(tmp_path, "m.scen", SCEN))
    with pytest.raises(UserError, match=message):
        boards_of_scenario(grid, lines, agents, count)


def test_a_board_without_a_way_has_no_scenario() -> None:
    with pytest.raises(UserError, match=r"no way leads from starts\[0\] \[0, 0\] to goals\[0\] \[2, 2\]"):
        scenario_text(board_of("a#. ##. ..b", "ab"), "m.map")
