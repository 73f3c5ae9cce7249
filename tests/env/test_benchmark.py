"""The benchmark: its grid, its digests, and the manifest that says which line is which cell."""

import dataclasses
import hashlib
from collections import Counter
from pathlib import Path

import pytest

from envwright.env.benchmark import BENCHMARK_SETS, DIGESTS, FEWER, PER_CELL, BenchmarkCell, benchmark_groups, fill_group, make_benchmark
from envwright.env.canonical import Split
from envwright.env.errors import InfeasibleError, UserError
from envwright.env.instance import board_split, label_board, read_instances
from envwright.env.jsonio import read_json, write_json
from envwright.env.manifest import Manifest, manifest_of, manifest_path, read_wait_ratios, wait_ratios_of, write_benchmark

PINNED = {
    (3, 4): "62a9f6208f3e90ec1e122e06ff7cd86d1bbd35596db166a484afbbae1fd90799",
    (4, 6): "7be58812cbb04e6ffc7ef8851c4fe9a85ee18d63c27fac71d30f329a2df53a33",
    (2, 8): "bcde1186bb43f229f0b93d366f0449153135e6cf0144c24ddec18f49db7d8b23",
}
"""SHA-256 of the 150 lines of some groups; `envwright benchmark make` holds the whole files against `DIGESTS`."""


def few(name: str = "paper") -> list[BenchmarkCell]:
    """Two boards per cell of three groups."""
    groups = benchmark_groups(name)
    return [cell for agents, size in (groups[0], groups[1], groups[-1]) for cell in fill_group(agents, size, per_cell=2)]


@pytest.fixture(scope="module")
def cells() -> list[BenchmarkCell]:
    return few()


def test_the_sets_have_the_papers_grid_and_the_same_for_two_agents() -> None:
    boards = {name: sum(3 * FEWER.get(group, PER_CELL) for group in benchmark_groups(name)) for name in BENCHMARK_SETS}
    assert boards == {"paper": 3150, "in-distribution": 1098}
    sizes = {agents: (min(sizes), max(sizes), len(sizes)) for grid in BENCHMARK_SETS.values() for agents, sizes in grid.items()}
    assert sizes == {2: (3, 10, 8), 3: (3, 10, 8), 4: (4, 10, 7), 5: (5, 10, 6)}
    with pytest.raises(UserError, match="no benchmark set 'small'; the sets are paper, in-distribution"):
        make_benchmark("small")


@pytest.mark.parametrize("group", PINNED)
def test_the_boards_of_a_group_are_the_pinned_ones_on_their_split_with_exact_counts(group: tuple[int, int]) -> None:
    filled = fill_group(*group)
    assert manifest_of("group", filled).sha256 == PINNED[group]
    boards = [board for cell in filled for board in cell.instances]
    assert [sum(board.wait_required for board in cell.instances) for cell in filled] == [13, 25, 38]
    assert Counter((board.num_agents, board.size, len(board.holes)) for board in boards) == {(*group, round(0.2 * group[1] ** 2)): 150}
    assert {board_split(board) for board in boards} == {Split.BENCHMARK}
    assert len({board.id for board in boards}) == 150
    for board in boards[::30]:
        assert label_board(board, "again") == board


def test_two_agents_on_3x3_use_every_wait_required_board_of_the_split_once() -> None:
    filled = fill_group(2, 3)
    assert [(len(cell.instances), sum(board.wait_required for board in cell.instances)) for cell in filled] == [(16, 4), (16, 8), (16, 12)]
    assert len({board.id for cell in filled for board in cell.instances}) == 48


def test_a_cell_without_boards_enough_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FEWER, (2, 3))
    with pytest.raises(InfeasibleError, match=r"3x3 with 2 agents: the benchmark split has too few boards at wait ratio 0\.5"):
        fill_group(2, 3)


def test_the_whole_digests_are_those_of_two_sets() -> None:
    assert set(DIGESTS) == set(BENCHMARK_SETS)
    assert {len(bytes.fromhex(digest)) for digest in DIGESTS.values()} == {32}


def test_workers_do_not_change_the_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARK_SETS, "tiny", {2: (3, 4), 3: (3,)})
    done: list[int] = []
    alone = make_benchmark("tiny", per_cell=2, on_progress=done.append)
    assert alone == make_benchmark("tiny", per_cell=2, workers=2)
    assert done == [6, 12, 18]
    with pytest.raises(UserError, match="workers must be between 1 and 64, got 0"):
        make_benchmark("tiny", workers=0)


def test_the_file_is_what_its_digest_says_and_its_manifest_finds_every_cell_again(tmp_path: Path, cells: list[BenchmarkCell]) -> None:
    path = tmp_path / "bench.jsonl"
    manifest = write_benchmark(path, "paper", cells)
    assert manifest.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    instances = read_instances(path)
    assert instances == [board for cell in cells for board in cell.instances]
    lines = path.read_bytes().splitlines(keepends=True)
    for described, cell in zip(manifest.cells, cells, strict=True):
        part = slice(described.first_line - 1, described.first_line - 1 + described.boards)
        assert tuple(instances[part]) == cell.instances
        assert described.sha256 == hashlib.sha256(b"".join(lines[part])).hexdigest()
        assert (described.num_agents, described.size, described.wait_ratio) == (cell.num_agents, cell.size, cell.wait_ratio)
        assert described.wait_required == sum(board.wait_required for board in cell.instances)
        assert (described.hole_ratio, described.holes) == (0.2, len(cell.instances[0].holes))
    assert Manifest.parse(read_json(manifest_path(path)), "manifest") == manifest
    assert read_wait_ratios(path, instances) == wait_ratios_of(cells)
    assert Counter(wait_ratios_of(cells).values()) == {0.25: 6, 0.5: 6, 0.75: 6}


def test_a_file_without_a_manifest_has_no_known_cells(tmp_path: Path, cells: list[BenchmarkCell]) -> None:
    path = tmp_path / "bench.jsonl"
    write_benchmark(path, "paper", cells)
    manifest_path(path).unlink()
    assert read_wait_ratios(path, read_instances(path)) is None


def test_a_file_that_its_manifest_does_not_describe_is_refused_in_one_line(tmp_path: Path, cells: list[BenchmarkCell]) -> None:
    path = tmp_path / "bench.jsonl"
    manifest = write_benchmark(path, "paper", cells)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[1:]), encoding="utf-8")
    with pytest.raises(
        UserError, match=r"its sha256 \w{16}\.\.\. is not the \w{16}\.\.\. of .*; make the file again, or delete the manifest"
    ):
        read_wait_ratios(path, read_instances(path))
    path.write_text("".join(lines), encoding="utf-8")
    described = manifest.to_json()
    for change, message in (
        ({"size": 9}, r"line 1 of .* is no board of the cell 3 agents on 9x9 alone"),
        ({"boards": 1}, r"its cells hold 17 of the 18 lines"),
        ({"first_line": 2}, r"line 3 of .* is no board of the cell"),
        ({"first_line": 18}, r"line 18 of .* is no board of the cell 3 agents on 3x3 alone"),
        ({"hole_ratio": "0.2"}, r"cells/0/hole_ratio: Input should be a valid number"),
    ):
        write_json(manifest_path(path), {**described, "cells": [{**described["cells"][0], **change}, *described["cells"][1:]]})
        with pytest.raises(UserError, match=message) as caught:
            read_wait_ratios(path, read_instances(path))
        assert str(manifest_path(path)) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


def test_a_manifest_that_names_more_lines_than_there_are_is_refused(tmp_path: Path, cells: list[BenchmarkCell]) -> None:
    path = tmp_path / "bench.jsonl"
    described = write_benchmark(path, "paper", cells).to_json()
    last = {**described["cells"][-1], "boards": 3}
    write_json(manifest_path(path), {**described, "cells": [*described["cells"][:-1], last]})
    with pytest.raises(UserError, match=r"line 19 of .* is no board of the cell 5 agents on 10x10 alone"):
        read_wait_ratios(path, read_instances(path))


def test_writing_again_replaces_the_manifest_with_the_boards(tmp_path: Path, cells: list[BenchmarkCell]) -> None:
    path = tmp_path / "bench.jsonl"
    write_benchmark(path, "paper", cells)
    changed = [dataclasses.replace(cells[0], instances=cells[0].instances[::-1]), *cells[1:]]
    assert write_benchmark(path, "paper", changed).sha256 != manifest_of("paper", cells).sha256
    assert read_wait_ratios(path, read_instances(path)) == wait_ratios_of(cells)
