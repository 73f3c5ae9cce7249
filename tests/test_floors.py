"""The floors: a lower one never imports a higher one, and the lower ones stay light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("env", "tools", "agent", "training")
"""Lowest first."""
HEAVY = ("torch", "transformers", "trl", "datasets", "openai")


def modules(floor: str) -> list[str]:
    paths = sorted((ROOT / floor).rglob("*.py"))
    return [".".join(("envwright", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__") for path in paths]


def imported(path: Path) -> set[str]:
    """Every module that a file imports anywhere, inside functions and under TYPE_CHECKING too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_imports_itself_and_lower_floors_only(floor: str) -> None:
    higher = tuple(f"envwright.{name}" for name in FLOORS[FLOORS.index(floor) + 1 :])
    wrong = {
        str(path.relative_to(ROOT)): names
        for path in (ROOT / floor).rglob("*.py")
        if (names := sorted(name for name in imported(path) if name.startswith((*higher, ".")) or name.split(".")[0] in FLOORS))
    }
    assert wrong == {}


def modules_after_importing(names: list[str]) -> set[str]:
    """What is in `sys.modules` of a new process that has imported `names`."""
    script = f"import importlib, json, sys\nfor name in {names!r}: importlib.import_module(name)\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stdout))


def test_importing_all_of_env_and_tools_loads_no_heavy_library() -> None:
    assert not modules_after_importing([*modules("env"), *modules("tools")]) & set(HEAVY)


def test_importing_the_engineers_and_the_command_line_loads_no_torch() -> None:
    light = ["cli", "commands_env", "commands_agent", "commands_run", "settings", "runstore"]
    names = [*modules("agent"), *(f"envwright.training.{name}" for name in light)]
    assert not modules_after_importing(names) & {"torch", "transformers", "trl", "datasets"}


def test_no_floor_is_imported_under_a_second_name() -> None:
    loaded = modules_after_importing([*modules("env"), *modules("tools"), *modules("agent")])
    assert not loaded & set(FLOORS)
