"""Folders that are whole or absent: filled under a temporary name, then renamed. Every exporter writes through here."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envwright.env.errors import UserError
from envwright.env.jsonio import sync_folder

__all__ = ["new_folder"]


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder to fill, which becomes `path` when the block ends well and is removed when it does not.

    Raises:
        UserError: `path` exists and is no empty folder, or its parent cannot be written to.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise UserError(f"{path}: exists already; choose another folder with --out")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
