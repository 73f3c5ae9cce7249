"""The command `chat`: talk to an engineer over a run's evidence, and approve its patches. Imports torch only when a run's policy is asked."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from envwright.agent.chat import Chat
from envwright.agent.chat_models import CHAT_MODELS, default_limits, make_chat_model
from envwright.agent.chat_rule import ChattingRule
from envwright.agent.context import Bookkeeping
from envwright.agent.engineers import RESULT_TOKENS, make_engineer
from envwright.agent.models import ChatModel, CheckedModel
from envwright.agent.visible import visible
from envwright.env.errors import UserError
from envwright.env.jsonio import write_json
from envwright.env.patch import PatchCheck
from envwright.env.pictures.text import TextStyle, text_style
from envwright.tools.evidence import Evidence
from envwright.training.approval_files import read_waiting, write_waiting
from envwright.training.chat_console import ChatConsole
from envwright.training.chat_terminal import line_reader
from envwright.training.commands_agent import work_of
from envwright.training.evidence import given_evidence
from envwright.training.runstore import RunStore

__all__ = ["chat"]

_WIDEST = 100


def chat(arguments: argparse.Namespace) -> int:
    """`envwright chat`"""
    store = RunStore.open(Path(arguments.run)) if arguments.run else None
    model = _model(arguments.engineer, store)
    evidence = given_evidence(arguments.run, arguments.config, arguments.rollouts, arguments.seed)
    limits, budget = default_limits(arguments.engineer), None if isinstance(model, ChattingRule) else RESULT_TOKENS
    talk = Chat(model, evidence, work=work_of(arguments), limits=limits, token_budget=budget, bookkeeping=_bookkeeping(store))
    console = ChatConsole(talk, _style(), _write, _approver(store, talk, arguments.out), lambda: None)
    _greet(console, arguments, evidence)
    transcript = _transcript(store, arguments.transcript)
    if arguments.load:
        talk.load(Path(arguments.load))
        waits = "" if talk.pending is None else "; a proposed patch waits: /diff"
        console.lines(f"going on with {visible(arguments.load)}: {len(talk.messages)} messages{waits}")
    elif store is not None:
        _take_up_proposal(store, console)
    if transcript is not None:
        console.record = lambda: talk.save(transcript)
    _converse(console)
    if transcript is not None and len(talk.messages) > 2:
        console.lines(f"the conversation is in {transcript}")
    return 1 if console.failed and not sys.stdin.isatty() else 0


def _converse(console: ChatConsole) -> None:
    """Read and carry out lines until the input ends."""
    read = line_reader(_write)
    while (line := read()) is not None:
        if not console.handle(line):
            return
    console.handle("/quit")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _style() -> TextStyle:
    """The style of boards and lines: as wide as the terminal, from 40 to 100 columns; 80 where there is none."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
    return replace(text_style(sys.stdout, os.environ), width=max(40, min(columns, _WIDEST)))


def _model(spec: str, store: RunStore | None) -> ChatModel:
    """Return who answers, found to be there.

    Raises:
        UserError: no such engineer, one that cannot talk, or a model that cannot be reached.
    """
    if spec == "rule":
        return ChattingRule()
    if spec.partition(":")[0] not in {name.partition(":")[0] for name in CHAT_MODELS}:
        make_engineer(spec)
        raise UserError(f"engineer {spec!r} cannot hold a conversation; give rule, {', '.join(CHAT_MODELS)}")
    finished = store.finished_stages() if store is not None else 0
    checkpoint = store.stage(finished - 1).checkpoint if store is not None and finished else None
    model = make_chat_model(spec, free_text=True, checkpoint=checkpoint)
    if isinstance(model, CheckedModel):
        model.check()
    return model


def _bookkeeping(store: RunStore | None) -> Bookkeeping | None:
    if store is None:
        return None
    settings = store.settings()
    return Bookkeeping(stage=store.finished_stages() - 1, stages=settings.num_stages, instances=settings.instances_per_stage)


def _greet(console: ChatConsole, arguments: argparse.Namespace, evidence: Evidence) -> None:
    where = visible(arguments.run or arguments.rollouts)
    console.lines(f"envwright chat: engineer {visible(arguments.engineer)}, {len(evidence.rollouts)} rollouts of {where}")
    console.lines("Ask about the evidence, or /propose a patch; nothing is applied before /approve. /help lists the commands.")


def _take_up_proposal(store: RunStore, console: ChatConsole) -> None:
    """Make a patch pending that waits for approval, such as one proposed over MCP."""
    record = read_waiting(store.stage(store.finished_stages() - 1), "proposed")
    if record is None:
        return
    check = console.chat.offer(record.patch, record.engineer)
    by = visible(record.engineer)
    console.lines(
        f"a patch by {by} waits for approval: /diff" if check.accepted else f"a patch by {by} waits and no longer passes: /expand"
    )


def _approver(store: RunStore | None, talk: Chat, out: str | None) -> Callable[[PatchCheck, Path | None], str]:
    """Return what writes approved patches."""

    def approve(check: PatchCheck, file: Path | None) -> str:
        if check.patch is None:
            raise ValueError("an accepted proposal has a patch")
        path = file or (Path(out) if out else None)
        if path is not None:
            write_json(path, check.patch.to_json())
            return f"the patch is in {path}"
        if store is None:
            raise UserError("say where the patch is to be written: /approve FILE, or start with --out FILE")
        written = write_waiting(store, "approved", check.patch, talk.proposer)
        return f"the patch is in {written}; `envwright run ... --out {store.path} --resume` takes it up"

    return approve


def _transcript(store: RunStore | None, given: str | None) -> Path | None:
    """Where the conversation is written: a file that was named, or the next free one beside the run's engineer."""
    if given:
        return Path(given)
    if store is None:
        return None
    folder = store.stage(store.finished_stages() - 1).path / "engineer"
    numbers = range(1, 10_000)
    return next(path for number in numbers if not (path := folder / f"chat-{number}.jsonl").exists())
