"""What a comparison runs: its arms, its seeds, the settings of every run, and the first stages that runs share.

An arm is an engineer, or any settings on top of the common ones. Runs of one seed whose settings agree in all that the first
stage depends on share it: it is trained once, and every one of them goes on from the same checkpoint.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json
from envwright.training.settings import FREE_AFTER_STAGE_0, RunSettings, load_settings

__all__ = ["Arm", "Cell", "Plan", "arms_of", "differences", "first_stage", "parse_seeds", "stored_differences"]

FIXED = "fixed"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of the comparison."""

    name: str
    """Name of its folder, and of its rows in every table."""
    overrides: tuple[str, ...]
    """Its settings on top of the common ones, `key=value`; an engineer's arm has `engineer=SPEC`."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: an arm with a seed."""

    arm: str
    """Name of the arm."""
    seed: int
    """The run's seed."""
    settings: RunSettings
    """The run's settings."""
    group: str | None
    """Whose first stage it shares; None when no other run has the same."""

    @property
    def name(self) -> str:
        """Name for logs and lines."""
        return f"{self.arm}-seed{self.seed}"

    @property
    def run(self) -> str:
        """Its run folder, relative to the comparison's."""
        return f"runs/{self.arm}/seed{self.seed}"

    @property
    def shared(self) -> str | None:
        """Folder of the first stage that it shares, relative to the comparison's."""
        return None if self.group is None else f"shared/{self.group}-seed{self.seed}"


class Plan:
    """A comparison's arms and seeds, with the settings of every run resolved.

    Args:
        source: a preset's name or a settings file.
        arms: the sides, at least one.
        seeds: seeds of the runs.
        overrides: `key=value` for all arms.
        baseline: the arm that differences are taken against; None: `fixed` where there is one, else the first.

    Raises:
        UserError: no or repeated arms or seeds, a setting that is unknown or that arms may not differ in, no such baseline.
    """

    def __init__(
        self, source: str, arms: Sequence[Arm], seeds: Sequence[int], overrides: Sequence[str] = (), baseline: str | None = None
    ) -> None:
        _check_names([arm.name for arm in arms])
        self.source, self.arms, self.seeds, self.overrides = source, tuple(arms), tuple(seeds), tuple(overrides)
        names = [arm.name for arm in arms]
        if baseline is not None and baseline not in names:
            raise UserError(f"--baseline {baseline}: no such arm; the arms are {', '.join(names)}")
        self.baseline = baseline or (FIXED if FIXED in names else names[0])
        for text in (*overrides, *(override for arm in arms for override in arm.overrides)):
            if text.split("=", 1)[0] == "seed":
                raise UserError(f"{text}: seeds are given by --seeds, the same ones for every arm")
        self.common = load_settings(source, list(overrides))
        self.cells = tuple(self._resolve())
        self._check_measured_alike()

    def _resolve(self) -> Iterator[Cell]:
        for seed in self.seeds:
            settings = {arm.name: self._settings(arm, seed) for arm in self.arms}
            groups = {name: _digest(first_stage(of_arm)) for name, of_arm in settings.items()}
            members = list(groups.values())
            for name, of_arm in settings.items():
                is_shared = of_arm.num_stages > 1 and members.count(groups[name]) > 1
                yield Cell(name, seed, of_arm, groups[name] if is_shared else None)

    def _settings(self, arm: Arm, seed: int) -> RunSettings:
        try:
            return load_settings(self.source, [*self.overrides, *arm.overrides, f"seed={seed}"])
        except UserError as error:
            raise UserError(f"arm {arm.name!r}: {error}") from None

    def _check_measured_alike(self) -> None:
        """Refuse arms whose rates could not be compared."""
        first = self.cells[0]
        for cell in self.cells:
            if cell.settings.evaluation != first.settings.evaluation:
                changed = differences(first.settings.to_json()["evaluation"], cell.settings.to_json()["evaluation"])
                keys = ", ".join(f"evaluation.{key}" for key in changed)
                raise UserError(
                    f"arms {first.arm!r} and {cell.arm!r} differ in {keys}: every arm is measured on the same boards; use --set"
                )
            if cell.settings.approval == "human":
                raise UserError(f"arm {cell.arm!r}: approval=human would wait for a person; the runs of a comparison are unattended")

    def settings_of(self, arm: str) -> RunSettings:
        """An arm's settings, with its first seed."""
        return next(cell.settings for cell in self.cells if cell.arm == arm)

    def shared(self) -> dict[str, list[Cell]]:
        """The first stages that are computed once: folder -> the runs that go on from it."""
        found: dict[str, list[Cell]] = {}
        for cell in self.cells:
            if cell.shared is not None:
                found.setdefault(cell.shared, []).append(cell)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data: what `compare.json` keeps of a plan."""
        common = self.common.to_json()
        del common["seed"]
        return {
            "schema_version": 1,
            "preset": self.source,
            "baseline": self.baseline,
            "seeds": list(self.seeds),
            "settings": common,
            "arms": [
                {"name": arm.name, "engineer": (of_arm := self.settings_of(arm.name)).engineer, "overrides": dict(_pairs(common, of_arm))}
                for arm in self.arms
            ],
            "shared": {folder: [cell.arm for cell in cells] for folder, cells in self.shared().items()},
        }


def arms_of(engineers: str | None, given: Sequence[str]) -> list[Arm]:
    """Read `--engineers A,B` and every `--arm NAME:KEY=VALUE,...`.

    Raises:
        UserError: no arm, or one that cannot be read.
    """
    arms = []
    for spec in (engineers or "").split(",") if engineers is not None else ():
        if not spec.strip():
            raise UserError(f"--engineers {engineers!r}: an empty name; expected A,B,... such as rule,fixed,random")
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", spec.strip()).strip("-.")
        arms.append(Arm(name, (f"engineer={spec.strip()}",)))
    for text in given:
        name, colon, rest = text.partition(":")
        pairs = re.split(r",(?=[A-Za-z_][A-Za-z0-9_.]*=)", rest)
        if not colon or not all("=" in pair for pair in pairs):
            raise UserError(f"--arm {text!r}: expected NAME:KEY=VALUE[,KEY=VALUE], such as --arm valid-only:grpo.efficiency_weight=0")
        arms.append(Arm(name, tuple(pairs)))
    if not arms:
        raise UserError("nothing to compare: give --engineers A,B,... or --arm NAME:KEY=VALUE")
    return arms


def parse_seeds(text: str) -> list[int]:
    """Read `0,1,2`.

    Raises:
        UserError: not whole numbers from 0, or one twice.
    """
    seeds = []
    for part in text.split(","):
        if not part.strip().isdecimal():
            raise UserError(f"--seeds {text!r}: {part.strip()!r} is no seed; expected whole numbers from 0, such as 0,1,2")
        seeds.append(int(part))
    repeated = [seed for seed in seeds if seeds.count(seed) > 1]
    if repeated:
        raise UserError(f"--seeds {text!r}: seed {repeated[0]} is there twice; a run repeated with its seed tells nothing new")
    return seeds


def first_stage(settings: RunSettings) -> RunSettings:
    """Return the settings of a run that does the first stage for others: everything that the stage does not depend on is plain."""
    plain = {
        key: RunSettings.model_fields[key].get_default(call_default_factory=True) for key in FREE_AFTER_STAGE_0 if key != "description"
    }
    return settings.model_copy(update={**plain, "engineer": FIXED})


def stored_differences(stored: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Say how a plan differs from the one that a folder was started with, or None; arms and seeds may be added.

    Args:
        stored: `Plan.to_json()` of the folder.
        now: `Plan.to_json()` of the command.
    """
    changed = differences(stored["settings"], now["settings"], free=("description",))
    if changed:
        return ", ".join(f"{key} was {before!r} and is {after!r}" for key, (before, after) in list(changed.items())[:4])
    arms = {arm["name"]: arm["overrides"] for arm in now["arms"]}
    for arm in stored["arms"]:
        if arm["name"] not in arms:
            return f"arm {arm['name']!r} is missing"
        if changed := differences(arm["overrides"], arms[arm["name"]]):
            key, (before, after) = next(iter(changed.items()))
            return f"arm {arm['name']!r}: {key} was {before!r} and is {after!r}"
    missing = [str(seed) for seed in stored["seeds"] if seed not in now["seeds"]]
    return f"seeds {', '.join(missing)} are missing" if missing else None


def differences(before: dict[str, Any], after: dict[str, Any], free: Sequence[str] = ()) -> dict[str, tuple[Any, Any]]:
    """Return the dotted keys in which two nested documents differ, with both values; the parts named by `free` may."""
    old, new = _flat(before), _flat(after)
    return {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key) and key.split(".")[0] not in free}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return a nested document as dotted keys and leaves."""
    if not isinstance(value, dict):
        return {prefix: value}
    return {key: leaf for name, item in value.items() for key, leaf in _flat(item, f"{prefix}.{name}" if prefix else str(name)).items()}


def _pairs(common: dict[str, Any], settings: RunSettings) -> Iterator[tuple[str, Any]]:
    """What an arm changes, as dotted keys and values."""
    for key, (_, value) in differences(common, settings.to_json(), free=("seed",)).items():
        yield key, value


def _digest(settings: RunSettings) -> str:
    """Eight digits that tell settings apart, the seed and the description aside."""
    kept = {key: value for key, value in settings.to_json().items() if key not in ("seed", "description")}
    return hashlib.sha256(dump_json(kept).encode("utf-8")).hexdigest()[:8]


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise UserError(f"arm {name!r}: a name has 1 to 64 letters, digits, dots, dashes and underscores, as it names a folder")
        if [other.lower() for other in names].count(name.lower()) > 1:
            raise UserError(f"arm {name!r} is there twice; give each arm its own name, such as --arm {name}-2:engineer=...")
