"""Context modules: what an engineer is shown, each module by its own switch, and the variants V1 to V6 of the paper.

F failure breakdown, raw; G guideline; H history of configs and failures; S the model's own summary; T bookkeeping, or all of
the training's settings (arXiv 2606.17682, the ablation of context modules).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from envwright.env.base import FrozenModel
from envwright.env.errors import UserError

__all__ = ["DEFAULT_CONTEXT", "VARIANTS", "ContextModules", "parse_context"]

VARIANTS: dict[str, str] = {
    "V1": "F",
    "V2": "F,G",
    "V3": "F,G,H0",
    "V4": "F,G,H",
    "V5": "F,G,H,S",
    "V6": "F,G,H,T",
}
"""The paper's variants, spelled out: V3 has the history with the round-0 default, V4 to V6 without it."""

DEFAULT_CONTEXT = "V6"
"""The variant that did best in the paper."""

_MODULES: dict[str, tuple[str, Any]] = {
    "F": ("failures", True),
    "G": ("guideline", True),
    "H": ("history", "without_default"),
    "H0": ("history", "with_default"),
    "S": ("summary", True),
    "T": ("training", "bookkeeping"),
    "Tfull": ("training", "full"),
}
_NOTHING = "none"


class ContextModules(FrozenModel):
    """What an engineer is shown, module by module."""

    failures: bool = Field(default=False)
    """F: the raw failure breakdown per size and kind of board in the first message."""
    guideline: bool = Field(default=False)
    """G: what good redesigns have in common."""
    history: Literal["off", "with_default", "without_default"] = "off"
    """H: earlier configs and their failures, with or without those of round 0. What is off is not shown by the tools either."""
    summary: bool = Field(default=False)
    """S: the model writes a summary of the evidence before it decides (one more request)."""
    training: Literal["off", "bookkeeping", "full"] = "off"
    """T: where the run stands; full adds the training's hyper-parameters, which hurt in the paper."""

    @property
    def spec(self) -> str:
        """The shortest spelling that `parse_context` reads back: a variant's name, or the modules."""
        names = [name for name, (field, value) in _MODULES.items() if getattr(self, field) == value]
        spelled = ",".join(names) or _NOTHING
        return next((variant for variant, modules in VARIANTS.items() if modules == spelled), spelled)


def parse_context(spec: str) -> ContextModules:
    """Read a variant, modules, or a variant with more modules: "V4", "F,G,H", "V4,S", "none".

    Raises:
        UserError: an unknown or repeated name, or two that exclude each other; one line.
    """
    given = [name.strip() for name in spec.split(",")]
    if given == [_NOTHING]:
        return ContextModules()
    chosen: dict[str, tuple[str, Any]] = {}
    for name in (module for word in given for module in VARIANTS.get(word, word).split(",")):
        if name not in _MODULES:
            known = f"{', '.join(_MODULES)}, the variants {', '.join(VARIANTS)}, and {_NOTHING}"
            raise UserError(f"context {spec!r}: no module {name!r}; the modules are {known} (F,G,H)")
        field, value = _MODULES[name]
        if field in chosen:
            other = chosen[field][0]
            why = "is given twice" if other == name else f"and {other} exclude each other"
            raise UserError(f"context {spec!r}: {name} {why}; name each module once")
        chosen[field] = name, value
    return ContextModules(**{field: value for field, (_, value) in chosen.items()})
