"""The commands that train and measure: run, evaluate, policy, presets."""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from pathlib import Path

from envwright.agent.approval import make_approval
from envwright.agent.engineers import make_engineer
from envwright.agent.oversight import oversee
from envwright.agent.policy_model import LivePolicy
from envwright.env.canonical import Split
from envwright.env.cells import FRAME
from envwright.env.errors import MissingExtraError, UserError
from envwright.env.instance import board_split
from envwright.env.jsonio import dump_json, write_json_lines
from envwright.training.commands_grade import boards_and_cells, print_report
from envwright.training.policies.policy import is_pocket
from envwright.training.policies.vllm_sampler import check_vllm
from envwright.training.runstore import RunStore
from envwright.training.settings import RunSettings, list_presets, load_settings
from envwright.training.sharded import check_sharding
from envwright.training.view.tracking import check_trackers

__all__ = ["check_machine", "check_plan", "evaluate", "policy", "presets", "run"]


def _say(line: str) -> None:
    print(line, flush=True)


def _need_torch(purpose: str) -> None:
    """Refuse with one line when the training extra is not installed."""
    try:
        import datasets  # noqa: F401  # only asks whether it is there
        import torch  # noqa: F401
        import transformers
        import trl  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "train", purpose) from None
    warnings.filterwarnings("ignore", module=r"(trl|transformers|torch|accelerate|datasets)\b")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def run(arguments: argparse.Namespace) -> int:
    """`envwright run`"""
    settings = load_settings(arguments.settings, arguments.overrides, arguments.engineer)
    pocket = is_pocket(settings.policy)
    check_plan(settings)
    if arguments.dry_run:
        print(dump_json(settings.to_json(), indent=2))
        if importlib.util.find_spec("torch") is not None:
            _need_torch("envwright run --dry-run")
        from envwright.training.estimate import estimate

        for line in estimate(settings):
            print(line)
        return 0
    check_machine(settings)
    _need_torch("envwright run")
    from envwright.training.policies.policy import live_policy, run_policy
    from envwright.training.stages import run_stages
    from envwright.training.trl_config import check_passed_on
    from envwright.training.view.live_view import follow

    check_passed_on(settings.grpo)
    policy = run_policy(settings)  # refuses a bad checkpoint before the folder is made
    if not pocket and settings.engineer == "policy":
        _check_engineer(settings, live_policy(policy))
    out = Path(arguments.out) if arguments.out else Path("runs") / _run_name(arguments.settings, settings)
    store = RunStore.resume(out, settings) if arguments.resume else RunStore.create(out, settings, policy.provenance())
    with follow(_say, settings.report_to) as progress:
        run_stages(store, settings, progress, policy=policy)
    return 0


def check_plan(settings: RunSettings) -> None:
    """Refuse what no machine can run: boards that the policy cannot name, an engineer that cannot work.

    Raises:
        UserError: names it and what to do.
    """
    pocket = is_pocket(settings.policy)
    if pocket:
        _check_sizes(settings)
    if pocket or settings.engineer != "policy":
        _check_engineer(settings, None)


def check_machine(settings: RunSettings) -> None:
    """Refuse what this machine, or this launch, lacks: vLLM, trackers, whole weights.

    Raises:
        UserError: names it and what to do.
    """
    check_vllm(settings.grpo)
    check_sharding(settings, is_pocket=is_pocket(settings.policy))
    check_trackers(settings.report_to)


def _check_engineer(settings: RunSettings, policy: LivePolicy | None) -> None:
    """Find out, before any work is done, whether the engineer can work."""
    oversee(make_engineer(settings.engineer, policy=policy), settings.work, make_approval(settings.approval)).check()


def _run_name(source: str, settings: RunSettings) -> str:
    """A folder name without colons or slashes, which some systems cannot hold."""
    engineer = "".join(char if char.isalnum() or char in "._-" else "-" for char in settings.engineer)
    return f"{Path(source).stem}-{engineer}-seed{settings.seed}"


def _check_sizes(settings: RunSettings) -> None:
    """Refuse boards that the pocket policy cannot name, before any work is done."""
    for config in (settings.config, settings.evaluation.config):
        large = [bucket for bucket in config.sizes if int(bucket) > FRAME]
        if large:
            raise UserError(f"the pocket policy knows boards up to {FRAME}x{FRAME}; take size {large[0]} out of the config")
    if settings.config.num_agents > 5 or settings.evaluation.config.num_agents > 5:
        raise UserError("the pocket policy knows up to 5 agents; lower num_agents")


def evaluate(arguments: argparse.Namespace) -> int:
    """`envwright evaluate`"""
    for name, value in (("--samples", arguments.samples), ("--seed", arguments.seed)):
        if value < 0:
            raise UserError(f"{name} must be at least 0, got {value}")
    if arguments.threads < 1:
        raise UserError(f"--threads must be at least 1, got {arguments.threads}")
    instances, cells = boards_and_cells(arguments.instances)
    _need_torch("envwright evaluate")
    import torch

    from envwright.training.evaluation import evaluate as run_policy
    from envwright.training.policies.policy import load_policy

    torch.set_num_threads(arguments.threads)
    seed = arguments.seed if arguments.samples else None
    rollouts = run_policy(load_policy(arguments.policy), instances, stage=0, split=Split.BENCHMARK, samples=arguments.samples, seed=seed)
    rollouts = [rollout.model_copy(update={"split": board_split(rollout.instance)}) for rollout in rollouts]
    if arguments.out:
        write_json_lines(Path(arguments.out), (rollout.to_json() for rollout in rollouts))
    print_report(rollouts, cells, as_json=arguments.json, reported=arguments.reported)
    return 0


def policy(arguments: argparse.Namespace) -> int:
    """`envwright policy make-base`"""
    out = Path(arguments.out)
    if out.exists() and any(out.iterdir()):
        raise UserError(f"{out} exists already; choose another folder with --out")
    for name, value, least in (("--steps", arguments.steps, 1), ("--seed", arguments.seed, 0), ("--threads", arguments.threads, 1)):
        if value is not None and value < least:
            raise UserError(f"{name} must be at least {least}, got {value}")
    _need_torch("envwright policy make-base")
    from envwright.training.policies.base import BASE_STEPS, make_base

    make_base(out, steps=arguments.steps or BASE_STEPS, seed=arguments.seed, threads=arguments.threads, say=_say)
    _say(f"base checkpoint in {out}; use it with --policy {out} or --set policy={out}")
    return 0


def presets(_: argparse.Namespace) -> int:
    """`envwright presets`"""
    for name, description in list_presets().items():
        print(f"{name:<10} {description}")
    return 0
