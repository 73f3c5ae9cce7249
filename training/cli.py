"""The command line: `envwright COMMAND ...`.

This file holds the parser and the error channel alone; a command's work is in `commands_env`, `commands_grade`, `commands_agent`
and `commands_run`, imported when it is called, so that light commands stay light. Exit codes: 0 done, 1 the job failed,
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
from envwright.env.errors import JobFailedError, UserError

__all__ = ["main"]

ENGINEER_HELP = (
    "who redesigns: rule, openai:MODEL (set OPENAI_BASE_URL for a local server), local:PATH or local:smollm2, vllm:PATH, policy, replay:TRANSCRIPT; "
    "baselines: fixed, random, random:kept, uniform, easy-to-hard, learnability, oracle"
)

GUARD_RAILS_HELP = "bounds on a patch, as JSON (default: warns of more than 8 knobs, long steps, a starved size)"

REPORTED_HELP = "show the figures that the paper reports on its own boards below"


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
    _add_report_command(command)
    _add_compare_commands(command)
    _add_agent_commands(command)
    _add_session_commands(command)
    _add_env_commands(command)
    return parser


_Add = Callable[[str, str, str], _Parser]


_WORK_OPTIONS = {
    "context": ("MODULES", "what the engineer is shown: V1 to V6 (default V6), or modules such as F,G,H"),
    "engineering": ("HOW", "agent: with tools (default); direct: one answer, a patch; direct-config: one answer, the whole config"),
    "approval": ("WHO", "who has the last word on a patch: auto (default), human (asks here), or a JSON file of guard rails"),
}
"""Options of an engineer at work -> metavar and help; `run` keeps them as settings of the same name."""


def _as_override(setting: str) -> Callable[[str], str]:
    """Turn an option's value into what `--set` takes."""

    def override(text: str) -> str:
        return f"{setting}={text}"

    return override


def _add_run_commands(command: _Add) -> None:
    run = command("run", "commands_run:run", "train in stages, with an engineer in between")
    run.add_argument("settings", metavar="PRESET|FILE", help="a preset (see `envwright presets`) or a settings file")
    run.add_argument("--out", metavar="DIR", help="run folder (default: runs/PRESET-ENGINEER-seedN)")
    run.add_argument("--engineer", metavar="SPEC", help=ENGINEER_HELP)
    for name, (metavar, text) in _WORK_OPTIONS.items():
        setting = name.replace("-", "_")
        run.add_argument(f"--{name}", action="append", default=[], dest="overrides", type=_as_override(setting), metavar=metavar, help=text)
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change a setting, such as grpo.learning_rate=1e-4",
    )
    run.add_argument("--resume", action="store_true", help="continue the run in the folder from its newest whole checkpoint")
    run.add_argument("--dry-run", action="store_true", help="print the resolved settings and stop")

    evaluate = command("evaluate", "commands_run:evaluate", "run a policy on instances and grade it")
    evaluate.add_argument("--policy", required=True, metavar="SPEC", help="pocket, or the folder of a checkpoint")
    evaluate.add_argument(
        "--instances",
        required=True,
        metavar="FILE|benchmark",
        help="an instance file; benchmark: the paper's zero-shot grid; in-distribution: 2 agents",
    )
    evaluate.add_argument("--reported", action="store_true", help=REPORTED_HELP)
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


def _add_compare_commands(command: _Add) -> None:
    compare = command("compare", "commands_compare:compare", "compare engineers, or settings, at equal budget over several seeds")
    compare.add_argument("settings", nargs="?", metavar="PRESET|FILE", help="a preset (see `envwright presets`) or a settings file")
    compare.add_argument("--engineers", metavar="A,B,...", help="an arm for each engineer; see `envwright run --help`")
    compare.add_argument(
        "--arm",
        action="append",
        default=[],
        dest="arms",
        metavar="NAME:KEY=VALUE[,KEY=VALUE]",
        help="an arm that is settings, such as valid-only:grpo.efficiency_weight=0; engineer is such a key too; may be repeated",
    )
    compare.add_argument("--seeds", metavar="0,1,2", help="seeds, the same for every arm: differences are paired by them")
    compare.add_argument("--baseline", metavar="NAME", help="arm that differences are taken against (default: fixed, else the first)")
    compare.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help="change a setting of all arms")
    compare.add_argument("--out", metavar="DIR", help="folder of the comparison (default: runs/compare-PRESET)")
    compare.add_argument("--resume", action="store_true", help="continue the comparison in the folder; arms and seeds may be added")
    compare.add_argument("--jobs", type=int, metavar="N", help="runs at a time (default: as many as the cores hold)")
    compare.add_argument("--threads", type=int, metavar="T", help="CPU threads of every run (default: as the settings say)")
    compare.add_argument("--dry-run", action="store_true", help="print what would run, and stop")
    compare.add_argument("--json", action="store_true", help="print comparison.json")
    compare.add_argument(
        "--from-evidence",
        metavar="DIR",
        help="train nothing: let --engineers redesign a recorded run (or a folder of runs), and simulate their patches",
    )
    compare.add_argument(
        "--boards", type=int, metavar="N", help="with --from-evidence: boards per size that patches are tried on (default: 48)"
    )


def _add_report_command(command: _Add) -> None:
    report = command("report", "commands_report:report", "write the page of a run or a comparison, with its plots")
    report.add_argument("folder", metavar="DIR", help="a run folder or a comparison's folder")
    report.add_argument(
        "--out", metavar="FILE", help="the page, an .html file (default: DIR/report.html); its plots go into a folder of that name"
    )
    report.add_argument("--json", action="store_true", help="print one JSON document")


def _add_evidence(parser: _Parser) -> None:
    parser.add_argument("--config", metavar="FILE", help="the current config")
    parser.add_argument("--rollouts", metavar="FILE", help="a rollout log (JSON Lines)")


def _add_agent_commands(command: _Add) -> None:
    redesign = command("redesign", "commands_agent:redesign", "get a patch for anybody's config from a rollout log")
    _add_evidence(redesign)
    redesign.add_argument("--engineer", default="rule", metavar="SPEC", help=ENGINEER_HELP)
    for name, (metavar, text) in _WORK_OPTIONS.items():
        redesign.add_argument(f"--{name}", metavar=metavar, help=text)
    redesign.add_argument("--guard-rails", metavar="FILE|off", help=GUARD_RAILS_HELP)
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


def _add_session_commands(command: _Add) -> None:
    chat = command("chat", "commands_chat:chat", "talk to an engineer over a run's evidence, and approve its patches")
    chat.add_argument("--run", metavar="DIR", help="a run folder: evidence of its latest finished stage")
    _add_evidence(chat)
    chat.add_argument("--engineer", default="rule", metavar="SPEC", help=ENGINEER_HELP)
    chat.add_argument("--seed", type=int, default=0, metavar="S", help="seed of what tools sample")
    chat.add_argument("--context", metavar=_WORK_OPTIONS["context"][0], help=_WORK_OPTIONS["context"][1])
    chat.add_argument("--guard-rails", metavar="FILE|off", help=GUARD_RAILS_HELP)
    chat.add_argument("--load", metavar="FILE", help="go on with a saved conversation")
    chat.add_argument("--out", metavar="FILE", help="write an approved patch here (default with --run: where the run takes it up)")
    chat.add_argument("--transcript", metavar="FILE", help="write the conversation (default: into the run folder, or not at all)")

    mcp = command("mcp", "commands_mcp:mcp", "serve the engineer's tools to an MCP client, on stdin and stdout")
    mcp.add_argument("--run", metavar="DIR", help="a run folder: evidence of its latest finished stage")
    _add_evidence(mcp)
    mcp.add_argument("--seed", type=int, default=0, metavar="S", help="seed of what tools sample")
    mcp.add_argument("--guard-rails", metavar="FILE|off", help=GUARD_RAILS_HELP)
    mcp.add_argument(
        "--approval",
        default="human",
        choices=["human", "auto"],
        help="human (default): accepted patches are proposals, for `envwright chat` to approve; auto: they are approved as they come",
    )
    mcp.add_argument("--out", metavar="FILE", help="write accepted patches here (default with --run: into the run folder)")


def _add_env_commands(command: _Add) -> None:
    generate = command("generate", "commands_env:generate", "make instances that follow a config")
    generate.add_argument("--config", required=True, metavar="FILE", help="the config")
    generate.add_argument("-n", type=int, required=True, metavar="N", help="number of instances")
    generate.add_argument("--seed", type=int, default=0, metavar="S", help="seed")
    generate.add_argument("--split", default="train", choices=["train", "validation", "benchmark"], help="split that the boards belong to")
    generate.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="W",
        help="processes that share the work (default 1); the boards are the same for any number",
    )
    generate.add_argument("-o", "--out", required=True, metavar="FILE", help="instance file to write")

    solve = command("solve", "commands_env:solve", "solve instances optimally")
    solve.add_argument("file", metavar="FILE", help="instance file; only size, holes, starts and goals are required of a line")
    solve.add_argument("--time-limit", type=float, metavar="S", help="seconds per board (default: no limit)")
    solve.add_argument(
        "--objective",
        default="sum_of_costs",
        choices=["sum_of_costs", "makespan"],
        help="what to minimise; the other one breaks ties (default: sum_of_costs)",
    )
    solve.add_argument("--check", action="store_true", help="prove the labels that the lines give; a wrong one ends with exit code 2")
    solve.add_argument("--json", action="store_true", help="print one JSON document")

    show = command("show", "commands_env:show", "draw a board and a plan in the terminal, or as a picture")
    show.add_argument("file", metavar="FILE", help="instance file or rollout file")
    show.add_argument("--id", metavar="ID", help="the instance to draw (default: the first)")
    show.add_argument("--completion", metavar="TEXT", help="a completion to draw and judge (default: the one recorded, or an optimal plan)")
    show.add_argument("--step", type=int, metavar="T", help="draw timestep T alone")
    show.add_argument("--strip", action="store_true", help="with -o FILE.png or .svg: draw all timesteps side by side")
    show.add_argument("-o", "--out", metavar="FILE", help="write a picture: .png or .svg (the plan at a glance), or .gif (animated)")

    grade = command("grade", "commands_grade:grade", "grade completions")
    grade.add_argument("--rollouts", required=True, metavar="FILE", help="a rollout log (JSON Lines)")
    grade.add_argument(
        "--instances", metavar="FILE|benchmark", help="the benchmark that the boards are of: the table then has its wait-ratio sets"
    )
    grade.add_argument("--reported", action="store_true", help=REPORTED_HELP)
    grade.add_argument("-o", "--out", metavar="FILE", help="write the graded rollouts")
    grade.add_argument("--json", action="store_true", help="print one JSON document")

    benchmark = command("benchmark", "commands_grade:benchmark", "make the benchmark's boards, the same every time")
    benchmark.add_argument("action", choices=["make"])
    benchmark.add_argument("-o", "--out", required=True, metavar="FILE", help="instance file to write; its cells go to FILE.manifest.json")
    benchmark.add_argument(
        "--set",
        default="paper",
        choices=["paper", "in-distribution"],
        help="the paper's grid of 3, 4 and 5 agents (default), or 2 agents, as in training",
    )
    benchmark.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default 1); the boards are the same")
    benchmark.add_argument("--json", action="store_true", help="print the manifest as one JSON document")

    _add_format_commands(command)

    schema = command("schema", "commands_env:schema", "print the JSON Schema of a file format")
    schema.add_argument("name", choices=["config", "patch", "instance", "rollout"])


def _add_format_commands(command: _Add) -> None:
    imports = command("import", "commands_formats:import_boards", "make instances of a MovingAI map and scenario")
    imports.add_argument(
        "--map", required=True, metavar="FILE", help="the .map file (type octile, up to 64x64; padded to a square with holes)"
    )
    imports.add_argument("--scen", required=True, metavar="FILE", help="the .scen file")
    imports.add_argument("--agents", type=int, metavar="K", help="agents per board, 1 to 30 (default: all lines of the scenario)")
    imports.add_argument("-n", type=int, default=1, metavar="N", help="boards: lines 1 to K of the scenario, K+1 to 2K, ... (default 1)")
    imports.add_argument("--time-limit", type=float, metavar="S", help="seconds per board for the exact labels (default: no limit)")
    imports.add_argument("-o", "--out", required=True, metavar="FILE", help="instance file to write")

    exports = command("export", "commands_formats:export_boards", "write instances in another format")
    exports.add_argument("file", metavar="FILE", help="instance file")
    exports.add_argument("--format", required=True, choices=["movingai", "jsonl", "hf"], help="hf: a Hugging Face datasets folder")
    exports.add_argument("--split", choices=["train", "validation", "benchmark"], help="only boards of this split")
    exports.add_argument("--size", type=int, action="append", metavar="N", help="only NxN boards; may be repeated")
    exports.add_argument("--out", required=True, metavar="DIR", help="folder to make")


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
    except JobFailedError as error:
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
