"""How large a language model is, and the session that it is given: a small model needs a small one."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envwright.agent.limits import Limits

__all__ = ["SMALL_MODEL", "SessionSize", "parameters_in_files", "parameters_in_memory", "session_size"]

SMALL_MODEL = 1_000_000_000
"""Parameters below which a model is small: it loses its way in a long session, and a processor has to be able to wait for it."""


@dataclass(frozen=True, slots=True)
class SessionSize:
    """What a session may use, unless somebody says otherwise."""

    tokens: int
    """Tokens of one reply."""
    limits: Limits
    """Bounds on the session."""


_SMALL = SessionSize(tokens=192, limits=Limits(request_limit=4))
"""A patch of two edits fits a reply; SmolLM2-135M writes it in about 15 s on one core, and the session in a minute or two."""
_LARGE = SessionSize(tokens=512, limits=Limits())


def session_size(parameters: int | None) -> SessionSize:
    """Return the session that a model of so many parameters is given; None, for a size that is not known, counts as large."""
    return _SMALL if parameters is not None and parameters < SMALL_MODEL else _LARGE


def parameters_in_memory(model: Any) -> int:
    """Count the parameters of a torch model; those that DeepSpeed has spread over processes count whole."""
    return sum(int(getattr(parameter, "ds_numel", parameter.numel())) for parameter in model.parameters())


def parameters_in_files(folder: Path) -> int | None:
    """Count the parameters in the safetensors files of a folder by their headers; None where there is no readable file."""
    files = sorted(folder.glob("model*.safetensors"))
    try:
        return sum(map(_parameters, files)) if files else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        return None  # whoever loads the weights says what is wrong with them


def _parameters(path: Path) -> int:
    """Sum up the shapes in a file's header: 8 bytes of length, then JSON."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > path.stat().st_size:
            raise ValueError("no safetensors header")
        header = json.loads(file.read(length))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
