"""The commands of the engineer: redesign and tool. They do not import torch unless a run's policy is asked."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from envwright.agent.engineers import make_engineer
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, parse_json, read_text, write_json
from envwright.tools.registry import Toolbox, tool_specs
from envwright.training.evidence import file_evidence, given_evidence

__all__ = ["redesign", "tool"]


def redesign(arguments: argparse.Namespace) -> int:
    """`envwright redesign`"""
    if not arguments.config or not arguments.rollouts:
        raise UserError("give both --config FILE and --rollouts FILE")
    engineer = make_engineer(arguments.engineer)
    engineer.check()
    evidence = file_evidence(Path(arguments.config), Path(arguments.rollouts), arguments.seed)
    result = engineer.design(evidence, Path(arguments.transcript) if arguments.transcript else None)
    patch = None if result.patch is None else result.patch.to_json()
    if arguments.out and patch is not None:
        write_json(Path(arguments.out), patch)
    if arguments.json:
        print(dump_json(result.to_json()))
        return 0
    if result.patch is None:
        print(f"no patch ({result.stop_reason}): {result.note}")
        if arguments.out:
            print(f"{arguments.out} was not written", file=sys.stderr)
        return 0
    print(f"patch ({result.stop_reason}): {result.patch.summary}")
    reasons = {edit.path: edit for edit in result.patch.edits}
    for change in result.diff:
        edit = reasons.get(change.path)
        cited = f" [{', '.join(edit.evidence)}]" if edit is not None and edit.evidence else ""
        reason = edit.reason if edit is not None else "scaled so that the shares sum to 1"
        print(f"  {change.path:<22} {change.before:.3f} -> {change.after:.3f}   {reason}{cited}")
    print(f"written to {arguments.out}" if arguments.out else "write it with --out FILE")
    return 0


def tool(arguments: argparse.Namespace) -> int:
    """`envwright tool`"""
    if arguments.list_tools:
        return _list_tools(as_json=arguments.json)
    if arguments.name is None:
        raise UserError("name a tool, or list them with --list")
    toolbox = Toolbox(given_evidence(arguments.run, arguments.config, arguments.rollouts, arguments.seed))
    if arguments.name not in toolbox.names:
        raise UserError(f"no tool {arguments.name!r}; the tools are {', '.join(toolbox.names)}")
    text = read_text(Path(arguments.args[1:])) if arguments.args.startswith("@") else arguments.args
    value = parse_json(text, "--args")
    if not isinstance(value, dict):
        raise UserError(f"--args must be a JSON object, got {type(value).__name__}")
    result = toolbox.call(arguments.name, value)
    if result.error is not None:
        raise UserError(f"{result.error.code}: {result.error.message}")
    print(dump_json(result.content, indent=None if arguments.json else 2))
    return 0


def _list_tools(*, as_json: bool) -> int:
    specs: list[dict[str, Any]] = tool_specs()
    if as_json:
        print(dump_json(specs))
        return 0
    for spec in specs:
        function = spec["function"]
        required = function["parameters"].get("required", [])
        names = [name if name in required else f"[{name}]" for name in function["parameters"]["properties"]]
        print(f"{function['name']}({', '.join(names)})\n    {function['description']}")
    return 0
