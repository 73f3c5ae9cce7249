"""Chat models by name: `openai:MODEL`, `local:PATH`, `local:smollm2`, `vllm:PATH`, `policy`.

Each kind's module is imported when a model of it is made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from envwright.agent.limits import Limits
from envwright.agent.model_size import session_size
from envwright.agent.models import ChatModel
from envwright.env.errors import UserError

if TYPE_CHECKING:
    from envwright.agent.local_weights import LivePolicy

__all__ = ["CHAT_MODELS", "default_limits", "make_chat_model"]

CHAT_MODELS = ("openai:MODEL", "local:PATH", "local:smollm2", "vllm:PATH", "policy")
"""What `make_chat_model` takes."""

SMOLLM2 = "smollm2"
SMOLLM2_PARAMETERS = 134_515_008
"""Parameters of `local:smollm2`, whose weights are found and converted only when it is made."""


def make_chat_model(
    spec: str,
    *,
    base_url: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    timeout: float = 120.0,
    max_retries: int = 3,
    seed: int = 0,
    free_text: bool = False,
    policy: LivePolicy | None = None,
    checkpoint: Path | None = None,
) -> ChatModel:
    """Return the chat model that a spec names.

    Args:
        spec: one of `CHAT_MODELS`.
        base_url: the server of `openai:MODEL`; default `OPENAI_BASE_URL`.
        temperature: of sampling; default: the server's, and 0 (the most likely token) in process.
        max_tokens: bound on one reply.
        timeout: seconds per try of `openai:MODEL`.
        max_retries: tries after the first one of `openai:MODEL`.
        seed: seed of the draws of a model in process.
        free_text: let a model in process write any text beside tool calls, for conversations with a person.
        policy: the model in training that `policy` is, decoded in memory as it stands; it goes before the checkpoint.
        checkpoint: the checkpoint that `policy` is.

    Raises:
        UserError: no such model, or it cannot be made; one line with the next step.
    """
    kind, _, argument = spec.partition(":")
    heat = temperature or 0.0
    if kind == "openai":
        from envwright.agent.openai_model import OpenAIModel

        return OpenAIModel(
            argument, base_url=base_url, temperature=temperature, max_tokens=max_tokens, timeout=timeout, max_retries=max_retries
        )
    if kind == "local" and argument:
        from envwright.agent.local_model import LocalModel

        if argument != SMOLLM2:
            return LocalModel(Path(argument), max_tokens=max_tokens or 512, temperature=heat, seed=seed, free_text=free_text)
        from envwright.agent.smollm2 import smollm2_folder

        tokens = max_tokens or session_size(SMOLLM2_PARAMETERS).tokens
        return LocalModel(smollm2_folder(), name=spec, max_tokens=tokens, temperature=heat, seed=seed, free_text=free_text)
    if kind == "vllm" and argument:
        from envwright.agent.vllm_model import VllmModel

        return VllmModel(argument, max_tokens=max_tokens or 1_024, temperature=heat, seed=seed)
    if spec == "policy":
        from envwright.agent.policy_model import policy_model

        return policy_model(policy, checkpoint, max_tokens=max_tokens, temperature=heat, seed=seed, free_text=free_text)
    raise UserError(f"no chat model {spec!r}; the chat models are {', '.join(CHAT_MODELS)}")


def default_limits(spec: str, *, policy: LivePolicy | None = None, checkpoint: Path | None = None) -> Limits:
    """Return the limits of a session with a model, where none are given; see `make_chat_model` for the arguments."""
    if spec == f"local:{SMOLLM2}":
        return session_size(SMOLLM2_PARAMETERS).limits
    if spec != "policy":
        return Limits()
    from envwright.agent.policy_model import policy_session

    return policy_session(policy, checkpoint).limits
