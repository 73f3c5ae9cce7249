"""The manifest beside a benchmark file: which lines are which cell of the grid, and the digests that pin them.

An instance line has no room for its cell (unknown keys are refused), and a wait ratio is a property of a set of boards,
not of one. `FILE.manifest.json` says which lines of FILE belong to which cell. The digest is the SHA-256 of the file's
bytes: `sha256sum FILE` gives the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.benchmark import HOLE_RATIO, BenchmarkCell
from envwright.env.canonical import Split
from envwright.env.errors import UserError
from envwright.env.instance import Instance
from envwright.env.jsonio import dump_json, read_json, read_text, write_atomic, write_json

__all__ = ["Manifest", "ManifestCell", "digest_of", "manifest_of", "manifest_path", "read_wait_ratios", "wait_ratios_of", "write_benchmark"]


class ManifestCell(FrozenModel):
    """One cell of the grid: consecutive lines of the file."""

    num_agents: StrictInt = Field(ge=1)
    """Agents on each board."""
    size: StrictInt = Field(ge=1)
    """Side length N of the N x N boards."""
    wait_ratio: float = Field(ge=0.0, le=1.0, strict=True)
    """Share of the boards that are wait-required, as asked; the count is rounded half up."""
    hole_ratio: float = Field(ge=0.0, le=1.0, strict=True)
    """Share of cells that are holes, as asked; the number of holes is rounded half up."""
    holes: StrictInt = Field(ge=0)
    """Holes on each board."""
    wait_required: StrictInt = Field(ge=0)
    """Boards on which every optimal plan must wait."""
    first_line: StrictInt = Field(ge=1)
    """First line of the cell, counted from 1."""
    boards: StrictInt = Field(ge=1)
    """Lines of the cell."""
    sha256: str
    """SHA-256 of the cell's lines."""


class Manifest(FrozenModel):
    """What a benchmark file holds."""

    schema_version: Literal[1] = 1
    """Version of the file format."""
    set: str
    """Name of the set: `paper` or `in-distribution`."""
    split: Split = Split.BENCHMARK
    """Split that every board belongs to."""
    boards: StrictInt = Field(ge=1)
    """Lines of the file."""
    sha256: str
    """SHA-256 of the file."""
    cells: tuple[ManifestCell, ...]
    """The cells, in the order of their lines."""


def manifest_path(path: Path) -> Path:
    """Return the place of a benchmark file's manifest."""
    return path.with_name(f"{path.name}.manifest.json")


def _lines(instances: Iterable[Instance]) -> str:
    return "".join(dump_json(instance.to_json()) + "\n" for instance in instances)


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, 64 hex digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def manifest_of(name: str, cells: Sequence[BenchmarkCell]) -> Manifest:
    """Return the manifest of the file that holds `cells` one after the other."""
    described: list[ManifestCell] = []
    line = 1
    for cell in cells:
        described.append(
            ManifestCell(
                num_agents=cell.num_agents,
                size=cell.size,
                wait_ratio=cell.wait_ratio,
                hole_ratio=HOLE_RATIO,
                holes=len(cell.instances[0].holes),
                wait_required=sum(instance.wait_required for instance in cell.instances),
                first_line=line,
                boards=len(cell.instances),
                sha256=digest_of(_lines(cell.instances)),
            )
        )
        line += len(cell.instances)
    whole = "".join(_lines(cell.instances) for cell in cells)
    return Manifest(set=name, boards=line - 1, sha256=digest_of(whole), cells=tuple(described))


def write_benchmark(path: Path, name: str, cells: Sequence[BenchmarkCell]) -> Manifest:
    """Write a benchmark file and its manifest; each is whole or absent, the manifest comes last.

    Raises:
        UserError: the folder cannot be written to.
    """
    manifest = manifest_of(name, cells)
    manifest_path(path).unlink(missing_ok=True)  # an old one must not describe the new file
    write_atomic(path, "".join(_lines(cell.instances) for cell in cells))
    write_json(manifest_path(path), manifest.to_json())
    return manifest


def wait_ratios_of(cells: Sequence[BenchmarkCell]) -> dict[str, float]:
    """Return instance id -> wait ratio of its cell."""
    return {instance.id: cell.wait_ratio for cell in cells for instance in cell.instances}


def read_wait_ratios(path: Path, instances: Sequence[Instance]) -> dict[str, float] | None:
    """Return instance id -> wait ratio of its cell, or None when the file has no manifest.

    Args:
        path: the instance file.
        instances: what it holds.

    Raises:
        UserError: the manifest is bad, or describes another file.
    """
    place = manifest_path(path)
    if not place.exists():
        return None
    manifest = Manifest.parse(read_json(place), str(place))
    found = digest_of(read_text(path))
    if found != manifest.sha256:
        raise UserError(
            f"{path}: its sha256 {found[:16]}... is not the {manifest.sha256[:16]}... of {place}; make the file again, or delete the manifest"
        )
    ratios: dict[str, float] = {}
    for cell in manifest.cells:
        lines = range(cell.first_line, cell.first_line + cell.boards)
        for line in lines:
            instance = instances[line - 1] if line <= len(instances) else None
            if instance is None or (instance.num_agents, instance.size) != (cell.num_agents, cell.size) or instance.id in ratios:
                raise UserError(
                    f"{place}: line {line} of {path} is no board of the cell {cell.num_agents} agents on {cell.size}x{cell.size} alone; "
                    "make the file again, or delete the manifest"
                )
            ratios[instance.id] = cell.wait_ratio
    if len(ratios) != len(instances):
        raise UserError(
            f"{place}: its cells hold {len(ratios)} of the {len(instances)} lines of {path}; make the file again, or delete the manifest"
        )
    return ratios
