"""The checkpoint in training as the engineer: the same weights play and design (the paper's bold row)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envwright.agent.local_model import LocalModel
from envwright.agent.models import ChatModel
from envwright.env.errors import UserError
from envwright.env.jsonio import read_json

__all__ = ["policy_model"]

_OTHERS = "take --engineer rule, local:PATH, local:smollm2 or openai:MODEL, or train a language model (policy = the path of one)"


def policy_model(checkpoint: Path | None, **options: Any) -> ChatModel:
    """Return the chat model in a run's checkpoint, named `policy`.

    Args:
        checkpoint: folder of the checkpoint; None for a run whose policy is the pocket policy.
        options: as `LocalModel` takes them.

    Raises:
        UserError: the checkpoint is the pocket policy, which is no language model, or there is none.
    """
    if checkpoint is None or _is_pocket(checkpoint):
        raise UserError(f"engineer 'policy': the pocket policy reads and writes cells of a board and is no language model; {_OTHERS}")
    return LocalModel(checkpoint, name="policy", **options)


def _is_pocket(checkpoint: Path) -> bool:
    """True for a checkpoint without the config of a language model."""
    config = checkpoint / "config.json"
    if not config.is_file():
        if not checkpoint.is_dir():
            raise UserError(f"{checkpoint}: no such checkpoint folder; a finished stage has one at stages/NN/checkpoint")
        return True
    return "model_type" not in dict(read_json(config))
