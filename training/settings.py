"""A run's settings: one frozen model, presets that ship with the package, and `--set key=value` on top."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from envwright.agent.context_modules import DEFAULT_CONTEXT, parse_context
from envwright.agent.guardrails import GuardRails
from envwright.agent.work_settings import Engineering, WorkSettings
from envwright.env.base import FrozenModel, StrictInt
from envwright.env.config import GeneratorConfig
from envwright.env.errors import UserError
from envwright.env.jsonio import parse_json, read_json

__all__ = ["EvaluationSettings", "GrpoSettings", "RunSettings", "list_presets", "load_settings"]

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
    max_completion_length: StrictInt = Field(default=64, ge=1)
    """Longest completion while training, in tokens."""
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
    save_steps: StrictInt = Field(default=0, ge=0)
    """Optimizer steps between checkpoints inside a stage, from which a killed run goes on; 0 saves after each stage alone."""
    step_credit: bool = True
    """Advantages per timestep, from where a plan first broke, instead of one per completion."""
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
        """Boards in one optimizer step."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps // self.num_generations

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
        return self


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


class RunSettings(FrozenModel):
    """Everything that a run depends on."""

    schema_version: Literal[1] = 1
    """Version of the file format."""
    description: str
    """What the run is for."""
    policy: str = "pocket"
    """`pocket` (the base checkpoint of the package) or the folder of a pocket checkpoint."""
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
        """Boards that one stage trains on."""
        return self.steps_per_stage * self.grpo.boards_per_step


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
    if key not in known and not in_config:
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UserError(f"--set {key}: no such setting{hint} Known: {', '.join(known)}")
    target = raw
    for parent in parents:
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
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, FrozenModel):
            keys += _known_keys(annotation, f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return keys
