"""PNG and GIF pictures, arrays, and files that are whole or absent."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from PIL import Image

from envwright.env.errors import MissingExtraError, UserError
from envwright.env.instance import Board
from envwright.env.pictures.files import write_picture
from envwright.env.pictures.grid import cell_size
from envwright.env.pictures.layout import animation_pictures, moment_picture, overview_picture, strip_picture
from envwright.env.pictures.palette import FAULT, HOLE, ICE, agent_colour
from envwright.env.pictures.raster import FIRST_MS, LAST_MS, STEP_MS, gif_bytes, png_bytes, rgb_array
from envwright.env.pictures.shapes import dashes
from envwright.env.pictures.story import Story, story_of
from envwright.env.rules import paths_from_moves
from tests.env.boards import instance_of

BOARD = instance_of("a.b .#. d.c", "ab", "cd")


def story(*plan: str, board: Board = BOARD) -> Story:
    return story_of(board, paths_from_moves(board.starts, plan))


def hexadecimal(pixel: tuple[int, ...]) -> str:
    return "#" + "".join(f"{part:02X}" for part in pixel[:3])


def colours_in_cell(image: Image.Image, told: Story, step: int, cell: tuple[int, int], scale: int = 1) -> set[str]:
    """Every colour in a cell of a one-panel picture whose first heading is one line high."""
    side = cell_size(told.board.size)
    left = (image.width / scale - told.board.size * side) / 2
    picture = moment_picture(told, step)
    frame = next(shape for shape in picture.background if getattr(shape, "fill", None) == ICE)
    x, y = int((left + cell[1] * side) * scale), int((getattr(frame, "y", 0.0) + cell[0] * side) * scale)
    box = image.crop((x + 2, y + 2, x + int(side * scale) - 2, y + int(side * scale) - 2)).convert("RGB")
    return {hexadecimal(colour) for _, colour in box.getcolors(100_000) or [] if isinstance(colour, tuple)}


def test_a_png_has_two_pixels_to_a_unit_and_the_colours_of_what_is_there() -> None:
    told = story("RR", "LL")
    picture = moment_picture(told, 0)
    image = Image.open(io.BytesIO(png_bytes(picture)))
    assert image.format == "PNG"
    assert image.size == (round(2 * picture.width), round(2 * picture.height))
    assert agent_colour(0) in colours_in_cell(image, told, 0, (0, 0), 2)
    assert agent_colour(1) in colours_in_cell(image, told, 0, (2, 2), 2)
    assert HOLE in colours_in_cell(image, told, 0, (1, 1), 2)
    assert colours_in_cell(image, told, 0, (1, 0), 2) == {ICE}


def test_a_violation_is_red_where_it_happens_and_nowhere_before() -> None:
    told = story("RD", "LL")
    before, after = (Image.fromarray(rgb_array(moment_picture(told, step))) for step in (1, 2))
    assert FAULT not in colours_in_cell(before, told, 1, (1, 1))
    assert FAULT in colours_in_cell(after, told, 2, (1, 1))


def test_a_gif_has_a_frame_per_timestep_and_rests_at_the_end() -> None:
    told = story("WRR", "LL")
    image = Image.open(io.BytesIO(gif_bytes(animation_pictures(told))))
    frames = getattr(image, "n_frames", 1)
    assert (image.format, frames, image.info["loop"]) == ("GIF", 4, 0)
    durations, pixels = [], []
    for index in range(frames):
        image.seek(index)
        durations.append(image.info["duration"])
        pixels.append(image.convert("RGB").tobytes())
    assert durations == [FIRST_MS, STEP_MS, STEP_MS, LAST_MS]
    assert len(set(pixels)) == 4


def test_the_last_frame_of_a_gif_shows_the_violation_in_its_own_red() -> None:
    told = story("RD", "LL")
    image = Image.open(io.BytesIO(gif_bytes(animation_pictures(told))))
    image.seek(2)
    assert FAULT in colours_in_cell(image.convert("RGB"), told, 2, (1, 1))
    assert agent_colour(0) in colours_in_cell(image.convert("RGB"), told, 2, (0, 1))


def test_the_same_plan_gives_the_same_bytes() -> None:
    told = story("RD", "LL")
    assert png_bytes(overview_picture(told)) == png_bytes(overview_picture(told))
    assert gif_bytes(animation_pictures(told)) == gif_bytes(animation_pictures(told))


def test_large_boards_stay_small_files() -> None:
    cells = [(row, col) for row in range(64) for col in range(64)]
    board = Board(size=64, holes=tuple(cells[100:900]), starts=tuple(cells[:30]), goals=tuple(cells[-30:]))
    told = story(*["W"] * 30, board=board)
    assert len(png_bytes(moment_picture(told, 0))) < 400_000
    with pytest.raises(UserError, match="a strip of 41 timesteps of a 64x64 board is too large"):
        strip_picture(story(*["W" * 40] * 30, board=board))


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("b.GIF", b"GIF89a"), ("c.svg", b"<svg ")])
def test_the_suffix_decides_and_an_existing_file_is_replaced_whole(tmp_path: Path, name: str, magic: bytes) -> None:
    path = tmp_path / "new" / name
    write_picture(path, story("RD", "LL"))
    first = path.read_bytes()
    assert first.startswith(magic)
    write_picture(path, story("RR", "LL"))
    assert path.read_bytes() != first
    assert [entry.name for entry in path.parent.iterdir()] == [name]


def test_step_and_strip_choose_what_a_still_shows(tmp_path: Path) -> None:
    told = story("RD", "LL")
    sizes = set()
    for name, step, strip in (("a", None, False), ("b", 1, False), ("c", None, True)):
        write_picture(tmp_path / f"{name}.png", told, step=step, strip=strip)
        with Image.open(tmp_path / f"{name}.png") as image:
            sizes.add(image.size)
    assert len(sizes) == 3


BAD: dict[str, tuple[str, int | None, bool, str]] = {
    "suffix": ("board.jpg", None, False, r"board.jpg: unknown suffix '.jpg'; pictures are .png, .svg or .gif"),
    "no suffix": ("board", None, False, "unknown suffix ''"),
    "gif step": ("board.gif", 1, False, "a GIF shows all timesteps"),
    "gif strip": ("board.gif", None, True, "a GIF shows all timesteps"),
    "both": ("board.png", 1, True, "give step or strip, not both"),
    "no such step": ("board.svg", 9, False, "it has timesteps 0 to 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_picture_that_cannot_be_drawn_leaves_no_file(tmp_path: Path, name: str) -> None:
    file, step, strip, message = BAD[name]
    with pytest.raises(UserError, match=message):
        write_picture(tmp_path / file, story("RD", "LL"), step=step, strip=strip)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written"):
        write_picture(tmp_path / "file" / "board.png", story("RD", "LL"))


def test_without_pillow_a_png_names_the_extra_and_an_svg_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'envwright\[pictures\]'"):
        write_picture(tmp_path / "board.png", story("RD", "LL"))
    write_picture(tmp_path / "board.svg", story("RD", "LL"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["board.svg"]


def test_dashes_cover_their_share_of_a_line_and_keep_its_bends() -> None:
    pieces = list(dashes([(0.0, 0.0), (4.0, 0.0), (4.0, 6.0)], (3.0, 1.0)))
    assert pieces == [[(0.0, 0.0), (3.0, 0.0)], [(4.0, 0.0), (4.0, 3.0)], [(4.0, 4.0), (4.0, 6.0)]]
    bent = list(dashes([(0.0, 0.0), (2.0, 0.0), (2.0, 6.0)], (3.0, 1.0)))
    assert bent[0] == [(0.0, 0.0), (2.0, 0.0), (2.0, 1.0)]
