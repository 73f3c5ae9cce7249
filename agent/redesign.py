"""What an engineer hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envwright.agent.messages import Usage
from envwright.agent.stop import StopReason
from envwright.env.config import GeneratorConfig
from envwright.env.patch import Change, Patch, PatchCheck, PatchProblem

__all__ = ["Redesign"]


@dataclass(frozen=True, slots=True)
class Redesign:
    """The decision between two stages."""

    patch: Patch | None
    """The accepted patch; None when the config is kept."""
    config: GeneratorConfig
    """The next config: the patched one, or the same."""
    diff: tuple[Change, ...]
    """Every knob that changes."""
    stop_reason: StopReason
    """Why the session ended."""
    note: str
    """The reason in words."""
    usage: Usage
    """What the session used."""
    warnings: tuple[PatchProblem, ...] = ()
    """What to know about the accepted patch."""

    @classmethod
    def of(cls, config: GeneratorConfig, accepted: PatchCheck | None, stop_reason: StopReason, note: str, usage: Usage) -> Redesign:
        """Return the redesign of a session over `config`."""
        if accepted is None:
            return cls(None, config, (), stop_reason, note, usage)
        return cls(accepted.patch, accepted.config, accepted.diff, stop_reason, note, usage, accepted.warnings)

    def to_json(self) -> dict[str, Any]:
        """Return the keys that `envwright redesign --json` prints, and more."""
        return {
            "patch": None if self.patch is None else self.patch.to_json(),
            "stop_reason": self.stop_reason.value,
            "note": self.note,
            "diff": [change.to_json() for change in self.diff],
            "config": self.config.to_json(),
            "warnings": [warning.to_json() for warning in self.warnings],
            "usage": {**self.usage.to_json(), "total_tokens": self.usage.total_tokens},
        }
