"""Reading the documentation: headings, fenced blocks, tables and links, in the order of the page."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```([a-z-]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    heading: str
    """The heading that it is under."""
    kind: str
    """What follows the opening fence."""
    text: str
    """The content, without the last line break."""
    before: str
    """The text block right before it, or nothing."""
    after: str
    """The prose up to the next block."""

    @property
    def data(self) -> Any:
        return json.loads(self.text)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name: str) -> list[Block]:
    text = page(name)
    fences = list(_FENCE.finditer(text))
    found = []
    for index, fence in enumerate(fences):
        headings = re.findall(r"^#+ (.*)$", text[: fence.start()], re.MULTILINE)
        previous = fences[index - 1] if index else None
        close = previous is not None and previous[1] == "text" and text[previous.end() : fence.start()].strip() == ""
        end = fences[index + 1].start() if index + 1 < len(fences) else len(text)
        drawing = previous[2].rstrip("\n") if previous is not None and close else ""
        found.append(Block(headings[-1], fence[1], fence[2].removesuffix("\n"), drawing, text[fence.end() : end]))
    return found


def json_blocks(name: str) -> list[Block]:
    return [block for block in blocks(name) if block.kind == "json"]


def table_keys(name: str) -> set[str]:
    """The first cells of all table rows that are code."""
    return set(re.findall(r"^\| `([^`|]+)` \|", page(name), re.MULTILINE))


def plan_rows(prose: str) -> list[tuple[list[str], list[int]]]:
    """The rows of a table of plans: the plan, and the figures after it."""
    rows = re.findall(r"^\| `(\[[^`]*\])` \| (.*) \|$", prose, re.MULTILINE)
    return [(json.loads(plan), [int(cell) for cell in figures.split(" | ")]) for plan, figures in rows]


def links(name: str) -> list[str]:
    return [link for link in _LINK.findall(_FENCE.sub("", page(name))) if "://" not in link]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
