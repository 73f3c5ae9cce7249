"""Patches that wait for a run: proposed by somebody, or approved by a person, for the decision after its latest finished stage.

They lie beside the engineer's own files, as `stages/NN/engineer/proposed.json` and `approved.json`. A proposal changes nothing.
An approved patch takes the place of what the run's engineer decided after that stage, when the run continues with `--resume`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from envwright.agent.transcript import config_hash
from envwright.env.base import FrozenModel
from envwright.env.errors import UserError
from envwright.env.jsonio import read_json, write_json
from envwright.env.patch import Patch, check_patch
from envwright.training.runstore import RunStore, StageFolder

__all__ = ["Status", "WaitingPatch", "approved_patch", "has_next_stage", "read_waiting", "waiting_path", "write_waiting"]

Status = Literal["proposed", "approved"]


class WaitingPatch(FrozenModel):
    """One file: a patch, who it is from, and the config that it was made for."""

    schema_version: Literal[1] = 1
    """Version of the file format."""
    status: Status
    """Whether a person (or `--approval auto`) has approved the patch."""
    stage: int = Field(ge=0)
    """The finished stage after which the patch applies."""
    config_hash: str
    """Hash of the stage's config, which the patch changes."""
    engineer: str
    """Who proposed the patch."""
    patch: Patch
    """The patch."""


def waiting_path(folder: StageFolder, status: Status) -> Path:
    """Return where a stage's proposed or approved patch lies."""
    return folder.path / "engineer" / f"{status}.json"


def write_waiting(store: RunStore, status: Status, patch: Patch, engineer: str) -> Path:
    """Write a patch for the decision after the run's latest finished stage; an approved one ends the wait of a proposed one.

    Raises:
        UserError: no stage is finished, the run has no next stage, or the patch does not apply to the stage's config.
    """
    stage = _open_decision(store)
    folder = store.stage(stage)
    config = folder.config()
    check = check_patch(config, patch.to_json())
    if not check.accepted:
        raise UserError(f"the patch does not apply to the config of stage {stage}: {'; '.join(error.message for error in check.errors)}")
    record = WaitingPatch(status=status, stage=stage, config_hash=config_hash(config), engineer=engineer, patch=patch)
    path = waiting_path(folder, status)
    write_json(path, record.to_json())
    if status == "approved":
        waiting_path(folder, "proposed").unlink(missing_ok=True)
    return path


def _open_decision(store: RunStore) -> int:
    finished = store.finished_stages()
    if finished == 0:
        raise UserError(f"{store.path}: no stage is finished yet; wait for it, or continue the run with --resume")
    if not has_next_stage(store):
        raise UserError(
            f"{store.path}: all {finished} stages are finished, so no stage is left to train on a patch; write it with --out FILE"
        )
    return finished - 1


def has_next_stage(store: RunStore) -> bool:
    """True when a stage of the run is not finished, so that a patch can still change what it trains on."""
    return store.finished_stages() < store.settings().num_stages


def read_waiting(folder: StageFolder, status: Status) -> WaitingPatch | None:
    """Read a stage's proposed or approved patch; None when there is none.

    Raises:
        UserError: the file is bad, or was made for another config.
    """
    path = waiting_path(folder, status)
    if not path.is_file():
        return None
    record = WaitingPatch.parse(read_json(path), str(path))
    if record.status != status or record.config_hash != config_hash(folder.config()):
        raise UserError(f"{path}: was made for another config or status; remove the file, or approve a patch again with `envwright chat`")
    return record


def approved_patch(folder: StageFolder) -> Patch | None:
    """Return the patch that a person approved for the decision after a stage, None when nobody did.

    Raises:
        UserError: as `read_waiting`.
    """
    record = read_waiting(folder, "approved")
    return None if record is None else record.patch
