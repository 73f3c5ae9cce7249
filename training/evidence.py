"""Evidence for the tools, from a run folder or from anybody's files. Does not import torch until a policy is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envwright.env.config import GeneratorConfig, read_config
from envwright.env.errors import UserError
from envwright.env.instance import Instance
from envwright.env.patch import Patch
from envwright.env.rollout import Rollout, read_rollouts
from envwright.env.seeding import derive_seed
from envwright.env.summary import RolloutSummary, Tally, summarise
from envwright.tools.evidence import Evidence, PolicyProbe, Rates, StageRecord
from envwright.training.approval_files import approved_patch
from envwright.training.policies.policy import Policy
from envwright.training.runstore import RunStore

__all__ = ["file_evidence", "given_evidence", "run_evidence", "stage_record"]


def given_evidence(run: str | None, config: str | None, rollouts: str | None, seed: int = 0) -> Evidence:
    """Read the evidence that a command line names: `--run DIR`, or `--config FILE --rollouts FILE`.

    Raises:
        UserError: both are given, or neither is whole, or a file is bad.
    """
    if run and (config or rollouts):
        raise UserError("give either --run DIR or --config FILE --rollouts FILE, not both")
    if run:
        return run_evidence(RunStore.open(Path(run)))
    if not config or not rollouts:
        raise UserError("give --run DIR, or both --config FILE and --rollouts FILE")
    return file_evidence(Path(config), Path(rollouts), seed)


def stage_record(number: int, config: GeneratorConfig, sampled: RolloutSummary, patch: Patch | None = None) -> StageRecord:
    """Return what a finished stage trained on and reached, from its sampled validation rollouts."""
    by_bucket = {bucket: _rates(tally) for bucket, tally in sampled.by_size.items()}
    return StageRecord(stage=number, config=config, validation=_rates(sampled), by_bucket=by_bucket, patch=patch)


def _rates(tally: Tally) -> Rates:
    return Rates(n=tally.n, valid=tally.valid.rate or 0.0, optimal=tally.optimal.rate or 0.0)


def file_evidence(config: Path, rollouts: Path, seed: int = 0) -> Evidence:
    """Read evidence that another trainer wrote: a config and a rollout log.

    Raises:
        UserError: a file is bad; file, line, value and rule are named.
    """
    return Evidence(config=read_config(config), rollouts=tuple(read_rollouts(rollouts)), seed=seed)


def run_evidence(store: RunStore) -> Evidence:
    """Read what the engineer saw after the latest finished stage of a run, the policy to try configs on included.

    Raises:
        UserError: the run has no finished stage, or one of its files is bad.
    """
    finished = store.finished_stages()
    if finished == 0:
        raise UserError(f"{store.path}: no stage is finished yet; wait for it, or continue the run with --resume")
    settings = store.settings()
    history: list[StageRecord] = []
    rollouts: list[Rollout] = []
    for number in range(finished):
        folder = store.stage(number)
        validation = folder.read_rollouts("validation")
        rollouts += validation
        history.append(stage_record(number, folder.config(), summarise(validation), approved_patch(folder) or folder.patch()))
    latest = finished - 1
    rollouts += store.stage(latest).read_rollouts("train_rollouts")
    return Evidence(
        config=history[-1].config,
        rollouts=tuple(rollouts),
        history=tuple(history),
        seed=derive_seed(settings.seed, "engineer", latest),
        probe=_lazy_probe(store, latest, settings.grpo.num_generations, derive_seed(settings.seed, "probe", latest), settings.threads),
    )


def _lazy_probe(store: RunStore, stage: int, num_generations: int, seed: int, threads: int) -> PolicyProbe:
    """A probe that loads the stage's checkpoint when it is first asked."""
    loaded: list[Policy] = []

    def probe(instances: Sequence[Instance]) -> list[list[bool]]:
        import torch

        from envwright.training.evaluation import group_validity

        torch.set_num_threads(threads)
        if not loaded:
            loaded.append(store.stage(stage).read_checkpoint(store.settings())[0])
        return group_validity(loaded[0], instances, num_generations, seed)

    return probe
