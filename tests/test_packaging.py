"""The package: what git tracks is what the wheel holds, and every public name is there."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from envwright.env.jsonio import read_json
from envwright.training.settings import load_settings

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("agent", "env", "tools", "training")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = sorted(
    ".".join(("envwright", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for floor in FLOORS
    for path in (ROOT / floor).rglob("*.py")
)

needs_git = pytest.mark.skipif(
    shutil.which("git") is None or not (ROOT / ".git").exists(), reason="not a git checkout, so nothing says what belongs to the package"
)


def git(*arguments: str) -> list[str]:
    """The lines that a git command prints."""
    done = subprocess.run(["git", "-c", "core.quotepath=off", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


def tracked() -> list[str]:
    """Files of the checkout: tracked, or new and not ignored."""
    return [name for name in git("ls-files", "--cached", "--others", "--exclude-standard") if (ROOT / name).exists()]


@needs_git
def test_git_ignores_no_source_folder() -> None:
    sources = ["env", "env/solver", *(f"{floor}/new.py" for floor in FLOORS)]
    assert git("check-ignore", "--no-index", *sources, "__pycache__/x.pyc") == ["__pycache__/x.pyc"]


def test_the_listed_packages_are_the_folders_with_an_init() -> None:
    folders = {path.parent.relative_to(ROOT) for floor in FLOORS for path in (ROOT / floor).rglob("__init__.py")}
    expected = {".".join(("envwright", *folder.parts)): str(folder) for folder in folders} | {"envwright": "envwright"}
    setuptools = PYPROJECT["tool"]["setuptools"]
    assert sorted(setuptools["packages"]) == sorted(expected)
    assert setuptools["package-dir"] == expected


def test_every_folder_with_modules_has_an_init() -> None:
    folders = {path.parent for floor in FLOORS for path in (ROOT / floor).rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


@pytest.mark.parametrize("floor", FLOORS)
def test_the_import_package_reaches_each_floor_by_a_relative_link(floor: str) -> None:
    link = ROOT / "envwright" / floor
    assert (link.is_symlink(), str(link.readlink())) == (True, f"../{floor}")


def setuptools_is_new_enough() -> bool:
    try:
        return int(version("setuptools").split(".")[0]) >= 77
    except PackageNotFoundError:
        return False


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel built from a copy of the checkout, so that the checkout stays clean."""
    if importlib.util.find_spec("build") is None or not setuptools_is_new_enough():
        pytest.skip("building needs `build` and setuptools>=77 in this environment")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name, follow_symlinks=False)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    (path,) = out.glob("*.whl")
    with ZipFile(path) as archive:
        return set(archive.namelist())


@needs_git
def test_the_wheel_holds_every_module_and_no_other(wheel: set[str]) -> None:
    sources = {name for name in tracked() if name.endswith(".py") and name.split("/")[0] in FLOORS}
    expected = {f"envwright/{name}" for name in sources} | {
        "envwright/__init__.py",
        "envwright/__main__.py",
        "envwright/mapf_frozenlake_v0.py",
    }
    assert {name for name in wheel if name.endswith(".py")} == expected


@needs_git
def test_the_wheel_holds_the_type_marker_the_presets_and_the_checkpoint(wheel: set[str]) -> None:
    data = [path for folder in ("presets", "checkpoints/pocket-base") for path in (ROOT / "training" / folder).glob("*") if path.is_file()]
    assert {"envwright/py.typed", *(f"envwright/{path.relative_to(ROOT)}" for path in data)} <= wheel
    assert "envwright/training/presets/demo.json" in wheel
    assert {name.split("/")[0] for name in wheel if ".dist-info/" not in name} == {"envwright"}


@pytest.mark.parametrize("module", ["envwright", *MODULES])
def test_every_public_name_exists_and_is_listed_once(module: str) -> None:
    if module.startswith("envwright.training"):
        pytest.importorskip("torch")
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", [])
    assert [name for name in names if not hasattr(loaded, name)] == []
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("preset", sorted(path.stem for path in (ROOT / "training" / "presets").glob("*.json")))
def test_every_preset_parses_and_its_counts_add_up(preset: str) -> None:
    settings = load_settings(preset, [])
    assert sum(settings.config.counts(settings.instances_per_stage).values()) == settings.instances_per_stage


def test_every_checked_in_config_and_experiment_is_strict_json() -> None:
    for path in [*(ROOT / "experiments").rglob("*.json"), *(ROOT / "training" / "presets").glob("*.json")]:
        assert isinstance(read_json(path), dict | list)
