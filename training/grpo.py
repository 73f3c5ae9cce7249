"""One stage of GRPO with TRL's GRPOTrainer.

The trainer owns the loss, the advantages and the optimizer step; envwright gives it the boards, the sampler (through
`rollout_func`: the prompt is prefilled once per group) and the reward, and keeps every rollout. Adam's state is carried
from stage to stage, so a stage boundary changes the boards and nothing else.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from datasets import Dataset
from transformers import PrinterCallback, ProgressCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOConfig, GRPOTrainer

from envwright.env.canonical import Split
from envwright.env.instance import Instance
from envwright.env.rollout import Rollout
from envwright.env.rules import Outcome
from envwright.env.seeding import derive_seed
from envwright.training.evaluation import rollout_of
from envwright.training.policy import PocketPolicy, Sample
from envwright.training.sampler import PocketSampler
from envwright.training.settings import GrpoSettings

__all__ = ["StageTraining", "StepReport", "rate_factor", "step_advantages", "train_stage"]

_ROWS_PER_CHUNK = 96


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


@dataclass(frozen=True, slots=True)
class StageTraining:
    """What a stage's training leaves behind."""

    rollouts: list[Rollout]
    """Every completion, in the order of sampling."""
    steps: list[StepReport]
    """One report per optimizer step."""
    optimizer_state: dict[str, Any]
    """Adam's state."""
    rng_state: torch.Tensor
    """State of torch's global generator, with which TRL shuffles a step's rows: their order decides how sums are rounded."""


class _Stage:
    """Glue between TRL and envwright: sampler, reward function and per-step reports."""

    def __init__(
        self,
        policy: PocketPolicy,
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
        self.last: list[Rollout] = []
        self.calls = self.done = done
        self.rng_state = rng_state

    def sample(self, prompts: list[str], _trainer: Any) -> dict[str, Any]:
        """TRL's rollout_func: every prompt comes already repeated `num_generations` times."""
        if self.rng_state is not None:  # set here: TRL seeds the generator when a trainer is made, and its data loader draws from it
            torch.set_rng_state(self.rng_state)
            self.rng_state = None
        group = self.settings.num_generations
        unique = [self.policy.tokenizer(prompt)["input_ids"] for prompt in prompts[::group]]
        noise = derive_seed(self.seed, "train-samples", self.stage, self.calls)
        self.calls += 1
        sampler = PocketSampler(self.policy.model)
        groups = sampler.sample(unique, group, self.settings.max_completion_length, seed=noise, temperature=self.settings.temperature)
        completions = [tokens for samples in groups for tokens in samples]
        return {"prompt_ids": [ids for ids in unique for _ in range(group)], "completion_ids": completions, "logprobs": None}

    def reward(self, completion_ids: list[list[int]], index: list[int], **_: Any) -> list[float]:
        """TRL's reward function: grades the completions and keeps them as rollouts."""
        self.last = [
            rollout_of(
                self.instances[place],
                Sample(self.policy.text(tokens), len(tokens)),
                self.stage,
                Split.TRAIN,
                self.efficiency,
            )
            for place, tokens in zip(index, completion_ids, strict=True)
        ]
        self.rollouts += self.last
        return [rollout.reward or 0.0 for rollout in self.last]

    def step_advantages(self, columns: int) -> torch.Tensor:
        """Return advantages per token, (B, columns), for the completions graded last; see `step_advantages`."""
        deaths = [_last_deciding_step(rollout) for rollout in self.last]
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


class _Trainer(GRPOTrainer):  # type: ignore[misc]  # TRL is untyped
    """GRPOTrainer that spends no work on rows and columns that cannot change the gradient.

    With TRL's `dapo` loss every token is divided by the token count of the whole batch, and without a KL term a row whose
    advantage is 0 adds nothing. So the loss is the sum over chunks of the other rows, sorted by length, each cut to its own
    longest prompt and completion, and each propagated back before the next. Same gradient (a test compares it with TRL's
    own), about a third of the work, and the memory of one chunk.
    """

    glue: _Stage

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        output: dict[str, torch.Tensor] = super()._generate_and_score_completions(inputs)
        if self.glue.settings.step_credit:
            output["advantages"] = self.glue.step_advantages(output["completion_ids"].shape[1])
        return output

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        if self.loss_type != "dapo" or self.beta != 0.0:
            loss: torch.Tensor = super()._compute_loss(model, inputs)
            return loss
        lengths = inputs["completion_mask"].sum(1)
        rows = torch.argsort(lengths, stable=True)
        weights = inputs["advantages"] if inputs["advantages"].dim() == 2 else inputs["advantages"][:, None]
        rows = rows[(weights * inputs["completion_mask"] != 0).any(1)[rows]]
        if len(rows) == 0:
            rows = torch.zeros(1, dtype=torch.long)
        done = torch.zeros(())
        *earlier, last = rows.split(_ROWS_PER_CHUNK)
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
    advantages = inputs["advantages"][rows]
    return {
        "prompt_ids": inputs["prompt_ids"][rows, -prompt:],
        "prompt_mask": inputs["prompt_mask"][rows, -prompt:],
        "completion_ids": inputs["completion_ids"][rows, :answer],
        "completion_mask": inputs["completion_mask"][rows, :answer],
        "advantages": advantages[:, :answer] if advantages.dim() == 2 else advantages,
        "num_items_in_batch": inputs["num_items_in_batch"],
    }


def _last_deciding_step(rollout: Rollout) -> float:
    """The timestep after which nothing that a completion says can change its outcome; infinity when all of it counts."""
    if rollout.verdict.valid or rollout.failure_step is None or rollout.verdict is Outcome.GOAL_NOT_REACHED:
        return math.inf
    return rollout.failure_step


def step_advantages(
    rewards: Sequence[float],
    deaths: Sequence[float],
    group: int,
    num_agents: int,
    columns: int,
    *,
    scale_rewards: Literal["group", "batch", "none"] = "group",
) -> torch.Tensor:
    """Return group-relative advantages per token that use the timestep of the first violation.

    What a completion says after its first violation cannot change its reward, so those tokens get 0. A token of timestep t
    is compared with the members of its group that are still without a violation before t: the baseline is their mean
    reward. Both leave the expected policy gradient as it is (rewards depend on no later token; a baseline may depend on
    time) and take noise away: the step that broke a plan gets the largest share of the blame. Divided by the standard
    deviation of the group's rewards, as GRPO does (Shao et al., 2024), or by the batch's.

    Args:
        rewards: reward per completion, B of them, groups in a row.
        deaths: per completion the timestep of its violation, from 1; infinity for none.
        group: completions per group, G.
        num_agents: tokens per timestep.
        columns: tokens per row of the result, T.
        scale_rewards: what to divide by: the group's or the batch's standard deviation, or nothing.

    Returns:
        Advantages (B, T).
    """
    rewards_G1 = torch.tensor(rewards).view(-1, group, 1)
    steps_T = torch.arange(columns) // num_agents + 1
    alive_GT = steps_T <= torch.tensor(deaths).view(-1, group, 1)
    counts = alive_GT.sum(1, keepdim=True).clamp(min=1)
    baseline = (rewards_G1 * alive_GT).sum(1, keepdim=True) / counts
    advantages_GT = (rewards_G1 - baseline) * alive_GT
    if scale_rewards != "none":
        deviation = rewards_G1.std(1, keepdim=True) if scale_rewards == "group" else rewards_G1.std()
        advantages_GT = advantages_GT / (deviation + 1e-4)
    return advantages_GT.view(-1, columns)


class _Reporter(TrainerCallback):
    """Turns TRL's logs into step reports."""

    def __init__(self, glue: _Stage, on_step: Callable[[StepReport], None]) -> None:
        self.glue, self.on_step = glue, on_step
        self.reports: list[StepReport] = []
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
        new = self.glue.rollouts[self.rollouts_before :]
        self.rollouts_before = len(self.glue.rollouts)
        now = time.monotonic()
        report = StepReport(
            step=self.glue.done + state.global_step,
            reward=sum(rollout.reward or 0.0 for rollout in new) / len(new),
            signal=self.glue.signal(new),
            tokens=sum(rollout.tokens or 0 for rollout in new) / len(new),
            truncated=sum(rollout.outcome == "truncated" for rollout in new) / len(new),
            loss=float(logs["loss"]),
            grad_norm=float(logs.get("grad_norm", 0.0)),
            entropy=float(logs.get("entropy", 0.0)),
            seconds=now - self.begin,
        )
        self.begin = now
        if not (math.isfinite(report.loss) and math.isfinite(report.grad_norm)):
            raise FloatingPointError(
                f"loss {report.loss} and gradient norm {report.grad_norm} at step {report.step}: lower grpo.learning_rate"
            )
        self.reports.append(report)
        self.on_step(report)


def train_stage(
    policy: PocketPolicy,
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
    rng_state: torch.Tensor | None = None,
    on_step: Callable[[StepReport], None],
) -> StageTraining:
    """Train the policy, in place, for one pass over the instances.

    Args:
        policy: the policy; its weights change.
        instances: boards of the stage, a multiple of `settings.boards_per_step`; taken in order, each once.
        settings: the trainer's settings.
        stage: number of the stage.
        efficiency: weight of efficiency in the stage's rewards, see `envwright.training.rewards`.
        done: optimizer steps of the stage that were taken before; the instances are those that follow.
        first_step: optimizer steps of the stages before; the schedule counts on.
        last_step: optimizer steps of the whole run, where a falling learning rate ends.
        seed: seed of the run.
        optimizer_state: Adam's state from the stage before, or from the step before.
        rng_state: torch's generator as it was after the step before, inside a stage.
        on_step: called with every step's report.

    Raises:
        FloatingPointError: the loss or the gradients stopped being finite.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    glue = _Stage(policy, instances, settings, efficiency, stage, done, seed, rng_state)
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=settings.learning_rate, betas=(0.9, settings.adam_beta2), weight_decay=0.0)
    if optimizer_state is not None:
        optimizer.load_state_dict(optimizer_state)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] = settings.learning_rate
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda taken: rate_factor(settings, first_step + done + taken, last_step))
    reporter = _Reporter(glue, on_step)
    dataset = Dataset.from_dict({"prompt": [policy.prompt(instance) for instance in instances], "index": list(range(len(instances)))})
    with tempfile.TemporaryDirectory() as scratch:
        trainer = _Trainer(
            model=policy.model,
            reward_funcs=glue.reward,
            args=_trl_config(settings, scratch, derive_seed(seed, "trainer", stage)),
            train_dataset=dataset,
            processing_class=policy.tokenizer,
            callbacks=[reporter],
            optimizers=(optimizer, schedule),
            rollout_func=glue.sample,
        )
        trainer.glue = glue
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        trainer.train()
    policy.model.eval()
    return StageTraining(glue.rollouts, reporter.reports, optimizer.state_dict(), torch.get_rng_state())


def rate_factor(settings: GrpoSettings, done: int, last_step: int) -> float:
    """Return the share of the learning rate that the step after `done` steps takes, of `last_step` steps in the run."""
    if done < settings.warmup_steps:
        return (done + 1) / settings.warmup_steps
    left = (last_step - done) / max(1, last_step - settings.warmup_steps)
    match settings.lr_scheduler_type:
        case "linear":
            return left
        case "cosine":
            return (1.0 - math.cos(math.pi * left)) / 2
        case _:
            return 1.0


def _trl_config(settings: GrpoSettings, scratch: str, seed: int) -> GRPOConfig:
    """Return TRL's config for one CPU process in full precision."""
    return GRPOConfig(
        output_dir=scratch,
        seed=seed,
        num_train_epochs=1,
        learning_rate=settings.learning_rate,
        num_generations=settings.num_generations,
        per_device_train_batch_size=settings.per_device_train_batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        max_completion_length=settings.max_completion_length,
        temperature=settings.temperature,
        beta=settings.beta,
        loss_type=settings.loss_type,
        scale_rewards=settings.scale_rewards,
        max_grad_norm=settings.max_grad_norm,
        shuffle_dataset=False,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
