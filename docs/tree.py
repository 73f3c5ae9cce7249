"""Writes the annotated tree into the README: one line per module, from the first sentence of its docstring.

.venv/bin/python docs/tree.py            # `make tree`; with --check it only says whether the README is up to date
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- tree: made by `make tree` -->\n```\n", "```\n<!-- end of tree -->"
FLOORS = ("env", "tools", "agent", "training")
AROUND = {
    "envwright/": "import package: links to the four folders env, tools, agent and training",
    "tests/": "mirrors the folders",
    "bench/": "speed, as ratios within one run; results in bench/RESULTS.md",
    "experiments/": "measurements with their command, seeds and raw results",
    "docs/": "definitions, file formats, how-tos; docs/notes/ keeps what was tried, failures too",
    "examples/": "a config to start from",
}
COLUMN = 26


def tree() -> str:
    """Return the tree as text."""
    lines: list[str] = []
    for floor in FLOORS:
        lines += _folder(ROOT / floor, 0)
    return "\n".join(lines + [f"{name:<{COLUMN}}{text}" for name, text in AROUND.items()]) + "\n"


def _folder(folder: Path, depth: int) -> list[str]:
    """List a package: its own line, its modules, then its sub-packages."""
    lines = [_line(f"{folder.name}/", folder / "__init__.py", depth)]
    lines += [_line(path.name, path, depth + 1) for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
        lines += _folder(inner, depth + 1)
    return lines


def _line(name: str, module: Path, depth: int) -> str:
    return f"{'  ' * depth + name:<{COLUMN}}{_first_sentence(module)}"


def _first_sentence(module: Path) -> str:
    text = " ".join((ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split())
    text = re.sub(rf"^`{module.stem}`: ", "", text)
    return re.split(r"(?<=[a-z0-9)`\"])\.(?= [A-Z`])", text)[0].rstrip(".")


def main() -> int:
    """Write the tree, or check it."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        print(f"{readme}: the marks of the tree are gone: {BEGIN!r} ... {END!r}", file=sys.stderr)
        return 2
    wanted = before + BEGIN + tree() + END + after
    if "--check" in sys.argv[1:]:
        if text != wanted:
            print("README.md: the tree is out of date; run `make tree`", file=sys.stderr)
        return int(text != wanted)
    readme.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
