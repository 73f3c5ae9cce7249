"""The stage loop: generate, train, validate, engineer, patch, repeat.

A stage is a function of the run's seed, the config and the checkpoint before it; everything that it draws is keyed by
purpose and stage. The engineer acts after every stage but the last. Should validation fall by more than the tolerance,
the gate writes the patch instead: back to the best config so far.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from envwright.agent.approval import make_approval
from envwright.agent.context import Bookkeeping
from envwright.agent.engineers import Engineer, make_engineer
from envwright.agent.messages import Usage
from envwright.agent.oversight import oversee
from envwright.agent.redesign import Redesign
from envwright.agent.stop import StopReason
from envwright.env.canonical import Split
from envwright.env.generator import generate
from envwright.env.instance import Instance
from envwright.env.patch import apply_patch, diff_configs
from envwright.env.rollout import Rollout, read_rollouts
from envwright.env.seeding import derive_seed
from envwright.env.summary import RolloutSummary, Tally, summarise
from envwright.env.workers import Pool
from envwright.tools.evidence import Evidence, PolicyProbe, StageRecord
from envwright.training.approval_files import read_waiting
from envwright.training.boards import check_boards_follow, fitting, met_in_order
from envwright.training.evaluation import evaluate, group_validity
from envwright.training.evidence import stage_record
from envwright.training.gate import return_to
from envwright.training.grpo import StageTraining, StepReport, train_stage
from envwright.training.memory import keep_freed_memory
from envwright.training.policies.policy import Policy, live_policy, run_policy
from envwright.training.policies.vllm_sampler import VllmEngine
from envwright.training.processes import SharedWork, is_main, num_processes, share
from envwright.training.rewards import efficiency_weight
from envwright.training.runstore import RunStore, StageFolder
from envwright.training.settings import RunSettings, WarmStartSettings
from envwright.training.sharded import is_optimizer_sharded
from envwright.training.stopping import Watch
from envwright.training.view.progress import Progress
from envwright.training.warm_start import warm_start

__all__ = ["run_stages"]


@dataclass(frozen=True, slots=True)
class _Measured:
    """One policy on fixed boards."""

    greedy: RolloutSummary
    sampled: RolloutSummary
    greedy_rollouts: list[Rollout]
    rollouts: list[Rollout]

    @classmethod
    def of(cls, greedy: list[Rollout], sampled: list[Rollout]) -> _Measured:
        return cls(summarise(greedy), summarise(sampled), greedy, sampled)


def run_stages(
    store: RunStore,
    settings: RunSettings,
    progress: Progress,
    *,
    policy: Policy | None = None,
    stop_before_engineer: int | None = None,
) -> dict[str, Any] | None:
    """Run the stages that are not finished yet, and write summary.json.

    Args:
        store: the run folder, new or with some finished stages.
        settings: the run's settings.
        progress: what a person follows.
        policy: the policy that the run begins with, where it is loaded already.
        stop_before_engineer: stop once this stage is trained and validated; see `RunStore.branch`.

    Returns:
        The content of summary.json; None when the run stopped before an engineer.
    """
    torch.set_num_threads(settings.threads)
    policy = policy or run_policy(settings)
    if policy.model.device.type == "cpu":
        keep_freed_memory()
    torch.use_deterministic_algorithms(policy.model.device.type == "cpu")  # on a GPU some operations have no deterministic form
    run = _Run(store, settings, progress, policy)
    try:
        return run.run(stop_before_engineer)
    finally:
        if run.policy.engine is not None:
            run.policy.engine.close()


class _Run:
    """The state of a running loop, all of it recoverable from the run folder."""

    def __init__(self, store: RunStore, settings: RunSettings, progress: Progress, policy: Policy) -> None:
        self.store, self.settings, self.progress, self.policy = store, settings, progress, policy
        if settings.grpo.sampler.startswith("vllm"):
            policy.engine = VllmEngine(policy, settings.grpo)
        self.optimizer_state: dict[str, Any] | None = None
        self.history: list[StageRecord] = []
        self.validation_rollouts: list[Rollout] = []
        self.stages: list[dict[str, Any]] = []
        self.config = settings.config

    def run(self, stop_before_engineer: int | None) -> dict[str, Any] | None:
        """Do what is left of the run."""
        settings = self.settings
        finished, damaged = self.store.resumable_stages()
        self.store.event("resumed" if finished else "started", engineer=settings.engineer, finished_stages=finished, damaged=damaged)
        self.progress.start(settings, self.store.path, finished)
        self.progress.damaged(damaged)
        self.validation = self._fixed_boards(Split.VALIDATION, settings.evaluation.validation_instances)
        self.heldout = self._fixed_boards(Split.BENCHMARK, settings.evaluation.heldout_instances)
        base = self._measure_heldout("base", stage=0)
        self.progress.measured("base policy on held-out boards", base.greedy, base.sampled)
        warm = self._warm_start(finished) if settings.warm_start is not None else None
        if 0 < finished < settings.num_stages:
            self._take_up_approval(finished - 1)
        for number in range(finished):
            self._recall(number)
        if finished:
            self._adopt(*self.store.stage(finished - 1).read_checkpoint(settings))
        for number in range(finished, settings.num_stages):
            if number == stop_before_engineer:
                self._trained(number, self.store.stage(number))
                return None
            self._stage(number)
        final = self._measure_heldout("final", stage=settings.num_stages - 1)
        benchmark = {"boards": len(self.heldout), "base": _tallies(base), "final": _tallies(final)}
        self.store.write("benchmark.json", benchmark)
        summary = {
            "status": "done",
            "seed": settings.seed,
            "engineer": settings.engineer,
            "base": _figures(base),
            **({} if warm is None else {"warm_start": _figures(warm)}),
            "final": _figures(final),
            "stages": self.stages,
        }
        self.store.write("summary.json", summary)
        self.store.event("finished")
        self.progress.finish(base.greedy, base.sampled, final.greedy, final.sampled, self.stages, self.store.path)
        return summary

    def _fixed_boards(self, split: Split, count: int) -> list[Instance]:
        """Boards of a split; the same for every run with these evaluation settings, whatever its seed."""
        made = generate(self.settings.evaluation.config, count, seed=0, split=split, key=("evaluation",), pool=self._pool()).instances
        kept = fitting(self.policy, made, self._longest_prompt(self.policy.max_answer_tokens))
        self.progress.left_out(len(made) - len(kept), split.value)
        return kept

    @staticmethod
    def _pool() -> Pool | None:
        """Who shares out the making of boards: the processes of one launch."""
        return SharedWork() if num_processes() > 1 else None

    def _longest_prompt(self, answer: int) -> int | None:
        """Most tokens of a prompt that leaves room for an answer."""
        grpo = self.settings.grpo
        contexts = [context for context in (self.policy.context, grpo.trl.get("vllm_max_model_length")) if isinstance(context, int)]
        return min(
            [*(context - answer for context in contexts), *([grpo.max_prompt_length] if grpo.max_prompt_length else [])], default=None
        )

    def _adopt(self, policy: Policy, optimizer_state: dict[str, Any] | None) -> None:
        """Go on with a policy that was read from a checkpoint."""
        policy.engine, self.policy.engine = self.policy.engine, None
        if policy.engine is not None:
            policy.engine.follow(policy)
        if self.policy.model.device.type == "cuda":
            self.policy.model.to("meta")  # frees its memory, whoever else may hold it
        self.policy, self.optimizer_state = policy, optimizer_state

    def _warm_start(self, finished: int) -> _Measured:
        """Fine-tune on the solver's plans, or take up what an earlier try has left, and measure."""
        folder, settings, warm = self.store.warm, self.settings, self.settings.warm_start
        assert warm is not None
        if not finished or not self._is_measured("warm"):
            if folder.trained:
                self._adopt(folder.read_checkpoint(settings)[0], None)
            else:
                self._fine_tune(folder, warm)
        measured = self._measure_heldout("warm", stage=0)
        self.progress.measured("after the warm start", measured.greedy, measured.sampled)
        return measured

    def _fine_tune(self, folder: StageFolder, warm: WarmStartSettings) -> None:
        """Do the warm start from its boards to its checkpoint."""
        settings, config = self.settings, warm.config or self.settings.config
        self.store.event("warm_start_started")
        folder.begin(config)
        made = generate(config, warm.instances, seed=settings.seed, split=Split.TRAIN, key=("warm-start",), pool=self._pool())
        boards = fitting(self.policy, made.instances, self._longest_prompt(settings.grpo.max_completion_length))
        self.progress.warm_start(config, len(boards), warm.max_steps)
        self.progress.left_out(len(made.instances) - len(boards), "warm start")
        boards = met_in_order(boards, warm.instances, seed=settings.seed, stage="warm-start")
        folder.write_instances(boards)
        steps = warm_start(
            self.policy,
            boards,
            warm,
            seed=settings.seed,
            bf16=settings.grpo.bf16,
            gradient_checkpointing=settings.grpo.gradient_checkpointing,
            on_step=lambda step: self.progress.warm_step(step, warm.max_steps),
        )
        folder.write_checkpoint(self.policy, {})
        folder.write_metrics({key: value for key, value in asdict(step).items() if key != "seconds"} for step in steps)
        folder.mark_trained()
        self.store.event("warm_start_finished")

    def _measure(self, instances: Sequence[Instance], split: Split, purpose: str, stage: int) -> _Measured:
        """Decode greedily and sample on fixed boards."""
        greedy = evaluate(self.policy, instances, stage=stage, split=split, samples=1, seed=None)
        noise = derive_seed(self.settings.seed, purpose)
        sampled = evaluate(self.policy, instances, stage=stage, split=split, samples=self.settings.evaluation.samples, seed=noise)
        return _Measured.of(greedy, sampled)

    def _measure_heldout(self, name: str, stage: int) -> _Measured:
        """Measure on the held-out boards and keep the rollouts, or take them up where an earlier try has left them."""
        if not self._is_measured(name):
            measured = self._measure(self.heldout, Split.BENCHMARK, "heldout", stage)
            self.store.write_heldout(f"{name}_greedy", measured.greedy_rollouts)
            self.store.write_heldout(f"{name}_sampled", measured.rollouts)
            return measured
        return _Measured.of(*(read_rollouts(file) for file in self._heldout_files(name)))

    def _heldout_files(self, name: str) -> list[Path]:
        return [self.store.heldout / f"{name}_{decoding}.jsonl" for decoding in ("greedy", "sampled")]

    def _is_measured(self, name: str) -> bool:
        return all(file.is_file() for file in self._heldout_files(name))

    def _stage(self, number: int) -> None:
        """Run one stage from its config to its `DONE`."""
        settings, folder, begin = self.settings, self.store.stage(number), time.monotonic()
        training, measured = self._trained(number, folder)
        self.validation_rollouts += measured.rollouts
        record = stage_record(number, self.config, measured.sampled)
        asked = time.monotonic()
        redesign = share(self._redesign(number, folder, record, training.rollouts) if is_main() else None)
        assert redesign is not None
        engineer_seconds = round(time.monotonic() - asked, 2)
        entry = self._entry(number, record, measured, training.steps, redesign)
        self.history.append(record.model_copy(update={"patch": redesign.patch}))
        folder.write_decision(entry, redesign.patch)
        folder.finish()
        self.store.retain(settings.save_total_limit)
        seconds = round(time.monotonic() - begin, 2)
        self.stages.append({**entry, "seconds": seconds})
        self.store.event("stage_finished", stage=number, seconds=seconds, engineer_seconds=engineer_seconds)
        self.progress.redesigned(redesign, last=number == settings.num_stages - 1, seconds=seconds, engineer_seconds=engineer_seconds)
        self.config = redesign.config

    def _trained(self, number: int, folder: StageFolder) -> tuple[StageTraining, _Measured]:
        """Bring a stage to where only the engineer's decision is missing: its boards, training, checkpoint and validation."""
        self.store.event("stage_started", stage=number)
        trained, step, damaged = share(self._left_behind(folder) if is_main() else (False, 0, []))
        if trained:
            return self._take_up_trained(number, folder)
        settings, begin = self.settings, time.monotonic()
        if not step:
            folder.begin(self.config)
        self.progress.stage(number, self.config, settings.instances_per_stage, self._efficiency())
        self.progress.damaged(damaged)
        if step:
            folder.go_on()
            instances = folder.read_instances()
            self.progress.resumed(step, settings.steps_per_stage)
        else:
            made = generate(
                self.config, settings.instances_per_stage, seed=settings.seed, split=Split.TRAIN, key=("stage", number), pool=self._pool()
            )
            instances = fitting(self.policy, made.instances, self._longest_prompt(settings.grpo.max_completion_length))
            folder.write_instances(instances)
            self.progress.generated(made, time.monotonic() - begin)
            self.progress.left_out(len(made.instances) - len(instances), f"stage {number}")
        if number:
            before = self.store.stage(number - 1)
            check_boards_follow(before.config(), before.read_instances(), self.config, instances)
        training = self._train(number, folder, instances, step)
        folder.write_checkpoint(self.policy, training.optimizer_state)
        folder.write_rollouts("train_rollouts", training.rollouts)
        folder.write_metrics(map(_metrics, training.steps))
        measured = self._measure(self.validation, Split.VALIDATION, "validation", number)
        folder.write_rollouts("validation_greedy", measured.greedy_rollouts)
        folder.write_rollouts("validation", measured.rollouts)
        folder.mark_trained()
        self.store.event("stage_trained", stage=number, seconds=round(time.monotonic() - begin, 2))
        self.progress.validated(measured.greedy, measured.sampled)
        self.progress.completions(measured.rollouts, settings.log_completions)
        return training, measured

    def _left_behind(self, folder: StageFolder) -> tuple[bool, int, list[str]]:
        """What an earlier try at a stage has left: whether it is trained, else the step to go on from, and what is damaged."""
        is_same = (folder.path / "config.json").is_file() and folder.config() == self.config  # an approved patch may have changed it
        if is_same and folder.trained:
            return True, 0, []
        return False, *(folder.newest_progress() if is_same else (0, []))

    def _take_up_trained(self, number: int, folder: StageFolder) -> tuple[StageTraining, _Measured]:
        """Read a stage that was trained before."""
        folder.go_on()
        policy, optimizer_state = folder.read_checkpoint(self.settings)
        self._adopt(policy, optimizer_state)
        steps = [StepReport(**line, seconds=0.0) for line in folder.read_metrics()]
        training = StageTraining(folder.read_rollouts("train_rollouts"), steps, optimizer_state, [])
        measured = _Measured.of(folder.read_rollouts("validation_greedy"), folder.read_rollouts("validation"))
        self.progress.stage(number, self.config, self.settings.instances_per_stage, self._efficiency())
        self.progress.resumed(self.settings.steps_per_stage, self.settings.steps_per_stage)
        self.progress.validated(measured.greedy, measured.sampled)
        return training, measured

    def _train(self, number: int, folder: StageFolder, instances: Sequence[Instance], done: int) -> StageTraining:
        """Train from step `done` of the stage to its end, saving on the way."""
        settings, grpo = self.settings, self.settings.grpo
        rollouts: list[Rollout] = []
        reports: list[StepReport] = []
        rng_states: list[torch.Tensor] = []
        met = met_in_order(instances, settings.steps_per_stage * grpo.boards_per_step, seed=settings.seed, stage=number)
        watch = Watch(grpo)
        if done:
            folder.forget_after(done)
            policy, optimizer_state, rng_states, rollouts, metrics = folder.read_progress(done, settings)
            self._adopt(policy, optimizer_state)
            reports = [StepReport(**line, seconds=0.0) for line in metrics]
        while done < settings.steps_per_stage:
            part_steps = settings.steps_per_stage if is_optimizer_sharded() else grpo.save_steps or settings.steps_per_stage
            end = min(done + part_steps, settings.steps_per_stage)
            part = train_stage(
                self.policy,
                met[done * grpo.boards_per_step : end * grpo.boards_per_step],
                grpo,
                stage=number,
                efficiency=self._efficiency(),
                done=done,
                first_step=number * settings.steps_per_stage,
                last_step=settings.num_stages * settings.steps_per_stage,
                seed=settings.seed,
                optimizer_state=self.optimizer_state,
                rng_states=rng_states,
                watch=watch,
                on_step=lambda report: self.progress.step(report, settings.steps_per_stage),
            )
            self.optimizer_state, rng_states, done = part.optimizer_state, part.rng_states, end
            rollouts += part.rollouts
            reports += part.steps
            if done < settings.steps_per_stage:
                folder.save_progress(done, self.policy, part.optimizer_state, part.rng_states, part.rollouts, map(_metrics, part.steps))
        return StageTraining(rollouts, reports, part.optimizer_state, part.rng_states)

    def _efficiency(self) -> float:
        """The weight of efficiency in the rewards of the stage that follows the history."""
        return efficiency_weight(self.settings.grpo, self.history[-1].validation.valid if self.history else None)

    def _redesign(self, number: int, folder: StageFolder, record: StageRecord, train_rollouts: Sequence[Rollout]) -> Redesign:
        """Ask the gate, then the engineer, for the next config."""
        if number == self.settings.num_stages - 1:
            return Redesign(None, self.config, (), StopReason.LAST_STAGE, "the run ends here: no next stage to design", Usage())
        best = max([*self.history, record], key=lambda entry: (entry.validation.valid, entry.stage))
        fall = best.validation.valid - record.validation.valid
        if fall > self.settings.gate_tolerance and diff_configs(self.config, best.config):
            return return_to(best, self.config, record, self.settings.gate_tolerance)
        self.progress.asking(self.settings.engineer)
        evidence = Evidence(
            config=self.config,
            rollouts=(*self.validation_rollouts, *train_rollouts),
            history=(*self.history, record),
            seed=derive_seed(self.settings.seed, "engineer", number),
            probe=self._probe(number),
        )
        bookkeeping = Bookkeeping(
            stage=number,
            stages=self.settings.num_stages,
            instances=self.settings.instances_per_stage,
            training={**_plain(self.settings.grpo.to_json()), "efficiency_weight_of_this_stage": self._efficiency()},
        )
        return self._engineer().design(evidence, folder.transcript, bookkeeping=bookkeeping)

    def _engineer(self) -> Engineer:
        """The engineer; `policy` is the model in training itself, as it is now."""
        settings = self.settings
        engineer = make_engineer(settings.engineer, policy=live_policy(self.policy))
        return oversee(engineer, settings.work, make_approval(settings.approval))

    def _probe(self, number: int) -> PolicyProbe:
        """The current policy, for `simulate_config`."""
        seed = derive_seed(self.settings.seed, "probe", number)

        def probe(instances: Sequence[Instance]) -> list[list[bool]]:
            return group_validity(self.policy, instances, self.settings.grpo.num_generations, seed)

        return probe

    def _entry(
        self, number: int, record: StageRecord, measured: _Measured, steps: Sequence[StepReport], redesign: Redesign
    ) -> dict[str, Any]:
        """The stage's line in summary.json, without its wall-clock time."""
        return {
            "stage": number,
            "config": record.config.to_json(),
            "efficiency_weight": round(self._efficiency(), 6),
            "train_reward": round(sum(step.reward for step in steps) / len(steps), 6),
            "validation": {
                **_rates(measured.sampled),
                "greedy": _rates(measured.greedy),
                "by_size": {bucket: _rates(tally) for bucket, tally in measured.sampled.by_size.items()},
            },
            "signal": round(sum(step.signal for step in steps) / len(steps), 6),
            "patch": None if redesign.patch is None else redesign.patch.to_json(),
            "stop_reason": redesign.stop_reason.value,
            "note": redesign.note,
            "usage": redesign.usage.to_json(),
        }

    def _take_up_approval(self, number: int) -> None:
        """Let a patch that a person approved after the run had stopped take the place of the engineer's, or of the gate's."""
        folder = self.store.stage(number)
        waiting = read_waiting(folder, "approved") if is_main() else None
        record = share(None if waiting is None or waiting.patch == folder.patch() else waiting)
        if record is None:
            return
        note = f"approved by a person, proposed by {record.engineer}: {record.patch.summary}"
        decision = {"patch": record.patch.to_json(), "stop_reason": StopReason.PATCH_ACCEPTED.value, "note": note}
        folder.write_decision({**folder.outcome(), **decision}, record.patch)
        self.store.event("approved_patch", stage=number, engineer=record.engineer)
        self.progress.say(f"   stage {number}: {note}")

    def _recall(self, number: int) -> None:
        """Take up a finished stage from its folder."""
        folder = self.store.stage(number)
        entry = folder.outcome()
        rollouts = folder.read_rollouts("validation")
        patch = folder.patch()
        self.history.append(stage_record(number, folder.config(), summarise(rollouts), patch))
        self.validation_rollouts += rollouts
        self.stages.append({**entry, "seconds": self.store.seconds(number)})
        self.config = folder.config() if patch is None else apply_patch(folder.config(), patch)


def _metrics(report: StepReport) -> dict[str, Any]:
    """A step's line in metrics.jsonl, without its wall-clock time."""
    return {key: value for key, value in asdict(report).items() if key != "seconds"}


def _rates(tally: Tally) -> dict[str, float]:
    return {"valid": round(tally.valid.rate or 0.0, 6), "optimal": round(tally.optimal.rate or 0.0, 6)}


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without groups; what is passed on to TRL stands among the others."""
    passed_on = settings.get("trl") or {}
    return {key: value for key, value in {**settings, **passed_on}.items() if isinstance(value, (int, float, str))}


def _tallies(measured: _Measured) -> dict[str, Any]:
    return {"greedy": measured.greedy.to_json(), "sampled": measured.sampled.to_json()}


def _figures(measured: _Measured) -> dict[str, Any]:
    return {"greedy": _rates(measured.greedy), "sampled": _rates(measured.sampled)}
