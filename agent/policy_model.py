"""The policy in training as the engineer: the same weights play and design (the paper's bold row)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envwright.agent.adapter import find_adapter
from envwright.agent.local_model import LocalModel
from envwright.agent.local_weights import LivePolicy
from envwright.agent.model_size import SessionSize, parameters_in_files, parameters_in_memory, session_size
from envwright.agent.models import ChatModel
from envwright.env.cells import VOCABULARY
from envwright.env.errors import UserError
from envwright.env.jsonio import read_json

__all__ = ["LivePolicy", "policy_model", "policy_session"]

_OTHERS = "take --engineer rule, local:PATH, local:smollm2 or openai:MODEL, or train a language model (policy = the path of one)"


def policy_model(policy: LivePolicy | None, checkpoint: Path | None, *, max_tokens: int | None = None, **options: Any) -> ChatModel:
    """Return the chat model in a run's policy, named `policy`.

    Args:
        policy: the model in memory, decoded as it is; it goes before the checkpoint.
        checkpoint: folder of the checkpoint, whole or a LoRA adapter; None for a run whose policy is the pocket policy.
        max_tokens: most tokens of one reply; default: by the model's size (`policy_session`).
        options: as `LocalModel` takes them.

    Raises:
        UserError: the checkpoint is the pocket policy, which is no language model, or there is none; an adapter whose base
            model or package is missing; a model in memory whose tokenizer has no chat template.
    """
    source = policy or checkpoint
    if source is None or (isinstance(source, Path) and _is_pocket(source)):
        raise UserError(f"engineer 'policy': the pocket policy reads and writes cells of a board and is no language model; {_OTHERS}")
    return LocalModel(source, name="policy", max_tokens=max_tokens or policy_session(policy, checkpoint).tokens, **options)


def policy_session(policy: LivePolicy | None, checkpoint: Path | None) -> SessionSize:
    """Return the session that a run's policy is given by its size."""
    if policy is not None:
        return session_size(parameters_in_memory(policy.model))
    if checkpoint is None:
        return session_size(None)
    adapter = find_adapter(checkpoint)
    return session_size(parameters_in_files(checkpoint if adapter is None else adapter.base))


def _is_pocket(checkpoint: Path) -> bool:
    """True for a checkpoint whose words are the cell notation, or which has no config of a language model."""
    if find_adapter(checkpoint) is not None:
        return False
    config = checkpoint / "config.json"
    if not config.is_file():
        if not checkpoint.is_dir():
            raise UserError(f"{checkpoint}: no such checkpoint folder; a finished stage has one at stages/NN/checkpoint")
        return True
    raw = dict(read_json(config))
    return "model_type" not in raw or raw.get("vocab_size") == len(VOCABULARY)
