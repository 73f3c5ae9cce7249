"""Instances as folders of files: MovingAI maps with scenarios, and JSON Lines by split."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from envwright.env.canonical import Split
from envwright.env.formats.folder import new_folder
from envwright.env.formats.movingai_map import map_text
from envwright.env.formats.movingai_scenario import scenario_text
from envwright.env.instance import Instance
from envwright.env.jsonio import write_atomic, write_json_lines

__all__ = ["export_json_lines", "export_movingai"]


def export_movingai(by_split: Mapping[Split, Sequence[Instance]], out: Path) -> list[str]:
    """Write `NUMBER-ID.map` and `NUMBER-ID.scen` per board; returns the names without their endings, in order.

    The labels are not written: the format has no place for a sum of costs. `envwright import` computes them again.

    Raises:
        UserError: the folder exists already or cannot be written, or a board has no plan.
    """
    instances = [instance for members in by_split.values() for instance in members]
    digits = len(str(len(instances)))
    names = [f"{number:0{digits}d}-{_file_name(instance.id)}" for number, instance in enumerate(instances, start=1)]
    with new_folder(out) as folder:
        for name, instance in zip(names, instances, strict=True):
            write_atomic(folder / f"{name}.map", map_text(instance))
            write_atomic(folder / f"{name}.scen", scenario_text(instance, f"{name}.map"))
    return names


def _file_name(name: str) -> str:
    """An id as a part of a file name: other characters than letters, digits, `.`, `_` and `-` become `_`."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80]


def export_json_lines(by_split: Mapping[Split, Sequence[Instance]], out: Path) -> None:
    """Write `SPLIT.jsonl` per split, one canonical instance line each.

    Raises:
        UserError: the folder exists already or cannot be written.
    """
    with new_folder(out) as folder:
        for split, instances in by_split.items():
            write_json_lines(folder / f"{split}.jsonl", (instance.to_json() for instance in instances))
