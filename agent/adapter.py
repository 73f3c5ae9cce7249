"""LoRA adapters: a folder with adapter_config.json and adapter_model.safetensors, and the base model that the first one names."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envwright.env.errors import UserError
from envwright.env.jsonio import read_json

__all__ = ["Adapter", "find_adapter"]

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_TOKENIZER = "tokenizer_config.json"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter on disk."""

    folder: Path
    """The adapter's folder."""
    base: Path
    """Folder of the model that it adapts."""

    @property
    def tokenizer(self) -> Path:
        """Folder of the tokenizer: the adapter's own, or else the base model's."""
        return self.folder if (self.folder / _TOKENIZER).is_file() else self.base

    def applied(self, model: Any) -> Any:
        """Return the base model with the adapter in it, for evaluation.

        Raises:
            OSError, ValueError, KeyError, RuntimeError: the adapter does not fit the model.
        """
        from peft import PeftModel

        return PeftModel.from_pretrained(model, str(self.folder), is_trainable=False)


def find_adapter(folder: Path) -> Adapter | None:
    """Return the adapter that a folder holds, None for a folder of a whole model.

    Raises:
        UserError: peft is not installed, the adapter is not whole, or its base model is not where it says; one line with the fix.
    """
    if not (folder / _CONFIG).is_file() or (folder / "config.json").is_file():
        return None
    if not (folder / _WEIGHTS).is_file():
        raise UserError(f"{folder}: holds {_CONFIG} and no {_WEIGHTS}; save the adapter as safetensors (peft's save_pretrained does)")
    if importlib.util.find_spec("peft") is None:
        raise UserError(f"{folder}: is a LoRA adapter, and reading it needs the package peft: pip install peft, or give a merged model")
    raw = read_json(folder / _CONFIG)
    named = raw.get("base_model_name_or_path") if isinstance(raw, dict) else None
    if not isinstance(named, str) or not named:
        raise UserError(f"{folder / _CONFIG}: names no base model; write its folder under base_model_name_or_path")
    if not (Path(named) / "config.json").is_file():
        raise UserError(
            f"{folder}: is a LoRA adapter of {named!r}, which is no folder of a model here (nothing is downloaded); "
            f"put it back, or write its folder under base_model_name_or_path in {_CONFIG}"
        )
    return Adapter(folder, Path(named))
