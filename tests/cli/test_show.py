"""show: the terminal drawing and the pictures it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.cli.commands import Command

FAILING = '{"plan": ["RD", "LL"]}'


def test_a_picture_is_written_and_the_verdict_printed(command: Command, folder: Path) -> None:
    done = command("show", "boards.jsonl", "--completion", FAILING, "-o", "out/board.png")
    assert done.code == 0
    assert done.out.endswith(": hole at timestep 2: agent 0 enters the hole (1, 1)\n")
    assert len(done.out.splitlines()) == 1
    assert done.err == "picture in out/board.png\n"
    with Image.open(folder / "out" / "board.png") as image:
        assert image.format == "PNG"


def test_a_rollouts_recorded_completion_is_animated(command: Command, folder: Path) -> None:
    assert command("show", "rollouts.jsonl", "-o", "board.gif").code == 0
    with Image.open(folder / "board.gif") as image:
        assert getattr(image, "n_frames", 1) == 4


def test_a_timestep_can_be_drawn_alone(command: Command, folder: Path) -> None:
    done = command("show", "boards.jsonl", "--completion", FAILING, "--step", "2")
    assert done.out.endswith("\nt=2 !\n  012\n0 .Aa\n1 .!.\n2 bB.\n")
    assert command("show", "boards.jsonl", "--completion", FAILING, "--step", "2", "-o", "moment.svg").code == 0
    assert "timestep 2</title>" in (folder / "moment.svg").read_text(encoding="utf-8")
    assert command("show", "boards.jsonl", "--strip", "-o", "strip.svg").code == 0
    assert (folder / "strip.svg").read_text(encoding="utf-8").count(">t = ") == 3


def test_output_that_is_no_terminal_is_ascii_unless_colour_is_forced(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert command("show", "boards.jsonl", "--completion", FAILING).out.isascii()
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in command("show", "boards.jsonl", "--completion", FAILING).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert command("show", "boards.jsonl", "--completion", FAILING).out.isascii()


def test_a_completion_without_a_plan_gives_the_board_alone(command: Command, folder: Path) -> None:
    done = command("show", "boards.jsonl", "--completion", "no idea", "-o", "board.svg")
    assert done.out.endswith(": parse_error: no plan to draw\n")
    assert "parse_error: no plan to draw" in (folder / "board.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "board.jpg"), "board.jpg: unknown suffix '.jpg'; pictures are .png, .svg or .gif"),
        (("-o", "board.gif", "--step", "1"), "a GIF shows all timesteps"),
        (("--step", "7"), "timestep 7 is not in the plan; it has timesteps 0 to 2"),
        (("--step", "-1"), "timestep -1 is not in the plan"),
        (("--strip",), "--strip needs a picture"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_one_line_before_anything_is_written(
    command: Command, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    before = {path.name for path in folder.iterdir()}
    done = command("show", "boards.jsonl", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert {path.name for path in folder.iterdir()} == before
