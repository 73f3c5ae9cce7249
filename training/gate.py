"""The gate: when validation falls by more than the tolerance, the next stage goes back to the best config so far."""

from __future__ import annotations

from envwright.agent.messages import Usage
from envwright.agent.redesign import Redesign
from envwright.agent.stop import StopReason
from envwright.env.config import GeneratorConfig
from envwright.env.patch import Edit, Patch, apply_patch, diff_configs
from envwright.tools.evidence import StageRecord

__all__ = ["return_to"]


def return_to(best: StageRecord, config: GeneratorConfig, record: StageRecord, tolerance: float) -> Redesign:
    """Return the gate's patch: back to the config of the best stage so far."""
    reason = (
        f"gate: validation fell from {best.validation.valid:.3f} (stage {best.stage}) to {record.validation.valid:.3f}, "
        f"more than the tolerance {tolerance:g}; back to the config of stage {best.stage}"
    )
    diff = diff_configs(config, best.config)
    paths = [change.path for change in diff if not change.path.endswith("/data_ratio")]
    if len(paths) < len(diff):
        paths += [f"/sizes/{bucket}/data_ratio" for bucket in config.sizes]
    edits = tuple(Edit(path=path, value=_knob(best.config, path), reason=reason) for path in paths)
    patch = Patch(summary=reason, edits=edits)
    after = apply_patch(config, patch)
    return Redesign(patch, after, diff_configs(config, after), StopReason.GATE, reason, Usage())


def _knob(config: GeneratorConfig, path: str) -> float:
    _, _, bucket, knob = path.split("/")
    value: float = getattr(config.sizes[bucket], knob)
    return value
