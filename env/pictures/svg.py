"""Pictures as SVG: text stays text, and title and description tell what is drawn to those who cannot see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from envwright.env.pictures.shapes import Disc, Group, Label, Lines, Picture, Polygon, Polyline, Rect, Shape

__all__ = ["svg_text"]


def svg_text(picture: Picture) -> str:
    """Return the picture as an SVG document."""
    width, height = _n(picture.width), _n(picture.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label={quoteattr(picture.title)} font-family="Helvetica, Arial, sans-serif">',
        f"<title>{escape(picture.title)}</title>",
        f"<desc>{escape(picture.description)}</desc>",
        *_elements((*picture.background, *picture.foreground)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _n(value: float) -> str:
    """Return a coordinate with two decimals at most."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _paint(fill: str | None, stroke: str | None, width: float) -> str:
    text = f' fill="{fill or "none"}"'
    return text + (f' stroke="{stroke}" stroke-width="{_n(width)}"' if stroke is not None else "")


def _elements(shapes: Iterable[Shape]) -> Iterator[str]:
    for shape in shapes:
        if isinstance(shape, Group):
            agent = "" if shape.agent is None else f' data-agent="{shape.agent}"'
            yield f'<g class="{shape.kind}"{agent}><title>{escape(shape.title)}</title>'
            yield from _elements(shape.shapes)
            yield "</g>"
        else:
            yield _element(shape)


def _element(shape: Rect | Disc | Polyline | Lines | Polygon | Label) -> str:
    if isinstance(shape, Rect):
        corner = f' rx="{_n(shape.radius)}"' if shape.radius else ""
        box = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f"<rect {box}{corner}{_paint(shape.fill, shape.stroke, shape.stroke_width)}/>"
    if isinstance(shape, Disc):
        paint = _paint(shape.fill, shape.stroke, shape.stroke_width)
        return f'<circle cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}"{paint}/>'
    if isinstance(shape, Polyline):
        dash = f' stroke-dasharray="{" ".join(map(_n, shape.dash))}"' if shape.dash else ""
        ends = ' stroke-linecap="butt"' if shape.dash else ' stroke-linecap="round"'
        return f'<polyline points="{_points(shape.points)}"{_paint(None, shape.stroke, shape.stroke_width)} stroke-linejoin="round"{ends}{dash}/>'
    if isinstance(shape, Lines):
        path = "".join(f"M{_n(x0)} {_n(y0)}L{_n(x1)} {_n(y1)}" for x0, y0, x1, y1 in shape.segments)
        return f'<path d="{path}"{_paint(None, shape.stroke, shape.stroke_width)}/>'
    if isinstance(shape, Polygon):
        return f'<polygon points="{_points(shape.points)}" fill="{shape.fill}"/>'
    weight = ' font-weight="bold"' if shape.bold else ""
    place = f'x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}" text-anchor="{shape.anchor}"'
    return f'<text {place} fill="{shape.fill}"{weight}>{escape(shape.text)}</text>'


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
