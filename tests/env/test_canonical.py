"""Which boards are the same, and which split they belong to."""

import hashlib
from collections import Counter
from collections.abc import Callable
from itertools import permutations, product

import pytest
from hypothesis import given

from envwright.env.canonical import Split, content_hash, split_of_hash
from envwright.env.instance import Board, Cell, instance_id
from tests.env.boards import FEW, boards, mapped


def symmetries(size: int) -> list[Callable[[Cell], Cell]]:
    """Four quarter turns, each also of the mirrored board."""

    def turned(cell: Cell, times: int, mirror: bool) -> Cell:
        row, col = (cell[0], size - 1 - cell[1]) if mirror else cell
        for _ in range(times):
            row, col = col, size - 1 - row
        return row, col

    return [lambda cell, t=times, m=mirror: turned(cell, t, m) for times, mirror in product(range(4), (False, True))]  # type: ignore[misc]


def hash_of(board: Board) -> str:
    return content_hash(board.size, board.holes, board.starts, board.goals)


@FEW
@given(boards())
def test_symmetries_and_agent_names_leave_the_hash(board: Board) -> None:
    same = [mapped(board, place, agents) for place in symmetries(board.size) for agents in permutations(range(board.num_agents))]
    assert {hash_of(other) for other in same} == {hash_of(board)}


def test_boards_that_differ_beyond_symmetry_have_different_hashes() -> None:
    cells = [(row, col) for row in range(3) for col in range(3)]
    orbits, hashes = set(), set()
    for hole, start, goal in permutations(cells, 3):
        board = Board(size=3, holes=(hole,), starts=(start,), goals=(goal,))
        orbits.add(min((place(hole), place(start), place(goal)) for place in symmetries(3)))
        hashes.add(hash_of(board))
    assert len(hashes) == len(orbits)


def test_the_size_the_direction_and_the_pairing_of_goals_matter() -> None:
    boards = [
        Board(size=3, holes=(), starts=((0, 0), (0, 1)), goals=((1, 1), (2, 1))),
        Board(size=4, holes=(), starts=((0, 0), (0, 1)), goals=((1, 1), (2, 1))),
        Board(size=3, holes=(), starts=((0, 0), (0, 1)), goals=((2, 1), (1, 1))),
        Board(size=3, holes=(), starts=((1, 1), (2, 1)), goals=((0, 0), (0, 1))),
    ]
    assert len({hash_of(board) for board in boards}) == len(boards)


def test_the_id_holds_agents_size_and_hash_and_never_changes() -> None:
    board = Board(size=4, holes=((0, 2),), starts=((0, 0), (3, 3)), goals=((3, 0), (1, 2)))
    assert instance_id(board.size, board.holes, board.starts, board.goals) == f"2a-4x4-{hash_of(board)}"
    assert hash_of(board) == "dac49a5ad9b3c9a2"


@pytest.mark.parametrize(
    ("digest", "split"),
    [
        ("00000000", Split.TRAIN),
        ("cccccccc", Split.TRAIN),
        ("cccccccd", Split.VALIDATION),
        ("e6666666", Split.VALIDATION),
        ("e6666667", Split.BENCHMARK),
        ("ffffffff", Split.BENCHMARK),
    ],
)
def test_the_first_digits_of_the_hash_decide_the_split(digest: str, split: Split) -> None:
    assert {split_of_hash(digest + rest) for rest in ("00000000", "ffffffff")} == {split}


def test_the_splits_share_all_boards_eight_to_one_to_one() -> None:
    counts = Counter(split_of_hash(hashlib.sha256(str(n).encode()).hexdigest()[:16]) for n in range(10_000))
    assert sum(counts.values()) == 10_000
    assert {split: round(counts[split] / 10_000, 1) for split in Split} == {Split.TRAIN: 0.8, Split.VALIDATION: 0.1, Split.BENCHMARK: 0.1}
