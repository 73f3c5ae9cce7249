"""Reads a report as a browser would: its elements, tables and text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "br", "img", "input"}


@dataclass
class Cell:
    """One cell: its text, and the number behind it."""

    text: str = ""
    value: float | None = None


@dataclass
class Element:
    """One element that was opened."""

    tag: str
    attributes: dict[str, str]


@dataclass
class Reading:
    """What a page holds."""

    elements: list[Element] = field(default_factory=list)
    tables: dict[str, dict[str, list[Cell]]] = field(default_factory=dict)
    """Name of the table -> head of the row -> the other cells."""
    heads: dict[str, list[str]] = field(default_factory=dict)
    text: str = ""

    def tagged(self, tag: str) -> list[Element]:
        """Elements of a kind."""
        return [element for element in self.elements if element.tag == tag]

    def table(self, begin: str) -> dict[str, list[Cell]]:
        """The one table whose name begins so."""
        (found,) = [table for name, table in self.tables.items() if name.startswith(begin)]
        return found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.reading = Reading()
        self.stack: list[str] = []
        self.table = ""
        self.row: list[Cell] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.reading.elements.append(Element(tag, attributes))
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "table":
            self.table = attributes["aria-label"]
            self.reading.tables[self.table], self.reading.heads[self.table] = {}, []
        elif tag == "tr":
            self.row = []
        elif tag in ("td", "th"):
            self.row.append(Cell())
        elif tag == "data":
            self.row[-1].value = float(attributes["value"])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.reading.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, f"</{tag}> closes nothing"
        assert self.stack[-1] == tag, f"</{tag}> closes <{self.stack[-1]}>"
        self.stack.pop()
        if tag == "tr" and "thead" in self.stack:
            self.reading.heads[self.table] = [cell.text for cell in self.row]
        elif tag == "tr":
            self.reading.tables[self.table][self.row[0].text] = self.row[1:]

    def handle_data(self, data: str) -> None:
        if "style" not in self.stack:
            self.reading.text += data
        if "td" in self.stack or "th" in self.stack:
            self.row[-1].text += data


def read_page(path: Path) -> Reading:
    """Read a page; every element that is opened must be closed, in order."""
    parser = _Parser()
    parser.feed(path.read_text(encoding="utf-8"))
    parser.close()
    assert parser.stack == [], f"left open: {parser.stack}"
    return parser.reading
