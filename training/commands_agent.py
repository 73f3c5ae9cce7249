"""The commands of the engineer: redesign and tool. They do not import torch unless a run's policy is asked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envwright.agent.approval import make_approval
from envwright.agent.chat_view import patch_lines
from envwright.agent.context_modules import parse_context
from envwright.agent.engineers import make_engineer
from envwright.agent.guardrails import read_guard_rails
from envwright.agent.oversight import oversee
from envwright.agent.redesign import Redesign
from envwright.agent.stop import StopReason
from envwright.agent.visible import visible
from envwright.agent.work_settings import WorkSettings
from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, parse_json, read_text, write_json
from envwright.env.patch import PatchCheck
from envwright.tools.registry import Toolbox, tool_specs
from envwright.training.evidence import file_evidence, given_evidence

__all__ = ["redesign", "tool", "work_of"]

_WIDTH = 100
"""Columns of what is printed about a patch."""


def redesign(arguments: argparse.Namespace) -> int:
    """`envwright redesign`"""
    if not arguments.config or not arguments.rollouts:
        raise UserError("give both --config FILE and --rollouts FILE")
    engineer = oversee(make_engineer(arguments.engineer), work_of(arguments), make_approval(arguments.approval or "auto"))
    engineer.check()
    evidence = file_evidence(Path(arguments.config), Path(arguments.rollouts), arguments.seed)
    result = engineer.design(evidence, Path(arguments.transcript) if arguments.transcript else None)
    patch = None if result.patch is None else result.patch.to_json()
    if arguments.out and patch is not None:
        write_json(Path(arguments.out), patch)
    if arguments.json:
        print(dump_json(result.to_json()))
    else:
        print("\n".join(_told(result)))
        if patch is not None:
            print(f"written to {arguments.out}" if arguments.out else "write it with --out FILE")
    if result.stop_reason is StopReason.MODEL_ERROR:
        print(f"envwright redesign: {visible(result.note)}; the config stays as it is", file=sys.stderr)
        return 1
    if arguments.out and patch is None and not arguments.json:
        print(f"{arguments.out} was not written", file=sys.stderr)
    return 0


def work_of(arguments: argparse.Namespace) -> WorkSettings:
    """Return how the engineer works, from a command's options; an option that the command does not have counts as not given."""
    raw: dict[str, Any] = {}
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    if "context" in given:
        raw["context"] = parse_context(given["context"]).spec
    if "engineering" in given:
        raw["engineering"] = given["engineering"]
    if "guard_rails" in given:
        raw["guard_rails"] = None if given["guard_rails"] == "off" else read_guard_rails(Path(given["guard_rails"])).to_json()
    return WorkSettings.parse(raw, "the engineer's options")


def _told(result: Redesign) -> Iterator[str]:
    """Say what became of the config; a model's words are shown, control characters never carried out."""
    if result.patch is None:
        yield f"no patch ({result.stop_reason}): {visible(result.note)}"
        return
    yield f"patch ({result.stop_reason}):"
    yield from patch_lines(
        PatchCheck(accepted=True, warnings=result.warnings, diff=result.diff, config=result.config, patch=result.patch), _WIDTH
    )


def tool(arguments: argparse.Namespace) -> int:
    """`envwright tool`"""
    if arguments.list_tools:
        return _list_tools(as_json=arguments.json)
    if arguments.name is None:
        raise UserError("name a tool, or list them with --list")
    toolbox = Toolbox(given_evidence(arguments.run, arguments.config, arguments.rollouts, arguments.seed), one_shot=True)
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
