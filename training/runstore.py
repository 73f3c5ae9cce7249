"""The run folder: what a run writes, where, and when it counts.

Every file is written under a temporary name, synced and renamed. A stage's `DONE` comes last: `--resume` does a stage without
it again, from the newest checkpoint inside it that is whole (`grpo.save_steps`), or else from its start. Wall-clock times go to
events.jsonl and summary.json alone, so everything else is the same, byte for byte, for a broken and an unbroken run. Reading a
run's evidence does not import torch.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envwright import __version__
from envwright.env.config import GeneratorConfig, read_config
from envwright.env.errors import UserError
from envwright.env.instance import Instance, read_instances
from envwright.env.jsonio import dump_json, parse_json, read_json, read_json_lines, remove_temporary_files, write_json, write_json_lines
from envwright.env.patch import Patch, read_patch
from envwright.env.rollout import Rollout, read_rollouts
from envwright.training.checkpoints import commit, fault
from envwright.training.processes import by_main, num_processes, share
from envwright.training.settings import FREE_AFTER_STAGE_0, RunSettings

if TYPE_CHECKING:
    import torch

    from envwright.training.policies.policy import Policy

__all__ = ["RunStore", "StageFolder"]

_KEPT_STATES = 2
"""Checkpoints inside a stage whose weights are kept: the newest, and one in case that it is damaged."""
_TRAINED = "TRAINED"
_FREE_ON_RESUME = ("report_to", "log_completions", "grpo.no_signal_steps", "grpo.max_logp_gap")
"""Settings that change what a person follows, or when a run stops, but nothing of what it computes."""
_PACKAGES = ("torch", "transformers", "trl", "datasets", "accelerate", "peft", "numpy")


class StageFolder:
    """One stage's files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def done(self) -> bool:
        """True when the stage is whole."""
        return (self.path / "DONE").is_file()

    @property
    def trained(self) -> bool:
        """True when the stage is trained, validated and saved, so that only the engineer's decision is missing."""
        return (self.path / _TRAINED).is_file() and fault(self.checkpoint) is None

    @property
    def transcript(self) -> Path:
        """Where the engineer's conversation goes."""
        return self.path / "engineer" / "transcript.jsonl"

    @property
    def checkpoint(self) -> Path:
        """Weights, tokenizer and optimizer state after the stage."""
        return self.path / "checkpoint"

    @property
    def progress(self) -> Path:
        """Checkpoints inside the stage, one folder per saved step, until the stage is whole."""
        return self.path / "progress"

    @by_main
    def begin(self, config: GeneratorConfig) -> None:
        """Start the stage afresh, whatever an interrupted try left behind."""
        shutil.rmtree(self.path, ignore_errors=True)
        write_json(self.path / "config.json", config.to_json())

    @by_main
    def go_on(self) -> None:
        """Clear away what an interrupted try wrote after its last checkpoint, half-written files too."""
        shutil.rmtree(self.path / "engineer", ignore_errors=True)
        remove_temporary_files(self.path)

    @by_main
    def save_progress(
        self,
        step: int,
        policy: Policy,
        optimizer_state: dict[str, Any],
        rng_states: Sequence[torch.Tensor],
        rollouts: Iterable[Rollout],
        metrics: Iterable[dict[str, Any]],
    ) -> None:
        """Commit a checkpoint inside the stage: rollouts and metrics since the one before, then weights, optimizer and generator.

        The weights of all but the newest two are removed; the rollouts are still needed.
        """

        def write_log(folder: Path) -> None:
            write_json_lines(folder / "rollouts.jsonl", (rollout.to_json() for rollout in rollouts))
            write_json_lines(folder / "metrics.jsonl", metrics)

        commit(self.progress / f"{step:06d}.log", write_log)
        commit(self.progress / f"{step:06d}.state", lambda folder: _save_state(folder, policy, optimizer_state, rng_states))
        for old in self._saved("state")[:-_KEPT_STATES]:
            shutil.rmtree(self.progress / f"{old:06d}.state", ignore_errors=True)

    def newest_progress(self) -> tuple[int, list[str]]:
        """Return the newest step from which the unfinished stage can go on, 0 for none, and what is wrong with newer ones."""
        wrong: list[str] = []
        logs = self._saved("log")
        for step in reversed(self._saved("state")):
            folders = [self.progress / f"{earlier:06d}.log" for earlier in logs if earlier <= step] + [self.progress / f"{step:06d}.state"]
            faults = [found for folder in folders if (found := fault(folder)) is not None]
            if not faults:
                return step, wrong
            wrong.append(faults[0])
        return 0, wrong

    @by_main
    def forget_after(self, step: int) -> None:
        """Remove checkpoints inside the stage that are newer than a step."""
        for kind in ("log", "state"):
            for later in self._saved(kind):
                if later > step:
                    shutil.rmtree(self.progress / f"{later:06d}.{kind}")

    def read_progress(
        self, step: int, settings: RunSettings
    ) -> tuple[Policy, dict[str, Any], list[torch.Tensor], list[Rollout], list[dict[str, Any]]]:
        """Read policy, optimizer, generators, and the rollouts and metrics up to a step."""
        import torch

        logs = [self.progress / f"{saved:06d}.log" for saved in self._saved("log")]
        rollouts = [rollout for log in logs for rollout in read_rollouts(log / "rollouts.jsonl")]
        metrics = [line for log in logs for _, line in read_json_lines(log / "metrics.jsonl")]
        state = self.progress / f"{step:06d}.state"
        return *_load_state(state, settings), torch.load(state / "rng.pt", weights_only=True), rollouts, metrics

    def _saved(self, kind: str) -> list[int]:
        """Steps that have a log or a state, in order, whole or not."""
        return sorted(int(path.stem) for path in self.progress.glob(f"*.{kind}") if path.stem.isdigit())

    @by_main
    def mark_trained(self) -> None:
        """Declare the stage trained and validated; checkpoints inside it have served their purpose."""
        write_json(self.path / _TRAINED, {})
        shutil.rmtree(self.progress, ignore_errors=True)

    @by_main
    def finish(self) -> None:
        """Declare the stage whole."""
        write_json(self.path / "DONE", {"files": sorted(str(p.relative_to(self.path)) for p in self.path.rglob("*") if p.is_file())})

    @by_main
    def write_instances(self, instances: Iterable[Instance]) -> None:
        """Write the boards that the stage trains on."""
        write_json_lines(self.path / "instances.jsonl", (instance.to_json() for instance in instances))

    def read_instances(self) -> list[Instance]:
        """Read the boards that the stage trained on."""
        return read_instances(self.path / "instances.jsonl")

    @by_main
    def write_rollouts(self, name: str, rollouts: Iterable[Rollout]) -> None:
        """Write `validation`, `validation_greedy` or `train_rollouts`."""
        write_json_lines(self.path / f"{name}.jsonl", (rollout.to_json() for rollout in rollouts))

    def read_rollouts(self, name: str) -> list[Rollout]:
        """Read `validation`, `validation_greedy` or `train_rollouts`."""
        return read_rollouts(self.path / f"{name}.jsonl")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Read one line per optimizer step."""
        return [line for _, line in read_json_lines(self.path / "metrics.jsonl")]

    @by_main
    def write_metrics(self, steps: Iterable[dict[str, Any]]) -> None:
        """Write one line per optimizer step."""
        write_json_lines(self.path / "metrics.jsonl", steps)

    @by_main
    def write_checkpoint(self, policy: Policy, optimizer_state: dict[str, Any]) -> None:
        """Commit the checkpoint after the stage."""
        commit(self.checkpoint, lambda folder: _save_state(folder, policy, optimizer_state))

    def read_checkpoint(self, settings: RunSettings) -> tuple[Policy, dict[str, Any]]:
        """Load policy and optimizer state, held against their manifest."""
        wrong = fault(self.checkpoint)
        if wrong is not None:
            raise UserError(f"{wrong}; the stage cannot be continued from. Remove {self.path} and run --resume again")
        return _load_state(self.checkpoint, settings)

    @by_main
    def write_decision(self, outcome: dict[str, Any], patch: Patch | None) -> None:
        """Write how the stage ended and, where there is one, the patch."""
        write_json(self.path / "engineer" / "outcome.json", outcome)
        if patch is not None:
            write_json(self.path / "engineer" / "patch.json", patch.to_json())

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
    def create(cls, path: Path, settings: RunSettings, policy: dict[str, Any] | None = None) -> RunStore:
        """Start a new run folder.

        Args:
            path: the folder.
            settings: what the run depends on.
            policy: the provenance of what it begins with: templates and their hashes.

        Raises:
            UserError: the folder exists and is not empty.
        """
        if share(_is_in_use(path)):
            raise UserError(f"{path} exists already: continue it with --resume, or choose another folder with --out")
        store = cls(path)
        _clear(path)
        versions = {name: metadata.version(name) for name in _PACKAGES}
        about = {} if policy is None else {"policy": policy}
        run = {
            "settings": settings.to_json(),
            "versions": {"envwright": __version__, **versions},
            **about,
            "num_processes": num_processes(),
        }
        _write_run(path, run)
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
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key) and key not in _FREE_ON_RESUME]
        if changed:
            details = ", ".join(f"{key} was {before.get(key)!r} and is {now.get(key)!r}" for key in changed[:4])
            raise UserError(f"{path} was started with other settings: {details}; resume with the same ones, or start a new run with --out")
        processes = read_json(path / "run.json").get("num_processes", 1)
        if processes != num_processes():
            raise UserError(
                f"{path} was started with {processes} processes and is resumed with {num_processes()}; launch as many as before"
            )
        _clear(path)
        return store

    @classmethod
    def branch(cls, source: RunStore, path: Path, settings: RunSettings) -> RunStore:
        """Start a run from another one's first stage, trained but not yet engineered, and its held-out figures before training.

        Args:
            source: the run whose stage 0 is trained, see `run_stages`.
            path: folder of the new run.
            settings: its settings; they agree with the source's in all that the stage depends on.

        Raises:
            UserError: the stage is not there, the settings differ (the keys are named), or the folder is in use.
        """
        stage = source.stage(0)
        if not stage.trained:
            raise UserError(f"{source.path}: stage 0 is not trained yet, so no run can go on from it")
        now, before = _flat(settings.to_json()), _flat(source.settings().to_json())
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key) and key.split(".")[0] not in FREE_AFTER_STAGE_0]
        if changed:
            raise UserError(f"{source.path}: its first stage cannot be shared, for the settings differ in {', '.join(changed[:4])}")
        store = cls.create(path, settings, read_json(source.path / "run.json").get("policy"))
        skipped = shutil.ignore_patterns("engineer", "DONE", ".*")
        temporary = path / "stages" / ".00"
        shutil.copytree(stage.path, temporary, copy_function=_link, ignore=skipped)
        if source.heldout.is_dir():
            shutil.copytree(source.heldout, store.heldout, copy_function=_link, ignore=shutil.ignore_patterns("final*", ".*"))
        if source.warm.path.is_dir():
            shutil.copytree(source.warm.path, store.warm.path, copy_function=_link, ignore=shutil.ignore_patterns(".*"))
        temporary.replace(store.stage(0).path)
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

    @property
    def warm(self) -> StageFolder:
        """The folder of the warm start, with a checkpoint and metrics like a stage's."""
        return StageFolder(self.path / "warm_start")

    @by_main
    def write(self, name: str, document: dict[str, Any]) -> None:
        """Write one of the run's JSON documents."""
        write_json(self.path / name, document)

    @by_main
    def write_heldout(self, name: str, rollouts: Iterable[Rollout]) -> None:
        """Write rollouts on held-out boards, `base_greedy` for instance."""
        write_json_lines(self.heldout / f"{name}.jsonl", (rollout.to_json() for rollout in rollouts))

    @property
    def heldout(self) -> Path:
        """Folder of the rollouts on held-out boards, before and after the run."""
        return self.path / "heldout"

    def finished_stages(self) -> int:
        """Number of stages that are whole, counted from 0 without a gap."""
        number = 0
        while self.stage(number).done:
            number += 1
        return number

    def resumable_stages(self) -> tuple[int, list[str]]:
        """Return how many finished stages can be built upon, and what is wrong with those that cannot.

        Only the newest stage's checkpoint is needed; where it is not whole, the one before it is taken.
        """
        number, wrong = self.finished_stages(), []
        while number and (found := fault(self.stage(number - 1).checkpoint)) is not None:
            wrong.append(found)
            number -= 1
        return number, wrong

    @by_main
    def retain(self, limit: int | None) -> None:
        """Remove the checkpoints of all but the newest `limit` finished stages; None keeps them all."""
        if limit is not None:
            for number in range(self.finished_stages() - limit):
                shutil.rmtree(self.stage(number).checkpoint, ignore_errors=True)

    def seconds(self, number: int) -> float | None:
        """Wall-clock seconds that a finished stage took, from the events."""
        found = None
        for event in self.events():
            if event.get("event") == "stage_finished" and event.get("stage") == number:
                found = event["seconds"]
        return found

    def events(self) -> list[dict[str, Any]]:
        """What happened, in order; a last line that a kill cut off is left out."""
        file = self.path / "events.jsonl"
        if not file.is_file():
            return []
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
        return [parse_json(line, f"{file} line {number}") for number, line in enumerate(lines, start=1)]

    @by_main
    def event(self, kind: str, **details: Any) -> None:
        """Append one line to events.jsonl."""
        line = dump_json({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": kind, **details})
        with (self.path / "events.jsonl").open("ab+") as file:
            written = file.seek(0, os.SEEK_END)
            file.seek(0)
            whole = file.read().rpartition(b"\n")[0]
            if written and len(whole) + 1 < written:  # a kill cut the last line off
                file.truncate(len(whole) + 1 if whole else 0)
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _is_in_use(path: Path) -> bool:
    """True when a folder holds more than what is left of a run that was killed before it began."""
    return path.exists() and (not path.is_dir() or not all(entry.name.startswith(".run.json.") for entry in path.iterdir()))


@by_main
def _clear(path: Path) -> None:
    if path.exists():
        remove_temporary_files(path)


@by_main
def _write_run(path: Path, run: dict[str, Any]) -> None:
    write_json(path / "run.json", run)


def _link(source: str, target: str) -> None:
    """Give a file a second name, or copy it where the file system cannot; run files are replaced as a whole, never changed."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _save_state(folder: Path, policy: Policy, optimizer_state: dict[str, Any], rng_states: Sequence[torch.Tensor] = ()) -> None:
    """Write weights, tokenizer, optimizer state and, inside a stage, the generator's."""
    import torch

    policy.save(folder)
    torch.save(optimizer_state, folder / "optimizer.pt")
    if rng_states:
        torch.save(list(rng_states), folder / "rng.pt")


def _load_state(folder: Path, settings: RunSettings) -> tuple[Policy, dict[str, Any]]:
    """Read what `_save_state` wrote."""
    import torch

    from envwright.training.policies.policy import base_folder, load_policy

    optimizer_state: dict[str, Any] = torch.load(folder / "optimizer.pt", map_location="cpu", weights_only=True)
    policy = load_policy(str(folder), settings)
    policy.model.config._name_or_path = str(base_folder(settings.policy))  # where TRL finds the reference model of a KL term
    return policy, optimizer_state


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {key: leaf for name, item in value.items() for key, leaf in _flat(item, f"{prefix}.{name}" if prefix else str(name)).items()}
    return {prefix: json.loads(json.dumps(value))}
