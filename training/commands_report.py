"""The command that reports: report. It does not import torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from envwright.env.jsonio import dump_json

__all__ = ["report"]


def report(arguments: argparse.Namespace) -> int:
    """`envwright report`"""
    from envwright.training.report.page import write_report
    from envwright.training.report.text import on_terminal

    made = write_report(Path(arguments.folder), Path(arguments.out) if arguments.out else None)
    if arguments.json:
        figures = {
            "kind": made.kind,
            "report": str(made.page),
            "headline": on_terminal(made.headline),
            "warnings": [on_terminal(warning) for warning in made.warnings],
            "pictures": [str(path) for path in made.pictures],
            "bytes": made.page.stat().st_size,
        }
        print(dump_json(figures))
        return 0
    for sentence in (made.headline, *made.warnings):
        print(on_terminal(sentence))
    print(f"the page is {made.page}; its {len(made.pictures)} plots are PNG files in {made.page.with_suffix('')}")
    return 0
