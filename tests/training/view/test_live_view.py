"""The panel, in a real pseudo-terminal: it stays within the terminal, and goes without a trace."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from envwright.training.settings import RunSettings
from envwright.training.view.live_view import LiveProgress, follow, sparkline
from envwright.training.view.progress import Progress
from tests.training.played_run import play

_COLUMNS = 80
_ESCAPE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


class _Terminal:
    """What was written to a pseudo-terminal."""

    def __init__(self) -> None:
        self.text = ""


@contextmanager
def _terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Terminal]:
    """Stdout as a terminal of 80 columns."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, _COLUMNS, 0, 0))
    pieces: list[bytes] = []
    reader = threading.Thread(target=_read_all, args=(outer, pieces.append))
    reader.start()
    stdout = os.fdopen(inner, "w", encoding="utf-8")
    terminal = _Terminal()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", stdout)
            patched.setenv("COLUMNS", "")  # rich asks stdin, which a test run may not have
            yield terminal
            assert sys.stdout is stdout  # nothing redirects it any more
    finally:
        stdout.close()
        reader.join(timeout=10)
        os.close(outer)
        terminal.text = b"".join(pieces).decode("utf-8").replace("\r\n", "\n")


def _read_all(descriptor: int, keep: Callable[[bytes], Any]) -> None:
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # the other end is closed
            return
        keep(piece)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _plain(settings: RunSettings, folder: Path) -> list[str]:
    lines: list[str] = []
    play(Progress(lines.append), settings, folder)
    return lines


@pytest.mark.parametrize("plain_colours", [False, True])
def test_the_plain_lines_scroll_above_a_panel_that_goes_in_the_end(
    tiny_settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain_colours: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    with _terminal(monkeypatch) as terminal:
        if plain_colours:
            monkeypatch.setenv("NO_COLOR", "1")
        with follow(_say) as progress:
            assert isinstance(progress, LiveProgress)
            play(progress, tiny_settings, tmp_path)
    shown = _ESCAPE.sub("", terminal.text)
    position = 0
    for line in _plain(tiny_settings, tmp_path):
        position = shown.index(line, position) + len(line)
    assert "stage   1 of 2, step 2 of 2: validating" in shown
    assert "╭─ pocket, engineer rule, seed 0 ─" in shown
    assert shown.rstrip().endswith("stages/*/checkpoint")  # below the last plain line nothing is left
    assert terminal.text.rindex("\x1b[?25h") > terminal.text.rindex("\x1b[?25l")
    assert not (plain_colours and _COLOUR.search(terminal.text))
    assert {len(border) for border in re.findall("╭[^╮\n]*╮|╰[^╯\n]*╯", shown)} == {_COLUMNS}


@pytest.mark.parametrize("error", [KeyboardInterrupt, FloatingPointError])
def test_a_run_that_breaks_off_leaves_the_terminal_as_it_was(
    tiny_settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")

    def broken() -> None:
        with follow(_say) as progress:
            play(progress, tiny_settings, tmp_path, stop_at=(0, 2))
            raise error

    with _terminal(monkeypatch) as terminal, pytest.raises(error):
        broken()
    lines = terminal.text.split("\n")
    panel = max(index for index, line in enumerate(lines) if "╰" in line)
    after = "".join(lines[panel + 1 :])
    assert _ESCAPE.sub("", after).strip() == ""
    assert after.count("\x1b[2K") >= 3  # every line of the panel is erased
    assert after.rstrip().count("\x1b[?25h") == 1


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_a_terminal_that_cannot_move_its_cursor_gets_the_plain_lines(
    tiny_settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("TERM", kind)
    with _terminal(monkeypatch) as terminal, follow(_say) as progress:
        play(progress, tiny_settings, tmp_path)
    assert terminal.text.split("\n")[:-1] == _plain(tiny_settings, tmp_path)


def test_a_person_who_approves_patches_is_asked_without_a_panel_in_the_way(
    tiny_settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    settings = tiny_settings.model_copy(update={"approval": "human"})
    with _terminal(monkeypatch) as terminal, follow(_say) as progress:
        play(progress, settings, tmp_path, stop_at=(0, 2))
        progress.asking("openai:MODEL")
        _say("approve? [y/n]")
    before, _, after = terminal.text.rpartition("approve? [y/n]")
    assert after.strip() == ""
    assert before[before.rindex("╯") :].count("\x1b[2K") >= 3  # every line of the panel is erased before the question


def test_the_panel_says_where_the_run_is_and_what_is_left(tiny_settings: RunSettings, tmp_path: Path) -> None:
    now = [0.0]
    console = Console(file=io.StringIO(), width=_COLUMNS, color_system=None, record=True, _environ={})
    progress = LiveProgress(console, clock=lambda: now[0])
    settings = tiny_settings.model_copy(update={"num_stages": 3, "steps_per_stage": 8})
    play(progress, settings, tmp_path, summary_of_patch="more holes on 4x4, " * 9, stop_at=(1, 3))
    progress.close()
    now[0] = 1.0
    console.export_text()
    console.print(progress.panel())
    assert console.export_text().split("\n") == [
        f"╭─ pocket, engineer rule, seed 0 {'─' * 46}╮",
        "│ stage   2 of 3, step 3 of 8: training                                        │",
        "│ step    reward 1.100   valid 0 %   groups with signal 0.25   10.0 tokens     │",
        "│ speed   2.00 s/step   320 tokens/s                                           │",
        "│ left    9 s of this stage's training, 25 s of the run                        │",
        "│ reward  ▁▂▂▃▄▅▅▆▇▇█  0.100 to 1.100                                          │",
        "│ valid   50.0 % held out at the start, then 50.0 % at validation              │",
        "│ patch   more holes on 4x4, more holes on 4x4, more holes on 4x4, more holes… │",
        f"╰{'─' * 72} 1 s ─╯",
        "",
    ]


def test_the_panel_fits_a_narrow_terminal_without_unicode(tiny_settings: RunSettings, tmp_path: Path) -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True), width=40, color_system=None, _environ={})
    progress = LiveProgress(console)
    play(progress, tiny_settings, tmp_path, stop_at=(1, 1))
    progress.close()
    raw.truncate(0)
    console.print(progress.panel())
    lines = raw.getvalue().decode("ascii").lstrip("\0").splitlines()
    assert {len(line) for line in lines} == {40}
    assert any("_=@" in line for line in lines)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([0.5], "▁"), ([0.5, 0.5], "▁▁"), ([0.0, 1.0], "▁█"), ([0, 1, 2, 3, 4, 5, 6, 7], "▁▃▆█"), ([0, 0, 7, 7, 3, 3, 1, 1], "▁█▄▂")],
)
def test_a_sparkline_has_a_bar_per_value_or_per_few(values: list[float], drawn: str) -> None:
    assert sparkline(values, 4) == drawn
