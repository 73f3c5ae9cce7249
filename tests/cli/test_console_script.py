"""The installed command in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import EVIDENCE

SCRIPT = Path(sys.executable).with_name("envwright")


@pytest.mark.skipif(not SCRIPT.is_file(), reason="the package is not installed in this environment")
def test_the_console_script_pipes_json_and_returns_exit_codes(folder: Path) -> None:
    good = subprocess.run([SCRIPT, "solve", "boards.jsonl", "--json"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert (good.returncode, good.stderr, len(json.loads(good.stdout)["results"])) == (0, "", 4)
    bad = subprocess.run([SCRIPT, "solve", "none.jsonl", "--json"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert (bad.returncode, bad.stdout, bad.stderr) == (2, "", "envwright solve: none.jsonl: no such file\n")


REDESIGN = """
import sys, time
from envwright.training.cli import main
code = main(sys.argv[1:])
assert not {"torch", "transformers", "trl"} & set(sys.modules), "a heavy import"
print(time.process_time(), file=sys.stderr)
sys.exit(code)
"""


def test_redesign_of_300_rollouts_takes_under_5_seconds_and_no_torch(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REDESIGN, "redesign", *EVIDENCE, "--json"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["patch"]["edits"]
    assert float(done.stderr) < 5


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    command = [sys.executable, "-m", "envwright.training.cli", "schema", "rollout"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stream:
        assert stream.read() == b""
    assert process.wait(timeout=120) == 0


def test_a_console_without_unicode_gets_escapes(folder: Path) -> None:
    environment = {"PYTHONIOENCODING": "cp1252", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "envwright.training.cli", "show", "boards.jsonl", "--completion", "你好"]
    done = subprocess.run(command, cwd=folder, capture_output=True, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"completion: \\u4f60\\u597d" in done.stdout
