"""Committed checkpoints: a folder that is whole and says so, or is not there.

A checkpoint is written under a temporary name with a manifest of its files' SHA-256 hashes, synced, and renamed. What a
reader takes has been held against its manifest, so a truncated or missing file is noticed before anything is built on it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from envwright.env.errors import UserError
from envwright.env.jsonio import dump_json, read_json, sync_folder

__all__ = ["MANIFEST", "commit", "fault"]

MANIFEST = "MANIFEST.json"
"""File of a checkpoint that names all others with their hashes."""
_BLOCK = 1 << 20


def commit(folder: Path, write: Callable[[Path], None]) -> None:
    """Make a checkpoint folder, replacing one of that name.

    Args:
        folder: the checkpoint.
        write: writes its files into the folder that it is given.

    Raises:
        UserError: the disk is full or the place cannot be written to; the checkpoint that was there is untouched.
    """
    temporary = folder.with_name(folder.name + ".partial")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        write(temporary)
        files = sorted(path for path in temporary.rglob("*") if path.is_file())
        manifest = {"files": {path.relative_to(temporary).as_posix(): _sha256(path) for path in files}}
        (temporary / MANIFEST).write_text(dump_json(manifest) + "\n", encoding="utf-8")
        for path in [*files, temporary / MANIFEST]:
            with path.open("rb") as handle:
                os.fsync(handle.fileno())
        sync_folder(temporary)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.replace(folder)
        sync_folder(folder.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise UserError(f"{folder}: the checkpoint cannot be written: {error.strerror}; make room and continue with --resume") from None


def fault(folder: Path) -> str | None:
    """Say why a folder is no whole checkpoint, or None when it is one."""
    if not (folder / MANIFEST).is_file():
        return f"{folder} has no {MANIFEST}"
    try:
        manifest = read_json(folder / MANIFEST)
        files: dict[str, str] = dict(manifest["files"])
    except (UserError, KeyError, TypeError, ValueError):
        return f"{folder / MANIFEST} cannot be read"
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            return f"{path} is missing"
        if _sha256(path) != expected:
            return f"{path} is not what its manifest says"
    return None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
