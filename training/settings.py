"""A run's settings: one frozen model, presets that ship with the package, and `--set key=value` on top."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import Field, JsonValue, field_validator, model_validator

from envwright.agent.context_modules import DEFAULT_CONTEXT, parse_context
from envwright.agent.guardrails import GuardRails
from envwright.agent.work_settings import Engineering, WorkSettings
from envwright.env.base import FrozenModel, StrictInt
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.jsonio import parse_json, read_json
from envwright.env.rules import Outcome
from envwright.training.processes import num_processes

__all__ = [
    "FREE_AFTER_STAGE_0",
    "EvaluationSettings",
    "GrpoSettings",
    "LoraSettings",
    "PromptSettings",
    "RunSettings",
    "WarmStartSettings",
    "list_presets",
    "load_settings",
]

FREE_AFTER_STAGE_0 = (
    "description",
    "engineer",
    "context",
    "engineering",
    "guard_rails",
    "approval",
    "gate_tolerance",
    "save_total_limit",
    "report_to",
    "log_completions",
)
"""Settings that stage 0 does not depend on before its engineer: runs that agree in all others can share it."""
PRESETS = Path(__file__).resolve().parent / "presets"


class GrpoSettings(FrozenModel):
    """Settings of TRL's GRPOTrainer, under TRL's names."""

    learning_rate: float = Field(default=1.5e-4, gt=0)
    """Adam's learning rate, reached after the warm-up."""
    lr_scheduler_type: Literal["constant_with_warmup", "linear", "cosine"] = "constant_with_warmup"
    """Course of the learning rate after the warm-up, over the whole run: kept, or brought to 0 in a line or a half cosine."""
    warmup_steps: StrictInt = Field(default=15, ge=0)
    """Optimizer steps of linear warm-up, counted over the whole run."""
    adam_beta2: float = Field(default=0.99, gt=0, lt=1)
    """Adam's second decay."""
    num_generations: StrictInt = Field(default=8, ge=2)
    """Completions per board: the group that advantages are normalised in."""
    per_device_train_batch_size: StrictInt = Field(default=512, ge=1)
    """Completions per forward and backward pass; a multiple of num_generations."""
    gradient_accumulation_steps: StrictInt = Field(default=1, ge=1)
    """Passes per optimizer step."""
    num_train_epochs: StrictInt = Field(default=1, ge=1)
    """Passes over a stage's boards; more of them mean fewer boards for the same number of steps."""
    max_completion_length: StrictInt = Field(default=64, ge=1)
    """Longest completion while training, in tokens."""
    max_prompt_length: StrictInt | None = Field(default=None, ge=1)
    """Longest prompt, in tokens; boards with a longer one are left out and counted. Null: what the model's context leaves."""
    sampler: Literal["own", "hf", "vllm", "vllm-server"] = "own"
    """Who writes completions: envwright's key-value cache sampler, generate of transformers, or vLLM in this process or on a server."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature."""
    beta: float = Field(default=0.0, ge=0)
    """Weight of the KL term; 0 needs no reference model."""
    loss_type: Literal["grpo", "bnpo", "dr_grpo", "dapo"] = "dapo"
    """How token losses are averaged."""
    scale_rewards: Literal["group", "batch", "none"] = "group"
    """What advantages are divided by: the group's or batch's standard deviation, or nothing."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradient clipping."""
    bf16: bool = False
    """Compute in bfloat16 by automatic mixed precision; the weights keep the run's dtype."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: less memory, more time."""
    save_steps: StrictInt = Field(default=0, ge=0)
    """Optimizer steps between checkpoints inside a stage, from which a killed run goes on; 0 saves after each stage alone."""
    step_credit: bool = True
    """Advantages per timestep, from where a plan first broke, instead of one per completion."""
    no_signal_steps: StrictInt = Field(default=10, ge=0)
    """Steps in a row without one group of mixed rewards after which the run stops and says where there is no signal; 0 never stops."""
    max_logp_gap: float = Field(default=0.1, gt=0)
    """Mean gap between the log-probabilities of sampler and trainer, in nats, above which the run stops: the weights were not followed."""
    partial_credit: dict[str, float] = Field(default_factory=dict)
    """Rewards of invalid outcomes, such as {"goal_not_reached": 0.1}; for research: a trial of it taught a policy to stand still."""
    trl: dict[str, JsonValue] = Field(default_factory=dict)
    """Any other field of TRL's GRPOConfig, passed on as it is, such as {"epsilon_high": 0.28}."""
    efficiency_weight: float = Field(default=0.0, ge=0, le=1)
    """Weight of optimum / cost in the reward of a valid plan; 0 rewards validity alone."""
    efficiency_schedule: Literal["fixed", "adaptive"] = "fixed"
    """Adaptive: validity alone at first; the weight rises with the sampled validation valid rate of the stage before."""
    efficiency_low: float = Field(default=0.5, ge=0, le=1)
    """Valid rate up to which an adaptive weight is 0."""
    efficiency_high: float = Field(default=0.8, ge=0, le=1)
    """Valid rate from which an adaptive weight is whole."""

    @property
    def boards_per_step(self) -> int:
        """Boards in one optimizer step, over all processes."""
        batch = self.per_device_train_batch_size * self.gradient_accumulation_steps * num_processes()
        return batch // self.num_generations

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.per_device_train_batch_size % self.num_generations:
            lower = self.per_device_train_batch_size // self.num_generations * self.num_generations
            raise ValueError(
                f"per_device_train_batch_size {self.per_device_train_batch_size} is not a multiple of num_generations {self.num_generations}; "
                f"set it to {max(lower, self.num_generations)}"
            )
        if self.efficiency_schedule == "adaptive" and not self.efficiency_low < self.efficiency_high:
            raise ValueError(f"efficiency_low {self.efficiency_low} must be below efficiency_high {self.efficiency_high}")
        invalid = [outcome.value for outcome in Outcome if not outcome.valid]
        unknown = [outcome for outcome in self.partial_credit if outcome not in invalid]
        if unknown:
            raise ValueError(f"partial_credit: {unknown[0]!r} is no invalid outcome; those are {', '.join(invalid)}")
        return self


class LoraSettings(FrozenModel):
    """Low-rank adapters instead of all weights, under peft's names."""

    r: StrictInt = Field(default=16, ge=1)
    """Rank."""
    lora_alpha: StrictInt = Field(default=32, ge=1)
    """Scale: updates count lora_alpha / r."""
    lora_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout before the adapters."""
    target_modules: str | list[str] = "all-linear"
    """Layers that get adapters."""


class PromptSettings(FrozenModel):
    """How boards are put to a language model; the pocket policy has its own notation."""

    rules: Literal["full", "brief"] = "full"
    """full: all rules of the game; brief: the format alone, for a model that has learned them."""
    enable_thinking: bool = False
    """Passed to the chat template: whether the model may think before it answers."""


class WarmStartSettings(FrozenModel):
    """Supervised fine-tuning on the solver's plans before the first stage, under TRL's names (SFTTrainer)."""

    config: GeneratorConfig | None = None
    """What its boards look like; null: as in stage 0."""
    max_steps: StrictInt = Field(default=100, ge=1)
    """Optimizer steps; each takes new boards."""
    per_device_train_batch_size: StrictInt = Field(default=8, ge=1)
    """Boards per forward and backward pass."""
    gradient_accumulation_steps: StrictInt = Field(default=1, ge=1)
    """Passes per optimizer step."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """Adam's learning rate, reached after the warm-up."""
    lr_scheduler_type: Literal["constant_with_warmup", "linear", "cosine"] = "linear"
    """Course of the learning rate after the warm-up."""
    warmup_steps: StrictInt = Field(default=10, ge=0)
    """Optimizer steps of linear warm-up."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradient clipping."""

    @property
    def instances(self) -> int:
        """Boards of the warm start, over all processes."""
        return self.max_steps * self.per_device_train_batch_size * self.gradient_accumulation_steps * num_processes()


class EvaluationSettings(FrozenModel):
    """The fixed boards that every arm of a comparison is measured on."""

    config: GeneratorConfig
    """What validation and held-out boards look like; the engineer cannot change it."""
    validation_instances: StrictInt = Field(default=240, ge=1)
    """Boards of the validation split: the engineer's evidence and the gate."""
    heldout_instances: StrictInt = Field(default=400, ge=1)
    """Boards of the benchmark split: the figures before and after."""
    samples: StrictInt = Field(default=4, ge=1)
    """Completions sampled per board; greedy decoding adds one."""
    max_completion_length: StrictInt | None = Field(default=None, ge=1)
    """Longest completion while measuring, in tokens; null: 200 for the pocket policy, as in training for others."""


class RunSettings(FrozenModel):
    """Everything that a run depends on."""

    schema_version: Literal[1] = 1
    """Version of the file format."""
    description: str
    """What the run is for."""
    policy: str = "pocket"
    """`pocket` (the base checkpoint of the package), `smollm2`, or the folder of a causal language model or of a checkpoint."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute; auto: on the GPU when there is one and the policy is no pocket policy."""
    trust_remote_code: bool = False
    """Run code that comes with a model's files. Off: a model that needs it is refused."""
    prompt: PromptSettings = PromptSettings()
    """How boards are put to a language model."""
    lora: LoraSettings | None = None
    """Train low-rank adapters; null trains all weights."""
    warm_start: WarmStartSettings | None = None
    """Supervised fine-tuning before the first stage; null: none."""
    engineer: str = "rule"
    """Who redesigns the config between stages: an engineer's spec, see `envwright run --help`."""
    context: str = DEFAULT_CONTEXT
    """What an engineer that is a model is shown: V1 to V6, or modules such as F,G,H."""
    engineering: Engineering = "agent"
    """agent: with tools; direct: one answer, a patch; direct-config: one answer, the whole config."""
    guard_rails: GuardRails = GuardRails()
    """Bounds on one patch."""
    approval: str = "auto"
    """Who has the last word on a patch: auto, human, or a JSON file of guard rails."""
    seed: StrictInt = Field(default=0, ge=0, lt=2**31)
    """Seed of everything."""
    num_stages: StrictInt = Field(ge=1, le=99)
    """Stages of training; the engineer acts between them."""
    steps_per_stage: StrictInt = Field(ge=1)
    """Optimizer steps per stage; each takes new boards."""
    config: GeneratorConfig
    """What stage 0 trains on."""
    grpo: GrpoSettings = GrpoSettings()
    """The trainer."""
    evaluation: EvaluationSettings
    """The measurements."""
    gate_tolerance: float = Field(default=0.05, ge=0, le=1)
    """If the sampled validation valid rate falls more than this below the best so far, the next stage returns to the best config."""
    save_total_limit: StrictInt | None = Field(default=None, ge=1)
    """Stages whose checkpoints are kept, the newest ones; null keeps all."""
    threads: StrictInt = Field(default=1, ge=1, le=64)
    """CPU threads; pinned, since their number changes results slightly."""
    report_to: list[Literal["tensorboard", "trackio", "wandb"]] = Field(default_factory=list)
    """Trackers that metrics go to besides metrics.jsonl."""
    log_completions: StrictInt = Field(default=0, ge=0)
    """Completions shown with their boards after each stage."""

    @field_validator("context")
    @classmethod
    def _check_context(cls, context: str) -> str:
        return parse_context(context).spec

    @property
    def work(self) -> WorkSettings:
        """How the engineer works."""
        return WorkSettings(context=self.context, engineering=self.engineering, guard_rails=self.guard_rails)

    @property
    def instances_per_stage(self) -> int:
        """Boards that one stage trains on; each is met `grpo.num_train_epochs` times."""
        return self.steps_per_stage * self.grpo.boards_per_step // self.grpo.num_train_epochs

    @model_validator(mode="after")
    def _check(self) -> Self:
        met, epochs = self.steps_per_stage * self.grpo.boards_per_step, self.grpo.num_train_epochs
        if met % epochs:
            raise ValueError(f"{met} boards per stage (steps x boards per step) cannot be met {epochs} times each; change steps_per_stage")
        return self


def list_presets() -> dict[str, str]:
    """Return preset names and their descriptions."""
    return {path.stem: str(read_json(path)["description"]) for path in sorted(PRESETS.glob("*.json"))}


def load_settings(source: str, overrides: list[str], engineer: str | None = None) -> RunSettings:
    """Read a preset or a settings file and apply overrides.

    Args:
        source: a preset's name or a file's path.
        overrides: `key=value` pairs; keys are dotted (`grpo.learning_rate`), values are JSON or plain text.
        engineer: overrides the engineer's spec.

    Raises:
        UserError: no such preset or file, an unknown key, a value that breaks a rule.
    """
    preset = PRESETS / f"{source}.json"
    path = preset if preset.is_file() else Path(source)
    if not path.is_file():
        raise UserError(f"{source!r} is neither a preset ({', '.join(list_presets())}) nor a settings file")
    raw = read_json(path)
    if not isinstance(raw, dict):
        raise UserError(f"{path}: settings must be a JSON object")
    for override in overrides:
        _override(raw, override)
    if engineer is not None:
        raw["engineer"] = engineer
    return RunSettings.parse(raw, f"preset {source}" if path == preset else str(path))


def _override(raw: dict[str, Any], override: str) -> None:
    """Set one dotted key in place."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"--set {override!r}: expected KEY=VALUE, such as --set seed=1")
    *parents, last = key.split(".")
    known = _known_keys(RunSettings)
    in_config = key.startswith(("config.", "evaluation.config."))
    in_config = in_config or key.startswith(("warm_start.config", "grpo.trl.", "grpo.partial_credit."))
    if key not in known and not in_config:
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        group = key.rpartition(".")[0]
        among = [name for name in known if name.rpartition(".")[0] == group] or list(RunSettings.model_fields)
        raise UserError(f"--set {key}: no such setting{hint} Known: {', '.join(among)}")
    target = raw
    for parent in parents:
        if target.get(parent, {}) is None:
            target[parent] = {}
        target = target.setdefault(parent, {})
        if not isinstance(target, dict):
            raise UserError(f"--set {key}: {parent!r} is not a group of settings")
    try:
        json.loads(text)
    except json.JSONDecodeError:
        target[last] = text
    else:
        target[last] = parse_json(text, f"--set {key}")


def _known_keys(model: type[FrozenModel], prefix: str = "") -> list[str]:
    keys = []
    for name, field in model.model_fields.items():
        parts = get_args(field.annotation) if type(None) in get_args(field.annotation) else (field.annotation,)
        nested = next((part for part in parts if isinstance(part, type) and issubclass(part, FrozenModel)), None)
        if nested is not None:
            keys += _known_keys(nested, f"{prefix}{name}.")
        if nested is None or type(None) in parts:
            keys.append(prefix + name)
    return keys
