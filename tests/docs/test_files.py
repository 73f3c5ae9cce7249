"""docs/files.md and the index: the examples parse, every key is documented, links lead somewhere."""

import re
from pathlib import Path

import pytest

from envwright.env.config import GeneratorConfig, Knobs
from envwright.env.formats.huggingface import COLUMNS
from envwright.env.formats.movingai_map import HOLES, ICE, map_text, read_map
from envwright.env.formats.movingai_scenario import boards_of_scenario, read_scenario, scenario_text
from envwright.env.instance import Board, Instance, instance_id, label_board, parse_instance
from envwright.env.patch import Edit, Patch, apply_patch
from envwright.env.rollout import Rollout, graded_rollout, parse_rollout
from tests.docs.pages import DOCS, anchors, blocks, json_blocks, links, page, table_keys

BY_HEADING = {heading: [block.data for block in json_blocks("files.md") if block.heading == heading] for heading in (
    "Instance", "Rollout", "Config", "Patch", "MovingAI"
)}  # fmt: skip


def test_the_instance_line_is_exact_and_the_board_without_labels_is_the_same() -> None:
    full, bare = BY_HEADING["Instance"]
    instance = Instance.parse(full, "page")
    assert list(full) == list(instance.to_json())
    assert instance == label_board(instance, "page") == parse_instance(bare, "page")
    assert instance.id == instance_id(instance.size, instance.holes, instance.starts, instance.goals)


def test_the_rollout_lines_carry_the_verdict_of_their_completion() -> None:
    full, cells = BY_HEADING["Rollout"]
    assert list(full) == list(Rollout.model_fields)
    for line in (full, cells):
        rollout = parse_rollout(line, "page")
        assert rollout == graded_rollout(rollout)


def test_the_patch_applies_to_the_config() -> None:
    (config,), (patch,) = BY_HEADING["Config"], BY_HEADING["Patch"]
    after = apply_patch(GeneratorConfig.parse(config, "page"), Patch.parse(patch, "page"))
    assert after.sizes["6"].wait_ratio == 0.5


def test_every_key_of_every_format_is_documented() -> None:
    keys = {key for model in (Instance, Rollout, GeneratorConfig, Knobs, Patch, Edit) for key in model.model_fields}
    assert keys == table_keys("files.md")
    assert all(f"`{column}`" in page("files.md") for column in COLUMNS)


def test_the_pages_map_and_scenario_are_what_the_board_is_exported_as(tmp_path: Path) -> None:
    (raw,) = BY_HEADING["MovingAI"]
    board = Board.parse(raw, "page")
    texts = {block.kind: block.text + "\n" for block in blocks("files.md")}
    assert texts["movingai-map"] == map_text(board)
    assert texts["movingai-scenario"] == scenario_text(board, "example.map")
    (tmp_path / "example.map").write_text(texts["movingai-map"], encoding="utf-8")
    (tmp_path / "example.scen").write_text(texts["movingai-scenario"], encoding="utf-8")
    assert boards_of_scenario(read_map(tmp_path / "example.map"), read_scenario(tmp_path / "example.scen"), 2) == [board]


def test_the_page_says_which_terrain_is_ice() -> None:
    section = page("files.md").partition("## MovingAI")[2]
    ice, _, rest = section.partition("up to 64 x 64. ")[2].partition(" are ice; ")
    assert set(re.findall(r"`(.)`", ice)) == set(ICE)
    assert set(re.findall(r"`(.)`", rest.partition(" are holes.")[0])) == set(HOLES)


@pytest.mark.parametrize("name", [path.name for path in sorted(DOCS.glob("*.md"))])
def test_links_between_the_pages_lead_somewhere(name: str) -> None:
    for link in links(name):
        target, _, anchor = link.partition("#")
        path = (DOCS / target).resolve() if target else DOCS / name
        assert path.exists(), link
        assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), link


def test_the_index_names_every_page() -> None:
    named = {link.partition("#")[0] for link in links("README.md")}
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md"} <= named
