"""The command line: `envwright COMMAND ...`.

This file holds the parser and the error channel alone; a command's work is in `commands_env`, `commands_agent` and
`commands_run`, imported when it is called, so that light commands stay light. Exit codes: 0 done, 1 the job failed,
2 usage or bad input, with one line on stderr that says what to do.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from envwright import __version__
from envwright.env.errors import UserError

__all__ = ["main"]

ENGINEER_HELP = "who redesigns: rule, fixed, random, learnability, openai:MODEL (set OPENAI_BASE_URL for a local server), replay:TRANSCRIPT"


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="envwright", description="An environment engineer redesigns the training environment between the stages of an RL run."
    )
    parser.add_argument("--version", action="version", version=f"envwright {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    def command(name: str, handler: str, text: str) -> _Parser:
        added = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        added.set_defaults(handler=handler)
        return added

    _add_run_commands(command)
    _add_agent_commands(command)
    _add_env_commands(command)
    return parser


_Add = Callable[[str, str, str], _Parser]


def _add_run_commands(command: _Add) -> None:
    run = command("run", "commands_run:run", "train in stages, with an engineer in between")
    run.add_argument("settings", metavar="PRESET|FILE", help="a preset (see `envwright presets`) or a settings file")
    run.add_argument("--out", metavar="DIR", help="run folder (default: runs/PRESET-ENGINEER-seedN)")
    run.add_argument("--engineer", metavar="SPEC", help=ENGINEER_HELP)
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change a setting, such as grpo.learning_rate=1e-4",
    )
    run.add_argument("--resume", action="store_true", help="continue the run in the folder after its last finished stage")
    run.add_argument("--dry-run", action="store_true", help="print the resolved settings and stop")

    evaluate = command("evaluate", "commands_run:evaluate", "run a policy on instances and grade it")
    evaluate.add_argument("--policy", required=True, metavar="SPEC", help="pocket, or the folder of a checkpoint")
    evaluate.add_argument("--instances", required=True, metavar="FILE|benchmark", help="an instance file, or the zero-shot benchmark grid")
    evaluate.add_argument(
        "--samples", type=int, default=0, metavar="K", help="completions sampled per board (default 0: one greedy completion)"
    )
    evaluate.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the sampling noise")
    evaluate.add_argument("--threads", type=int, default=1, metavar="T", help="CPU threads")
    evaluate.add_argument("-o", "--out", metavar="FILE", help="write the rollouts")
    evaluate.add_argument("--json", action="store_true", help="print one JSON document")

    policy = command("policy", "commands_run:policy", "make the pocket policy's base checkpoint")
    policy.add_argument("action", choices=["make-base"])
    policy.add_argument("--out", required=True, metavar="DIR", help="checkpoint folder to write")
    policy.add_argument("--steps", type=int, metavar="N", help="optimizer steps (default: those of the shipped checkpoint)")
    policy.add_argument("--seed", type=int, default=0, metavar="S", help="seed of weights and demonstrations")
    policy.add_argument("--threads", type=int, default=1, metavar="T", help="CPU threads (the shipped checkpoint: 1)")

    command("presets", "commands_run:presets", "list the presets")


def _add_evidence(parser: _Parser) -> None:
    parser.add_argument("--config", metavar="FILE", help="the current config")
    parser.add_argument("--rollouts", metavar="FILE", help="a rollout log (JSON Lines)")


def _add_agent_commands(command: _Add) -> None:
    redesign = command("redesign", "commands_agent:redesign", "get a patch for anybody's config from a rollout log")
    _add_evidence(redesign)
    redesign.add_argument("--engineer", default="rule", metavar="SPEC", help=ENGINEER_HELP)
    redesign.add_argument("--seed", type=int, default=0, metavar="S", help="seed of what tools sample")
    redesign.add_argument("--out", metavar="FILE", help="write the patch")
    redesign.add_argument("--transcript", metavar="FILE", help="write the engineer's conversation")
    redesign.add_argument("--json", action="store_true", help="print one JSON document")

    tool = command("tool", "commands_agent:tool", "call one of the engineer's tools")
    tool.add_argument("name", nargs="?", metavar="NAME", help="failure_breakdown, env_stats, sample_maps, simulate_config or propose_patch")
    tool.add_argument("--list", action="store_true", dest="list_tools", help="list the tools; with --json their OpenAI-style specs")
    tool.add_argument("--run", metavar="DIR", help="a run folder: evidence of its latest finished stage")
    _add_evidence(tool)
    tool.add_argument("--args", default="{}", metavar="JSON", help="the tool's arguments, as JSON or @FILE")
    tool.add_argument("--seed", type=int, default=0, metavar="S", help="seed of what tools sample")
    tool.add_argument("--json", action="store_true", help="print one JSON document")


def _add_env_commands(command: _Add) -> None:
    generate = command("generate", "commands_env:generate", "make instances that follow a config")
    generate.add_argument("--config", required=True, metavar="FILE", help="the config")
    generate.add_argument("-n", type=int, required=True, metavar="N", help="number of instances")
    generate.add_argument("--seed", type=int, default=0, metavar="S", help="seed")
    generate.add_argument("--split", default="train", choices=["train", "validation", "benchmark"], help="split that the boards belong to")
    generate.add_argument("-o", "--out", required=True, metavar="FILE", help="instance file to write")

    solve = command("solve", "commands_env:solve", "solve instances optimally")
    solve.add_argument("file", metavar="FILE", help="instance file; only size, holes, starts and goals are required of a line")
    solve.add_argument("--time-limit", type=float, metavar="S", help="seconds per board (default: no limit)")
    solve.add_argument("--json", action="store_true", help="print one JSON document")

    show = command("show", "commands_env:show", "draw instances and plans as text")
    show.add_argument("file", metavar="FILE", help="instance file or rollout file")
    show.add_argument("--id", metavar="ID", help="the instance to draw (default: the first)")
    show.add_argument("--completion", metavar="TEXT", help="a completion to draw and judge (default: an optimal plan)")

    grade = command("grade", "commands_env:grade", "grade completions")
    grade.add_argument("--rollouts", required=True, metavar="FILE", help="a rollout log (JSON Lines)")
    grade.add_argument("-o", "--out", metavar="FILE", help="write the graded rollouts")
    grade.add_argument("--json", action="store_true", help="print one JSON document")

    schema = command("schema", "commands_env:schema", "print the JSON Schema of a file format")
    schema.add_argument("name", choices=["config", "patch", "instance", "rollout"])


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads starve a busy machine; must be set before torch is imported
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    arguments = _parser().parse_args(argv)
    module, _, function = arguments.handler.partition(":")
    try:
        code: int = getattr(importlib.import_module(f"envwright.training.{module}"), function)(arguments)
        sys.stdout.flush()
    except UserError as error:
        print(f"envwright {arguments.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except FloatingPointError as error:
        print(f"envwright {arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"envwright {arguments.command}: interrupted; finished work is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
