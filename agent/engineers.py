"""Environment engineers by name: who decides, between two stages, how the generator's config changes."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from envwright.agent.baselines import Baseline, FixedEngineer, RandomEngineer
from envwright.agent.chat_models import CHAT_MODELS, default_limits, make_chat_model
from envwright.agent.guardrails import GuardRails
from envwright.agent.learnability import LearnabilityEngineer
from envwright.agent.limits import Limits
from envwright.agent.model_engineer import Engineer, ModelEngineer, ReplayEngineer
from envwright.agent.oracle import OracleEngineer
from envwright.agent.redesign import Redesign
from envwright.agent.rule import RuleModel
from envwright.agent.schedules import EasyToHardEngineer, UniformEngineer
from envwright.env.errors import UserError

if TYPE_CHECKING:
    from envwright.agent.local_weights import LivePolicy

__all__ = ["ENGINEERS", "Engineer", "ModelEngineer", "Redesign", "ReplayEngineer", "make_engineer"]

RESULT_TOKENS = 6_000
"""Tokens that one tool result may take in the context of a language model."""
ENGINEERS = (
    "rule",
    "fixed",
    "random",
    "random:kept",
    "uniform",
    "easy-to-hard",
    "learnability",
    "oracle",
    "replay:TRANSCRIPT",
    *CHAT_MODELS,
)
"""What `make_engineer` takes."""

_WITH_ARGUMENT = ("replay", "openai", "local", "vllm")
_BASELINES: dict[str, Callable[[], Baseline]] = {
    "fixed": FixedEngineer,
    "random": RandomEngineer,
    "random:kept": lambda: RandomEngineer(kept=True),
    "uniform": UniformEngineer,
    "easy-to-hard": EasyToHardEngineer,
    "learnability": LearnabilityEngineer,
    "oracle": OracleEngineer,
}


def make_engineer(
    spec: str,
    *,
    limits: Limits | None = None,
    base_url: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    timeout: float = 120.0,
    max_retries: int = 3,
    policy: LivePolicy | None = None,
    checkpoint: Path | None = None,
    baseline_rails: GuardRails | None = None,
) -> Engineer:
    """Return the engineer that a spec names.

    Args:
        spec: one of `ENGINEERS`.
        limits: bounds on a session; for engineers that have sessions.
        base_url: the server of `openai:MODEL`; default `OPENAI_BASE_URL`.
        temperature: of a language model; default: the server's, and 0 in process.
        max_tokens: bound on one reply of a language model.
        timeout: seconds per try of `openai:MODEL`.
        max_retries: tries after the first one of `openai:MODEL`.
        policy: the model in training that `policy` is, in this process's memory; it goes before the checkpoint. The engineer
            decodes with that very object, whose weights may change between two sessions.
        checkpoint: the checkpoint that `policy` is; without either the policy is the pocket policy, which cannot engineer.
        baseline_rails: guard rails for the patch of a baseline, which it cannot mend: what they refuse leaves the config as it
            is. None, the default, does not bind baselines, as they rewrite everything by nature. Engineers with sessions get
            theirs from `envwright.agent.oversight.oversee`.

    Raises:
        UserError: no such engineer, or it cannot be made; one line with the next step.
    """
    kind, _, argument = spec.partition(":")
    if kind in _WITH_ARGUMENT and not argument:
        raise UserError(f"engineer {spec!r} needs a name after the colon: {next(known for known in ENGINEERS if known.startswith(kind))}")
    if kind == "replay":
        return ReplayEngineer(Path(argument), limits)
    if kind in ("openai", "local", "vllm") or spec == "policy":
        model = make_chat_model(
            spec,
            base_url=base_url,
            temperature=temperature,
            max_tokens=max_tokens,
            timeout=timeout,
            max_retries=max_retries,
            policy=policy,
            checkpoint=checkpoint,
        )
        limits = limits or default_limits(spec, policy=policy, checkpoint=checkpoint)
        return ModelEngineer(model, limits, token_budget=RESULT_TOKENS)
    if spec == "rule":
        return ModelEngineer(RuleModel(), limits)
    if spec in _BASELINES:
        baseline = _BASELINES[spec]()
        baseline.rails = baseline_rails
        return baseline
    names = [known.partition(":")[0] for known in ENGINEERS]
    close = difflib.get_close_matches(kind.lower(), names, n=1, cutoff=0.5)
    meant = f", did you mean {ENGINEERS[names.index(close[0])]!r}?" if close else ""
    raise UserError(f"no engineer {spec!r}{meant or ';'} the engineers are {', '.join(ENGINEERS)}")
