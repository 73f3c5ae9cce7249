"""The README's annotated tree names every module, in its own words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tree_in_the_readme_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "tree.py", "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
