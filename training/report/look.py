"""How plots look, and how they become SVG inside a page and PNG files.

A colour has a value for light and one for dark paper. PNGs are drawn on light paper; inside the page the colours become CSS variables, so
that one SVG is legible on both. The same figure gives the same bytes: no dates, and ids that come from the plot's name.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from envwright.env.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BAND",
    "INK",
    "MUTED",
    "NEUTRAL",
    "PAPER",
    "RULE",
    "Series",
    "category",
    "css_variables",
    "label_ends",
    "new_figure",
    "ordinal",
    "outcome_look",
    "outcome_text",
    "png_bytes",
    "svg_element",
]

PAPER, INK, MUTED, RULE, NEUTRAL = "#fefefe", "#1b242c", "#55626f", "#dbe1e7", "#5c6b7a"
"""Colours on light paper: what is behind, text, lesser text, grid lines, and a series that others are held against."""
BAND = 0.16
"""Opacity of an interval's band."""

_DARK_OF = {PAPER: "#12181e", INK: "#e8edf2", MUTED: "#a3b0bd", RULE: "#2d3842", NEUTRAL: "#a7b4c1"}
_CATEGORIES = (
    ("#0072b2", "#56b4e9"),
    ("#c75000", "#ff9a55"),
    ("#008a64", "#2fc79b"),
    ("#a94f86", "#e59cc6"),
    ("#946c00", "#f0c24a"),
    ("#4b4fa8", "#aab0ff"),
    ("#8a3b2c", "#e8a090"),
)
"""Okabe and Ito's hues, darkened until they stand out from white paper (contrast of 3 or more) and lightened for dark paper."""
_RAMP_LIGHT = ("#440154", "#443983", "#31688e", "#21918c", "#2f9e5f", "#5b9a1f", "#8a8a00", "#7a6a00")
_RAMP_DARK = ("#c9a2e0", "#9aa5f0", "#6db4e6", "#43c6c0", "#5fd699", "#9cdb5c", "#d9dc3f", "#fde725")
"""From the smallest size to the largest, after viridis: the order of lightness tells the order of sizes too."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[Any, ...] = ("solid", (0, (4, 1.6)), (0, (1, 1.2)))
_OUTCOMES = {
    "optimal": ("#00664a", "#35c596"),
    "suboptimal": ("#5fb491", "#1d7a5b"),
    "vertex_conflict": ("#d55e01", "#f28a3c"),
    "swap_conflict": ("#e8a33d", "#ffcf7d"),
    "hole": ("#3b4a8c", "#8f9be0"),
    "out_of_bounds": ("#7f8ecb", "#5462ab"),
    "illegal_move": ("#a64d85", "#dd8fbe"),
    "goal_not_reached": ("#d6a3c5", "#8f4a78"),
    "truncated": ("#77838f", "#8d99a5"),
    "parse_error": ("#b4bcc4", "#5f6b76"),
}
"""Outcome -> its colours: valid ones green, collisions orange, board violations blue, the others violet and grey."""
_WIDTH = 4.6
"""Width of a plot in inches: 331 units, a little less than a phone's, so that its text can be read there."""


@dataclass(frozen=True, slots=True)
class Series:
    """How one series is drawn; colour is never the only sign."""

    colour: str
    """Colour on light paper."""
    marker: str = "o"
    """Marker of its points."""
    dash: Any = "solid"
    """Dashes of its line."""


def category(index: int) -> Series:
    """Return the look of an arm; colours repeat after the seventh, with other dashes."""
    turn = index // len(_CATEGORIES)
    return Series(_CATEGORIES[index % len(_CATEGORIES)][0], _MARKERS[index % len(_MARKERS)], _DASHES[turn % len(_DASHES)])


def ordinal(index: int, count: int) -> Series:
    """Return the look of one of `count` ordered series, such as map sizes."""
    place = index if count > len(_RAMP_LIGHT) // 2 else 2 * index
    return Series(_RAMP_LIGHT[min(place, len(_RAMP_LIGHT) - 1)], _MARKERS[index % len(_MARKERS)])


def outcome_look(outcome: str) -> str:
    """Return the colour of an outcome."""
    return _OUTCOMES.get(outcome, (NEUTRAL, ""))[0]


def outcome_text(outcome: str) -> str:
    """Return the colour of text on an outcome's colour: paper on deep colours, dark where both papers' colours are bright, else ink."""
    if outcome in ("optimal", "hole", "illegal_move"):
        return PAPER
    return _ON_BRIGHT if outcome in ("vertex_conflict", "swap_conflict", "truncated") else INK


_ON_BRIGHT = "#10161b"


def css_variables() -> dict[str, tuple[str, str]]:
    """Return CSS variable -> its colour on light and on dark paper."""
    names = {
        f"--{name}": (light, _DARK_OF[light]) for name, light in zip(("paper", "ink", "muted", "rule", "neutral"), _DARK_OF, strict=True)
    }
    names |= {f"--c{index}": pair for index, pair in enumerate(_CATEGORIES)}
    names |= {f"--z{index}": pair for index, pair in enumerate(zip(_RAMP_LIGHT, _RAMP_DARK, strict=True))}
    return names | {f"--{outcome.replace('_', '-')}": pair for outcome, pair in _OUTCOMES.items()}


@contextmanager
def new_figure(height: float, rows: int = 1, columns: int = 1, **subplots: Any) -> Iterator[tuple[Figure, list[Axes]]]:
    """Give a figure and its axes, row by row, under the style of the reports; save it before the context ends.

    Args:
        height: in inches; the width is the same for all plots.
        rows: rows of axes.
        columns: columns of axes.
        subplots: what `Figure.subplots` takes besides.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(error.name or "matplotlib", "report", "envwright report") from None
    style: Any = {**mpl.rcParamsDefault, **_STYLE}
    with mpl.rc_context(style):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **subplots)
        yield figure, list(axes.flat)


_STYLE: dict[str, Any] = {
    "backend": "agg",
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.titlecolor": INK,
    "figure.facecolor": "none",
    "figure.edgecolor": "none",
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "envwright",
    "path.simplify": True,
}


def png_bytes(figure: Figure) -> bytes:
    """Return the figure as a PNG on light paper."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, facecolor=PAPER, metadata={"Software": None})
    return buffer.getvalue()


def svg_element(figure: Figure, name: str, alt: str) -> str:
    """Return the figure as an `<svg>` element for a page that defines `css_variables`.

    Args:
        figure: the figure.
        name: what the element's ids begin with; one of a kind in the page.
        alt: the text alternative.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<defs>\s*<style[^>]*>(.*?)</style>\s*</defs>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]+"', "<g", text)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'xlink:href="#', f'href="#{name}-', text)
    text = re.sub(r'style="[^"]*"', lambda found: _themed(found[0]), text)
    head = text[: text.index(">")]
    box = re.search(r'viewBox="[^"]+"', head)
    body = text[text.index(">") + 1 :]
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box[0] if box else ""} class="plot" role="img" aria-label={quoteattr(alt)}>{body}'.strip()


def _themed(style: str) -> str:
    """Turn colours into CSS variables, and leave the font's family to the page."""
    style = re.sub(r"#[0-9a-f]{6}\b", lambda found: f"var({_VARIABLE_OF[found[0]]})" if found[0] in _VARIABLE_OF else found[0], style)
    return re.sub(r" font-family: [^;\"]*;", "", style)


_VARIABLE_OF = {light: name for name, (light, _) in css_variables().items()}


def label_ends(axes: Axes, ends: list[tuple[float, float, str, str]]) -> None:
    """Write each series' name behind its last point, apart from one another; the limits of the axes must be set before.

    Args:
        axes: where.
        ends: x, y, text and colour of each.
    """
    if not ends:
        return
    low, high = axes.get_ylim()
    box = axes.get_position()
    figure = axes.figure
    gap = (high - low) * 12 / (72 * figure.get_figheight() * box.height * 0.92)  # type: ignore[union-attr]
    ordered = sorted(ends, key=lambda end: end[1])
    places = [end[1] for end in ordered]
    for _ in range(60):
        for index in range(1, len(places)):
            lack = gap - (places[index] - places[index - 1])
            if lack > 1e-9:
                places[index] += lack / 2
                places[index - 1] -= lack / 2
        shift = max(0.0, low + gap / 2 - places[0]) - max(0.0, places[-1] - high + gap / 4)
        places = [place + shift for place in places]
    for (x, _, text, colour), place in zip(ordered, places, strict=True):
        axes.annotate(
            text, (x, place), xytext=(6, 0), textcoords="offset points", va="center", color=colour, annotation_clip=False, fontsize=9.5
        )
