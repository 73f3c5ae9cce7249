"""One stage of GRPO with TRL's GRPOTrainer.

The trainer owns the loss, the advantages and the optimizer step; envwright gives it the boards, the reward and, unless vLLM or
transformers' `generate` is asked for, the sampler (through `rollout_func`: the prompt is prefilled once per group), and keeps
every rollout. Adam's state is carried from stage to stage, so a stage boundary changes the boards and nothing else.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, ProgressCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOTrainer

from envwright.env.canonical import Split
from envwright.env.instance import Instance
from envwright.env.rollout import Rollout
from envwright.env.seeding import derive_seed
from envwright.training.advantages import last_deciding_step, step_advantages
from envwright.training.evaluation import rollout_of
from envwright.training.policies.policy import Policy, Sample
from envwright.training.processes import gather_lists, plain_model, process_index
from envwright.training.settings import GrpoSettings
from envwright.training.sharded import is_optimizer_sharded, is_weight_sharded, whole_state
from envwright.training.stopping import Watch
from envwright.training.trl_config import rate_factor, trl_config

__all__ = ["StageTraining", "StepReport", "train_stage"]

_ROWS_PER_CHUNK = 96
_LOGITS_PER_CHUNK = 1 << 26
"""Most logits in a chunk of the loss: 256 MB in float32, a few times that with what their gradients need."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one optimizer step did."""

    step: int
    """Step of the stage, from 1."""
    reward: float
    """Mean reward of the step's completions."""
    signal: float
    """Share of the step's groups with mixed outcomes: some completions valid, some not."""
    tokens: float
    """Mean completion length, in tokens."""
    truncated: float
    """Share of completions cut at the token limit."""
    loss: float
    """GRPO loss."""
    grad_norm: float
    """Gradient norm before clipping."""
    entropy: float
    """Mean entropy of the policy over completion tokens, in nats."""
    seconds: float
    """Wall-clock time."""
    logp_gap: float = 0.0
    """Mean gap between the log-probabilities of sampler and trainer, in nats, where the sampler has weights of its own."""
    completions: int = 0
    """Completions of the step, over all processes."""
    valid: float = 0.0
    """Share of them that is valid."""


@dataclass(frozen=True, slots=True)
class StageTraining:
    """What a stage's training leaves behind."""

    rollouts: list[Rollout]
    """Every completion, in the order of sampling."""
    steps: list[StepReport]
    """One report per optimizer step."""
    optimizer_state: dict[str, Any]
    """Adam's state."""
    rng_states: list[torch.Tensor]
    """Per process the state of torch's global generator, with which TRL shuffles a step's rows: their order decides how sums are rounded."""


class _Stage:
    """Glue between TRL and envwright: sampler, reward function and per-step reports."""

    def __init__(
        self,
        policy: Policy,
        instances: Sequence[Instance],
        settings: GrpoSettings,
        efficiency: float,
        stage: int,
        done: int,
        seed: int,
        rng_state: torch.Tensor | None,
    ) -> None:
        self.policy, self.settings, self.efficiency, self.stage, self.seed = policy, settings, efficiency, stage, seed
        self.instances = instances
        self.rollouts: list[Rollout] = []
        self.ended: list[bool] = []
        self.last: list[Rollout] = []
        self.calls = self.done = done
        self.gap = 0.0
        self.rng_state = rng_state

    def restore_generator(self) -> None:
        """Go on with torch's generator as it was: called by the first step, since TRL seeds it when a trainer is made."""
        if self.rng_state is not None:
            torch.set_rng_state(self.rng_state)
            self.rng_state = None

    def sample(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """TRL's rollout_func: every prompt comes already repeated `num_generations` times."""
        group = self.settings.num_generations
        unique = [self.policy.encode(prompt) for prompt in prompts[::group]]
        rank = trainer.accelerator.process_index
        noise = derive_seed(self.seed, "train-samples", self.stage, self.calls, *([rank] if rank else []))
        self.calls += 1
        sampler = self.policy.sampler()
        self.gap = _gap(sampler, self.policy.model, unique[0])
        groups = sampler.sample(unique, group, self.settings.max_completion_length, seed=noise, temperature=self.settings.temperature)
        completions = [tokens for samples in groups for tokens in samples]
        return {"prompt_ids": [ids for ids in unique for _ in range(group)], "completion_ids": completions, "logprobs": None}

    def reward(self, completion_ids: list[list[int]], index: list[int], **_: Any) -> list[float]:
        """TRL's reward function: grades the completions and keeps them as rollouts."""
        samples = [Sample(self.policy.text(tokens), len(tokens), self.policy.ended(tokens)) for tokens in completion_ids]
        self.last = [
            rollout_of(self.instances[place], sample, self.stage, Split.TRAIN, self.efficiency, self.settings.partial_credit)
            for place, sample in zip(index, samples, strict=True)
        ]
        self.rollouts += self.last
        self.ended += [sample.ended for sample in samples]
        return [rollout.reward or 0.0 for rollout in self.last]

    def step_advantages(self, columns: int) -> torch.Tensor:
        """Return advantages per token, (B, columns), for the completions graded last; see `step_advantages`."""
        deaths = [last_deciding_step(rollout) for rollout in self.last]
        rewards = [rollout.reward or 0.0 for rollout in self.last]
        settings = self.settings
        return step_advantages(
            rewards, deaths, settings.num_generations, self.instances[0].num_agents, columns, scale_rewards=settings.scale_rewards
        )

    def signal(self, rollouts: Sequence[Rollout]) -> float:
        """Share of groups in which some completions are valid and some are not."""
        group = self.settings.num_generations
        groups = [rollouts[first : first + group] for first in range(0, len(rollouts), group)]
        return sum(len({rollout.verdict.valid for rollout in members}) > 1 for members in groups) / len(groups)


@torch.no_grad()
def _gap(sampler: Any, model: Any, prompt: Sequence[int]) -> float:
    """Return how far a sampler with weights of its own is from the model after a prompt: the expected gap of log-probabilities."""
    if not hasattr(sampler, "next_logprobs"):
        return 0.0
    theirs_V = sampler.next_logprobs(prompt)
    ours_V = model(torch.tensor([list(prompt)], device=model.device)).logits[0, -1].log_softmax(-1)
    return float((ours_V.exp() * (ours_V - theirs_V).abs()).sum())


class _Trainer(GRPOTrainer):  # type: ignore[misc]  # TRL is untyped
    """GRPOTrainer that spends no work on rows and columns that cannot change the gradient.

    With TRL's `dapo` loss every token is divided by the token count of the whole batch, and without a KL term a row whose
    advantage is 0 adds nothing. So the loss is the sum over chunks of the other rows, sorted by length, each cut to its own
    longest prompt and completion, and each propagated back before the next. Same gradient (a test compares it with TRL's
    own), about a third of the work, and the memory of one chunk. Done in one process on a CPU; a GPU works on whole batches.
    """

    glue: _Stage
    rate: Callable[[int], float]

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> Any:  # noqa: ARG002
        """Make the course of the learning rate, where none was handed over."""
        if self.lr_scheduler is None:
            self.lr_scheduler: Any = torch.optim.lr_scheduler.LambdaLR(optimizer or self.optimizer, self.rate)
        return self.lr_scheduler

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        self.glue.restore_generator()
        output: dict[str, torch.Tensor] = super()._generate_and_score_completions(inputs)
        if self.glue.settings.step_credit:
            advantages = self.glue.step_advantages(output["completion_ids"].shape[1])
            output["advantages"] = advantages.to(output["completion_ids"].device)
        return output

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        in_chunks = self.accelerator.device.type == "cpu" and self.accelerator.num_processes == 1
        adds_up = self.loss_type == "dapo" and self.beta == 0.0 and not self.args.entropy_coef and self.top_entropy_quantile == 1.0
        if not adds_up or self.args.use_adaptive_entropy or not in_chunks:
            loss: torch.Tensor = super()._compute_loss(model, inputs)
            return loss
        lengths = inputs["completion_mask"].sum(1)
        rows = torch.argsort(lengths, stable=True)
        weights = inputs["advantages"] if inputs["advantages"].dim() == 2 else inputs["advantages"][:, None]
        rows = rows[(weights * inputs["completion_mask"] != 0).any(1)[rows]]
        if len(rows) == 0:
            rows = torch.zeros(1, dtype=torch.long)
        done = torch.zeros(())
        logits_per_row = int(lengths.max()) * int(self.model.config.vocab_size)
        *earlier, last = rows.split(max(1, min(_ROWS_PER_CHUNK, _LOGITS_PER_CHUNK // logits_per_row)))
        for chunk in earlier:
            loss = super()._compute_loss(model, _cut(inputs, chunk))
            self.accelerator.backward(loss)  # frees the chunk's activations; the caller does the same for what is returned
            done += loss.detach()
        final: torch.Tensor = super()._compute_loss(model, _cut(inputs, last))
        return final + done


def _cut(inputs: dict[str, torch.Tensor], rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return some rows of a batch without the columns that are padding in all of them."""
    prompt = int(inputs["prompt_mask"][rows].sum(1).max())
    answer = int(inputs["completion_mask"][rows].sum(1).max())
    batch, columns = inputs["completion_ids"].shape

    def part(name: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dim() == 0 or value.shape[0] != batch:
            return value
        if name.startswith("prompt_"):
            return value[rows, -prompt:]
        return value[rows, :answer] if value.dim() == 2 and value.shape[1] == columns else value[rows]

    return {name: part(name, value) for name, value in inputs.items()}


class _Reporter(TrainerCallback):
    """Turns TRL's logs into step reports, and stops what should not go on."""

    def __init__(self, glue: _Stage, watch: Watch, on_step: Callable[[StepReport], None]) -> None:
        self.glue, self.watch, self.on_step = glue, watch, on_step
        self.reports: list[StepReport] = []
        self.rollouts: list[Rollout] = []
        self.rollouts_before = 0
        self.begin = time.monotonic()

    def on_log(
        self,
        args: TrainingArguments,  # noqa: ARG002  # transformers passes it by name
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Called after every optimizer step, and once at the end without a loss."""
        if logs is None or "loss" not in logs:
            return
        here = list(zip(self.glue.rollouts, self.glue.ended, strict=True))[self.rollouts_before :]
        self.rollouts_before = len(self.glue.rollouts)
        new = [entry for part in gather_lists(here) for entry in part]
        rollouts = [rollout for rollout, _ in new]
        self.rollouts += rollouts
        now = time.monotonic()
        report = StepReport(
            step=self.glue.done + state.global_step,
            reward=sum(rollout.reward or 0.0 for rollout in rollouts) / len(new),
            signal=self.glue.signal(rollouts),
            tokens=sum(rollout.tokens or 0 for rollout in rollouts) / len(new),
            truncated=sum(not ended for _, ended in new) / len(new),
            loss=float(logs["loss"]),
            grad_norm=float(logs.get("grad_norm", 0.0)),
            entropy=float(logs.get("entropy", 0.0)),
            seconds=now - self.begin,
            logp_gap=round(float(logs.get("sampling/sampling_logp_difference/mean", self.glue.gap)), 7),
            completions=len(new),
            valid=sum(rollout.verdict.valid for rollout in rollouts) / len(new),
        )
        self.begin = now
        self.watch.update(report.loss, report.grad_norm, report.step)
        self.watch.gap(report.logp_gap, report.step)
        self.reports.append(report)
        self.on_step(report)
        self.watch.rewards(rollouts, report.step)


def train_stage(
    policy: Policy,
    instances: Sequence[Instance],
    settings: GrpoSettings,
    *,
    stage: int,
    efficiency: float,
    done: int = 0,
    first_step: int,
    last_step: int,
    seed: int,
    optimizer_state: dict[str, Any] | None,
    rng_states: Sequence[torch.Tensor] = (),
    watch: Watch | None = None,
    on_step: Callable[[StepReport], None],
) -> StageTraining:
    """Train the policy, in place, on instances one after the other.

    Args:
        policy: the policy; its weights change.
        instances: boards in the order in which they are taken, a multiple of `settings.boards_per_step`.
        settings: the trainer's settings.
        stage: number of the stage.
        efficiency: weight of efficiency in the stage's rewards, see `envwright.training.rewards`.
        done: optimizer steps of the stage that were taken before; the instances are those that follow.
        first_step: optimizer steps of the stages before; the schedule counts on.
        last_step: optimizer steps of the whole run, where a falling learning rate ends.
        seed: seed of the run.
        optimizer_state: Adam's state from the stage before, or from the step before.
        rng_states: per process torch's generator as it was after the step before, inside a stage.
        watch: looks at every step; one of its own when there is none.
        on_step: called with every step's report.

    Raises:
        JobFailedError: training cannot go on in a useful way, see `Watch`.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    rng_state = rng_states[process_index()] if rng_states else None
    glue = _Stage(policy, instances, settings, efficiency, stage, done, seed, rng_state)
    trained = [parameter for parameter in policy.model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=settings.learning_rate, betas=(0.9, settings.adam_beta2), weight_decay=0.0)
    if optimizer_state:
        optimizer.load_state_dict(optimizer_state)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] = settings.learning_rate

    def rate(taken: int) -> float:
        return rate_factor(settings, first_step + done + taken, last_step)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    reporter = _Reporter(glue, watch or Watch(settings), on_step)
    dataset = Dataset.from_dict({"prompt": [policy.prompt(instance) for instance in instances], "index": list(range(len(instances)))})
    lent = nullcontext() if policy.engine is None else policy.engine.lent()
    with tempfile.TemporaryDirectory() as scratch, lent:
        trainer = _Trainer(
            model=policy.model,
            reward_funcs=glue.reward,
            args=trl_config(
                settings,
                scratch,
                derive_seed(seed, "trainer", stage, *([done] if done else [])),
                use_cpu=policy.model.device.type == "cpu",
                chat_template_kwargs=policy.chat_template_kwargs(),
            ),
            train_dataset=dataset,
            processing_class=policy.tokenizer,
            callbacks=[reporter],
            optimizers=(None, None) if is_optimizer_sharded() else (optimizer, schedule),
            rollout_func=glue.sample if settings.sampler == "own" else None,
        )
        trainer.glue, trainer.rate = glue, rate
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        trainer.train()
    policy.model = policy.rebuilt(whole_state(policy.model)) if is_weight_sharded() else plain_model(trainer.accelerator, policy.model)
    if "ref" in getattr(policy.model, "peft_config", {}):
        policy.model.delete_adapter("ref")  # the reference of a KL term: TRL makes one with every trainer
    optimizer_state = {} if is_optimizer_sharded() else optimizer.state_dict()
    rng_states = [state for part in gather_lists([torch.get_rng_state()]) for state in part]
    return StageTraining(reporter.rollouts, reporter.reports, optimizer_state, rng_states)
