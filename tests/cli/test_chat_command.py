"""envwright chat, driven by lines and on a real terminal."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from envwright.agent.transcript import read_transcript
from envwright.env.canonical import Split
from envwright.env.config import read_config
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, read_json, write_json
from envwright.env.patch import Patch, apply_patch, read_patch
from envwright.env.rollout import parse_rollout
from envwright.training.approval_files import approved_patch, read_waiting, waiting_path, write_waiting
from envwright.training.evidence import run_evidence
from envwright.training.runstore import RunStore
from envwright.training.settings import load_settings
from tests.cli.commands import CONFIG, EVIDENCE, Command, Finished, rollout_lines

Talk = Callable[..., Finished]
PROPOSAL = {
    "summary": "practise waiting on 4x4",
    "edits": [{"path": "/sizes/4/wait_ratio", "value": 0.4, "reason": "70 of 75 collide", "evidence": ["failure_breakdown#1"]}],
}


@pytest.fixture
def talk(command: Command, monkeypatch: pytest.MonkeyPatch) -> Talk:
    """Runs `envwright chat ARGUMENTS...` with lines on stdin."""

    def run(lines: list[str], *arguments: str) -> Finished:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return command("chat", *(arguments or EVIDENCE))

    return run


def make_run(path: Path, stages: int = 2, finished: int = 1) -> RunStore:
    """A run folder with finished stages; no policy is in it."""
    store = RunStore.create(path, load_settings("demo", [f"num_stages={stages}"]))
    (path.parent / "config.json").write_text(dump_json(CONFIG), encoding="utf-8")
    config = read_config(path.parent / "config.json")
    rollouts = [parse_rollout(line, "log") for line in rollout_lines()]
    for number in range(finished):
        folder = store.stage(number)
        folder.begin(config)
        folder.write_rollouts("validation", [rollout.model_copy(update={"stage": number}) for rollout in rollouts])
        folder.write_rollouts("train_rollouts", [rollout.model_copy(update={"split": Split.TRAIN}) for rollout in rollouts[:8]])
        write_json(folder.path / "engineer" / "outcome.json", {})
        folder.finish()
    return store


def test_a_session_with_the_rule_proposes_shows_and_approves(talk: Talk, folder: Path) -> None:
    done = talk(["where does it fail?", "/propose", "/diff", "/config", "/expand 1", "/approve", "/quit"], *EVIDENCE, "--out", "patch.json")
    assert (done.code, done.err) == (0, "")
    assert "not a language model" in done.out
    assert done.out.count("proposed patch, not applied:") == 2
    assert "[3] propose_patch(edits=1 item) -> passed the checks" in done.out
    assert "4x4 wait                  75   6.7 %" in done.out
    assert done.out.index("with the proposed patch:") < done.out.index("approved: the patch is in patch.json")
    assert all(len(line) <= 80 and line.isprintable() for line in done.out.split("\n"))
    config = read_config(folder / "config.json")
    assert apply_patch(config, read_patch(folder / "patch.json")) != config


def test_nothing_is_written_before_approve(talk: Talk, folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = talk(["/propose", "/reject too bold", "/approve", "/propose"], *EVIDENCE, "--out", "patch.json")
    assert "error: no patch is pending" in done.out
    assert "the proposed patch was not approved; nothing is applied" in done.out
    assert sorted(folder.iterdir()) == before
    assert done.code == 1


def test_boards_are_drawn_with_the_plan_and_where_it_broke(talk: Talk) -> None:
    done = talk(['/tool sample_maps {"n": 1, "outcome": "vertex_conflict"}'])
    assert 'completion: {"plan": ["DD", "RR"]}' in done.out
    assert "vertex conflict at timestep 1: agents 0 and 1 both enter (1, 1)" in done.out
    assert "1 B.b.   1 B!b." in done.out


def test_a_conversation_is_saved_and_gone_on_with(talk: Talk, folder: Path) -> None:
    talk(["hello", "/propose", "/save talk.jsonl"])
    done = talk(["/diff", "/tools", "/approve patch.json"], *EVIDENCE, "--load", "talk.jsonl", "--transcript", "all.jsonl")
    assert (done.code, "[3] propose_patch" in done.out) == (0, True)
    assert read_transcript(folder / "all.jsonl").end.patch == read_patch(folder / "patch.json")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["/foo"], "error: no command /foo; /help lists them"),
        (["/expand"], "error: no tool was called yet"),
        (['/tool failure_breakdown {"by": []}', "/expand 7"], "error: /expand takes the number of a call, 1 to 1, got '7'"),
        (["/tool"], "error: name a tool"),
        (["/load nowhere.jsonl"], "error: nowhere.jsonl: no such file"),
        (["/propose", "/reject"], "error: a rejection needs a reason"),
        (["/propose", "/approve"], "error: say where the patch is to be written: /approve FILE"),
        (["/save"], "error: name a file: /save FILE"),
    ],
)
def test_a_line_that_cannot_be_carried_out_is_told_and_the_session_goes_on(talk: Talk, lines: list[str], told: str) -> None:
    done = talk([*lines, "/help"])
    assert told in done.out
    assert "/approve   approve the proposed patch" in done.out
    assert done.code == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--config", "config.json"), "give --run DIR, or both --config FILE and --rollouts FILE"),
        ((*EVIDENCE, "--engineer", "fixed"), "engineer 'fixed' cannot hold a conversation; give rule, openai:MODEL, "),
        (("--run", "."), "no run here (no run.json)"),
    ],
)
def test_bad_arguments_end_with_one_line(talk: Talk, arguments: tuple[str, ...], told: str) -> None:
    done = talk(["hello"], *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert told in done.err


def test_an_approved_patch_waits_in_the_run_folder_for_resume(talk: Talk, tmp_path: Path) -> None:
    store = make_run(tmp_path / "run")
    own = f"/tool propose_patch {dump_json(PROPOSAL)}"
    done = talk([own, "/approve"], "--run", str(store.path))
    path = store.stage(0).path / "engineer" / "approved.json"
    assert f"the patch is in {path}" in done.out.replace("\n", " ")
    assert "--resume" in done.out
    patch = approved_patch(store.stage(0))
    assert patch is not None
    assert (patch.summary, read_json(path)["engineer"]) == (PROPOSAL["summary"], "a person")
    assert run_evidence(store).history[-1].patch == patch
    assert (store.stage(0).path / "engineer" / "chat-1.jsonl").is_file()
    again = talk(["hello"], "--run", str(store.path))
    assert "chat-2.jsonl" in again.out


def test_a_proposal_that_waits_in_the_run_folder_is_approved_in_a_chat(talk: Talk, tmp_path: Path) -> None:
    store = make_run(tmp_path / "run")
    write_waiting(store, "proposed", Patch.model_validate(PROPOSAL), "mcp")
    assert approved_patch(store.stage(0)) is None
    done = talk(["/diff", "/approve"], "--run", str(store.path))
    assert "a patch by mcp waits for approval: /diff" in done.out
    assert approved_patch(store.stage(0)) == Patch.model_validate(PROPOSAL)
    assert read_waiting(store.stage(0), "proposed") is None
    assert read_json(waiting_path(store.stage(0), "approved"))["engineer"] == "mcp"


def test_a_run_without_a_next_stage_takes_no_patch(talk: Talk, tmp_path: Path) -> None:
    store = make_run(tmp_path / "run", stages=1)
    done = talk([f"/tool propose_patch {dump_json(PROPOSAL)}", "/approve", "/diff"], "--run", str(store.path))
    assert "so no stage is left to train on a patch" in done.out.replace("\n", " ")
    assert done.out.count("proposed patch, not applied:") == 2
    assert not (store.stage(0).path / "engineer" / "approved.json").exists()


def test_an_approval_for_another_config_is_refused(tmp_path: Path) -> None:
    store = make_run(tmp_path / "run")
    write_waiting(store, "approved", Patch.model_validate(PROPOSAL), "rule")
    path = waiting_path(store.stage(0), "approved")
    write_json(path, {**read_json(path), "config_hash": "0" * 16})
    with pytest.raises(UserError, match="was made for another config"):
        approved_patch(store.stage(0))


class Terminal:
    """`envwright chat` on a pseudo-terminal of 80 columns."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        script = "import sys; from envwright.training.cli import main; sys.exit(main(sys.argv[1:]))"
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, "chat", *EVIDENCE],
            stdin=slave, stdout=slave, stderr=slave, cwd=folder, close_fds=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "80", "XDG_STATE_HOME": str(folder), **environment},
        )  # fmt: skip
        os.close(slave)
        self.seen, self.at = "", 0

    def until(self, mark: str, seconds: float = 60.0) -> None:
        """Read until the mark comes, from after the one before it."""
        end = time.monotonic() + seconds
        while (found := self.seen.find(mark, self.at)) < 0:
            ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{mark!r} did not come: {self.seen[self.at :]!r}"
            self.seen += os.read(self.master, 4096).decode("utf-8", "replace")
        self.at = found + len(mark)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode("utf-8"))


@pytest.fixture
def terminal(folder: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def start(**environment: str) -> Terminal:
        opened.append(Terminal(folder, environment))
        return opened[-1]

    yield start
    for each in opened:
        each.process.kill()
        each.process.wait()
        os.close(each.master)


def test_a_terminal_has_completion_history_and_ends_with_ctrl_d(terminal: Callable[..., Terminal], folder: Path) -> None:
    pytest.importorskip("prompt_toolkit", reason="prompt_toolkit is not installed: pip install 'envwright[chat]'")
    chat = terminal(TERM="xterm", NO_COLOR="1", PROMPT_TOOLKIT_NO_CPR="1")
    row = "4x4       0.500       0.200       0.250"
    for keys, marks in [("/con\t", ["fig"]), ("\r", [row]), ("\x1b[A\r", [row]), ("/x\r", ["no command /x"]), ("half a line\x03", [])]:
        if keys != "\r":
            chat.until("you>")
        chat.type(keys)
        for mark in marks:
            chat.until(mark)
    chat.until("you>")
    chat.type("\x04")
    assert chat.process.wait(timeout=30) == 0
    history = (folder / "envwright" / "chat_history").read_text(encoding="utf-8")
    assert "+/config" in history
