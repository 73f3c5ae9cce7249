"""The command `mcp`: the engineer's tools for any MCP client, on stdin and stdout. Does not import torch unless a run's policy is asked."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from envwright.agent.approval import Reviewer
from envwright.env.jsonio import write_json
from envwright.env.patch import Patch, PatchCheck
from envwright.tools.mcp_server import OnAccepted, make_server, serve
from envwright.tools.registry import Toolbox
from envwright.training.approval_files import Status, has_next_stage, write_waiting
from envwright.training.commands_agent import work_of
from envwright.training.evidence import given_evidence
from envwright.training.runstore import RunStore

__all__ = ["mcp"]


def mcp(arguments: argparse.Namespace) -> int:
    """`envwright mcp`"""
    evidence = given_evidence(arguments.run, arguments.config, arguments.rollouts, arguments.seed)
    server = make_server(Toolbox(evidence, review=Reviewer(work_of(arguments).guard_rails)), _recorder(arguments))
    where = arguments.run or arguments.rollouts
    print(f"envwright mcp: serving {len(evidence.rollouts)} rollouts of {where} on stdin and stdout; end with Ctrl-D", file=sys.stderr)
    serve(server)
    return 0


def _recorder(arguments: argparse.Namespace) -> OnAccepted:
    """Return what records accepted proposals: as proposed, or as approved with `--approval auto`."""
    status: Status = "approved" if arguments.approval == "auto" else "proposed"
    store = RunStore.open(Path(arguments.run)) if arguments.run else None

    def record(check: PatchCheck) -> str:
        if check.patch is None:
            raise ValueError("an accepted proposal has a patch")
        told = _recorded(check.patch, status, store, arguments.out)
        print(f"envwright mcp: {told}", file=sys.stderr)
        return told

    return record


def _recorded(patch: Patch, status: Status, store: RunStore | None, out: str | None) -> str:
    """Write an accepted proposal where it belongs, and say where and what it means."""
    told = "approved by --approval auto" if status == "approved" else "proposed; nothing is applied until a person approves it"
    if out is not None:
        write_json(Path(out), patch.to_json())
        return f"{told}. The patch is in {out}"
    if store is None:
        return f"{told}. It is written nowhere: start the server with --out FILE"
    if not has_next_stage(store):
        return f"{told}. It is written nowhere: every stage of the run is finished; start the server with --out FILE"
    path = write_waiting(store, status, patch, "mcp")
    how = (
        "the run takes it up with --resume"
        if status == "approved"
        else f"look at it and approve it with `envwright chat --run {store.path}`"
    )
    return f"{told}. The patch is in {path}: {how}"
