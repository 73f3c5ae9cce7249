"""Independent shortest paths: the labels they give without a search are the solver's."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given

from envwright.env.independent import cell_bits, conflict_free_paths, distance_layers, shortest_mdd
from envwright.env.instance import Board, Cell
from envwright.env.solver import SolveStatus, solve
from tests.env.boards import FEW, board_of, boards


def free_cells(board: Board) -> int:
    bits = cell_bits(board.size)
    return sum(bits) - sum(bit_of(board.size, hole) for hole in board.holes)


def bit_of(size: int, cell: Cell) -> int:
    return cell_bits(size)[cell[0] * size + cell[1]]


def mdds_of(board: Board) -> list[list[int]] | None:
    width, free = board.size + 1, free_cells(board)
    found = [
        shortest_mdd(free, width, bit_of(board.size, start), bit_of(board.size, goal))
        for start, goal in zip(board.starts, board.goals, strict=True)
    ]
    known = [mdd for mdd in found if mdd is not None]
    return known if len(known) == len(found) else None


@FEW
@given(boards(largest=5, most_agents=4))
def test_boards_of_conflict_free_shortest_paths_cost_their_distances_and_never_wait(board: Board) -> None:
    mdds = mdds_of(board)
    solution = solve(board.size, board.holes, board.starts, board.goals)
    assert (mdds is None) == (solution.sum_of_distances is None)
    if mdds is None or conflict_free_paths(mdds, board.size + 1) is None:
        return
    distances = [len(mdd) - 1 for mdd in mdds]
    assert (solution.status, solution.sum_of_costs, solution.makespan, solution.wait_required) == (
        SolveStatus.OPTIMAL,
        sum(distances),
        max(distances),
        False,
    )


@FEW
@given(boards(largest=5, most_agents=4))
def test_the_paths_chosen_are_shortest_and_without_conflict(board: Board) -> None:
    mdds = mdds_of(board)
    paths = None if mdds is None else conflict_free_paths(mdds, board.size + 1)
    if mdds is None or paths is None:
        return
    free, width = free_cells(board), board.size + 1
    for mdd, path in zip(sorted(mdds, key=len), paths, strict=True):
        assert (path[0], path[len(mdd) - 1 :]) == (mdd[0], [mdd[-1]] * (len(paths[-1]) - len(mdd) + 1))
        assert all(cell.bit_count() == 1 and cell & free for cell in path)
        assert all(distance_layers(free, width, here)[1] & after for here, after in pairwise(path[: len(mdd)]))
    for first, second in combinations(paths, 2):
        assert all(a != b for a, b in zip(first, second, strict=True))
        moves = zip(pairwise(first), pairwise(second), strict=True)
        assert not any(a == (d, c) and a[0] != a[1] for a, (c, d) in moves)


@pytest.mark.parametrize(
    ("picture", "agents", "free"),
    [
        ("ab ..", ("ab", "ba"), False),  # a swap
        ("ab.c ##.# ##.# ####", ("ac",), True),
        ("a.b c.. ...", ("ab", "ca"), True),
        ("a..b #### #### ####", ("ab", "ba"), False),
        ("acb ### ###", ("ab", "ca"), False),
        ("ab cd", ("ab", "bd", "dc", "ca"), True),  # a rotation
    ],
)
def test_swaps_parked_agents_and_rotations_are_ruled_as_everywhere(picture: str, agents: tuple[str, ...], free: bool) -> None:
    board = board_of(picture, *agents)
    mdds = mdds_of(board)
    assert mdds is not None
    assert (conflict_free_paths(mdds, board.size + 1) is not None) is free
