"""The run folder: what a run writes, where, and when it counts.

Every file is written under a temporary name, synced and renamed. A stage's `DONE` comes last: a stage without it never
happened, and `--resume` does it again from the start. Wall-clock times go to events.jsonl and summary.json alone, so
everything else is the same, byte for byte, for a broken and an unbroken run. Reading a run's evidence does not import torch.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envwright import __version__
from envwright.env.config import GeneratorConfig, read_config
from envwright.env.errors import UserError
from envwright.env.instance import Instance, read_instances
from envwright.env.jsonio import dump_json, read_json, read_json_lines, sync_folder, write_json, write_json_lines
from envwright.env.patch import Patch, read_patch
from envwright.env.rollout import Rollout, read_rollouts
from envwright.training.settings import RunSettings

if TYPE_CHECKING:
    from envwright.training.policy import PocketPolicy

__all__ = ["RunStore", "StageFolder"]

_PACKAGES = ("torch", "transformers", "trl", "datasets", "accelerate", "numpy")


class StageFolder:
    """One stage's files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def done(self) -> bool:
        """True when the stage is whole."""
        return (self.path / "DONE").is_file()

    @property
    def transcript(self) -> Path:
        """Where the engineer's conversation goes."""
        return self.path / "engineer" / "transcript.jsonl"

    @property
    def checkpoint(self) -> Path:
        """Weights, tokenizer and optimizer state after the stage."""
        return self.path / "checkpoint"

    def begin(self, config: GeneratorConfig) -> None:
        """Start the stage afresh, whatever an interrupted try left behind."""
        shutil.rmtree(self.path, ignore_errors=True)
        write_json(self.path / "config.json", config.to_json())

    def finish(self) -> None:
        """Declare the stage whole."""
        write_json(self.path / "DONE", {"files": sorted(str(p.relative_to(self.path)) for p in self.path.rglob("*") if p.is_file())})

    def write_instances(self, instances: Iterable[Instance]) -> None:
        """Write the boards that the stage trains on."""
        write_json_lines(self.path / "instances.jsonl", (instance.to_json() for instance in instances))

    def read_instances(self) -> list[Instance]:
        """Read the boards that the stage trained on."""
        return read_instances(self.path / "instances.jsonl")

    def write_rollouts(self, name: str, rollouts: Iterable[Rollout]) -> None:
        """Write `validation` or `train_rollouts`."""
        write_json_lines(self.path / f"{name}.jsonl", (rollout.to_json() for rollout in rollouts))

    def read_rollouts(self, name: str) -> list[Rollout]:
        """Read `validation` or `train_rollouts`."""
        return read_rollouts(self.path / f"{name}.jsonl")

    def write_metrics(self, steps: Iterable[dict[str, Any]]) -> None:
        """Write one line per optimizer step."""
        write_json_lines(self.path / "metrics.jsonl", steps)

    def write_checkpoint(self, policy: PocketPolicy, optimizer_state: dict[str, Any]) -> None:
        """Write the checkpoint under a temporary name, sync it, and rename the whole folder."""
        import torch

        temporary = self.path / "checkpoint.partial"
        shutil.rmtree(temporary, ignore_errors=True)
        policy.save(temporary)
        torch.save(optimizer_state, temporary / "optimizer.pt")
        for file in temporary.iterdir():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
        temporary.replace(self.checkpoint)
        sync_folder(self.path)

    def read_checkpoint(self) -> tuple[PocketPolicy, dict[str, Any]]:
        """Load policy and optimizer state."""
        import torch

        from envwright.training.policy import load_policy

        policy = load_policy(str(self.checkpoint))
        state = self.checkpoint / "optimizer.pt"
        if not state.is_file():
            raise UserError(f"{state}: missing; the stage cannot be continued from. Remove {self.path} and run --resume again")
        optimizer_state: dict[str, Any] = torch.load(state, weights_only=True)
        return policy, optimizer_state

    def config(self) -> GeneratorConfig:
        """The config that the stage trained on."""
        return read_config(self.path / "config.json")

    def patch(self) -> Patch | None:
        """The patch accepted after the stage, None when the config was kept."""
        path = self.path / "engineer" / "patch.json"
        return read_patch(path) if path.is_file() else None

    def outcome(self) -> dict[str, Any]:
        """How the stage ended: figures of summary.json and the engineer's stop reason."""
        value: dict[str, Any] = read_json(self.path / "engineer" / "outcome.json")
        return value


class RunStore:
    """A run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, settings: RunSettings) -> RunStore:
        """Start a new run folder.

        Raises:
            UserError: the folder exists and is not empty.
        """
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UserError(f"{path} exists already: continue it with --resume, or choose another folder with --out")
        store = cls(path)
        versions = {name: metadata.version(name) for name in _PACKAGES}
        write_json(path / "run.json", {"settings": settings.to_json(), "versions": {"envwright": __version__, **versions}})
        return store

    @classmethod
    def resume(cls, path: Path, settings: RunSettings) -> RunStore:
        """Open a run folder to continue it.

        Raises:
            UserError: there is no run, or its settings differ (the keys are named).
        """
        store = cls(path)
        if not (path / "run.json").is_file():
            raise UserError(f"{path} holds no run to resume (no run.json); leave out --resume to start one")
        before = _flat(read_json(path / "run.json")["settings"])
        now = _flat(settings.to_json())
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        if changed:
            details = ", ".join(f"{key} was {before.get(key)!r} and is {now.get(key)!r}" for key in changed[:4])
            raise UserError(f"{path} was started with other settings: {details}; resume with the same ones, or start a new run with --out")
        return store

    @classmethod
    def open(cls, path: Path) -> RunStore:
        """Open a run folder to read it.

        Raises:
            UserError: there is no run.
        """
        if not (path / "run.json").is_file():
            raise UserError(f"{path}: no run here (no run.json); give the folder that `envwright run --out` wrote")
        return cls(path)

    def settings(self) -> RunSettings:
        """The run's settings."""
        return RunSettings.parse(read_json(self.path / "run.json")["settings"], str(self.path / "run.json"))

    def stage(self, number: int) -> StageFolder:
        """The folder of a stage."""
        return StageFolder(self.path / "stages" / f"{number:02d}")

    def finished_stages(self) -> int:
        """Number of stages that are whole, counted from 0 without a gap."""
        number = 0
        while self.stage(number).done:
            number += 1
        return number

    def seconds(self, number: int) -> float | None:
        """Wall-clock seconds that a finished stage took, from the events."""
        found = None
        for _, event in read_json_lines(self.path / "events.jsonl"):
            if event.get("event") == "stage_finished" and event.get("stage") == number:
                found = event["seconds"]
        return found

    def event(self, kind: str, **details: Any) -> None:
        """Append one line to events.jsonl."""
        line = dump_json({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": kind, **details})
        with (self.path / "events.jsonl").open("a", encoding="utf-8", newline="\n") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {key: leaf for name, item in value.items() for key, leaf in _flat(item, f"{prefix}.{name}" if prefix else str(name)).items()}
    return {prefix: json.loads(json.dumps(value))}
