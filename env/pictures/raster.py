"""Pictures as pixels: PNG, animated GIF, and arrays for `render()`. Needs Pillow, which is imported when a picture is made.

Shapes are drawn at a multiple of the final resolution and averaged down. The font is the one that Pillow carries, so that the
same input gives the same bytes on every machine with the same Pillow.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from envwright.env.errors import MissingExtraError
from envwright.env.pictures.shapes import Disc, Group, Label, Lines, Picture, Polygon, Polyline, Rect, Shape, dashes

if TYPE_CHECKING:
    from PIL import Image as PillowImage

__all__ = ["gif_bytes", "png_bytes", "rgb_array"]

STEP_MS = 600
"""Milliseconds that a frame of an animation stays."""
FIRST_MS = 1_000
"""Milliseconds of the first frame."""
LAST_MS = 2_500
"""Milliseconds of the last frame, which shows the goals reached or the first violation."""
_LARGEST = 5_200
"""Pixels along a side up to which shapes are drawn at four times the resolution; beyond, at twice."""
_COLOURS = 160
"""Colours of an animation."""

_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def _pillow() -> Any:
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError:
        raise MissingExtraError("pillow", "pictures", "drawing PNG and GIF") from None
    return Image, ImageDraw, ImageFont


@lru_cache(maxsize=64)
def _font(size: float) -> Any:
    return _pillow()[2].load_default(size)


def png_bytes(picture: Picture) -> bytes:
    """Return the picture as a PNG file, with two pixels to a unit for print; very large ones with one.

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    image = next(_images([picture], 2 if max(picture.width, picture.height) <= _LARGEST / 2 else 1))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def rgb_array(picture: Picture) -> NDArray[np.uint8]:
    """Return the picture as an array of shape (height, width, 3).

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    return np.asarray(next(_images([picture], 1)), dtype=np.uint8)


def gif_bytes(pictures: Sequence[Picture]) -> bytes:
    """Return pictures of one size as an animated GIF that repeats for ever: one frame each, the last one staying longest.

    Raises:
        MissingExtraError: Pillow is not installed.
    """
    images = list(_images(pictures, 1))
    colours = sorted({colour for picture in pictures for colour in _colours((*picture.background, *picture.foreground))})
    palette = _common_palette(images, colours)
    frames = [image.quantize(palette=palette, dither=_pillow()[0].Dither.NONE) for image in images]
    durations = [STEP_MS] * len(frames)
    durations[0], durations[-1] = FIRST_MS, LAST_MS
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)
    return buffer.getvalue()


def _common_palette(images: Sequence[PillowImage.Image], colours: Sequence[str]) -> PillowImage.Image:
    """Return an image whose palette serves all frames: the colours that shapes have, and the commonest of the blends between them.

    What does not move is then the same in each frame, and a colour of few pixels keeps its own.
    """
    chosen = [images[0], images[len(images) // 2], images[-1]]
    sheet = _pillow()[0].new("RGB", (images[0].width, images[0].height * len(chosen)))
    for index, image in enumerate(chosen):
        sheet.paste(image, (0, index * image.height))
    blends = sheet.quantize(_COLOURS - len(colours), dither=_pillow()[0].Dither.NONE).getpalette()[: 3 * (_COLOURS - len(colours))]
    result: PillowImage.Image = _pillow()[0].new("P", (1, 1))
    result.putpalette([int(colour[at : at + 2], 16) for colour in colours for at in (1, 3, 5)] + blends)
    return result


def _images(pictures: Iterable[Picture], scale: int) -> Iterator[PillowImage.Image]:
    """Yield the pictures as images; what they have in common in the background is drawn once."""
    Image, ImageDraw, _ = _pillow()
    known: tuple[tuple[Shape, ...], Any] | None = None
    for picture in pictures:
        width, height = round(picture.width * scale), round(picture.height * scale)
        finer = 4 if 4 * max(width, height) <= _LARGEST else 2
        if known is None or known[0] != picture.background:
            image = Image.new("RGB", (width * finer, height * finer))
            _Painter(ImageDraw.Draw(image), scale * finer).paint(picture.background)
            known = picture.background, image
        image = known[1].copy()
        _Painter(ImageDraw.Draw(image), scale * finer).paint(picture.foreground)
        yield image.reduce(finer)


def _colours(shapes: Iterable[Shape]) -> Iterator[str]:
    for shape in shapes:
        if isinstance(shape, Group):
            yield from _colours(shape.shapes)
        else:
            yield from (colour for name in ("fill", "stroke") if (colour := getattr(shape, name, None)) is not None)


class _Painter:
    """Draws shapes with Pillow, `scale` pixels to a unit."""

    def __init__(self, draw: Any, scale: int) -> None:
        self._draw, self._scale = draw, scale

    def paint(self, shapes: Iterable[Shape]) -> None:
        for shape in shapes:
            if isinstance(shape, Group):
                self.paint(shape.shapes)
            elif isinstance(shape, Rect):
                self._rect(shape)
            elif isinstance(shape, Disc):
                self._disc(shape)
            elif isinstance(shape, Polyline):
                self._polyline(shape)
            elif isinstance(shape, Lines):
                for segment in shape.segments:
                    self._line([segment[:2], segment[2:]], shape.stroke, shape.stroke_width)
            elif isinstance(shape, Polygon):
                self._draw.polygon(self._scaled(shape.points), fill=shape.fill)
            else:
                self._label(shape)

    def _scaled(self, points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(x * self._scale, y * self._scale) for x, y in points]

    def _box(self, x: float, y: float, width: float, height: float, grow: float) -> list[float]:
        s = self._scale
        return [(x - grow) * s, (y - grow) * s, (x + width + grow) * s - 1, (y + height + grow) * s - 1]

    def _rect(self, shape: Rect) -> None:
        half = shape.stroke_width / 2 if shape.stroke else 0.0
        box = self._box(shape.x, shape.y, shape.width, shape.height, half)
        width = max(1, round(shape.stroke_width * self._scale)) if shape.stroke else 0
        radius = (shape.radius + half) * self._scale if shape.radius else 0
        self._draw.rounded_rectangle(box, radius, fill=shape.fill, outline=shape.stroke, width=width)

    def _disc(self, shape: Disc) -> None:
        half = shape.stroke_width / 2 if shape.stroke else 0.0
        width = max(1, round(shape.stroke_width * self._scale)) if shape.stroke else 0
        box = self._box(shape.x - shape.radius, shape.y - shape.radius, 2 * shape.radius, 2 * shape.radius, half)
        self._draw.ellipse(box, fill=shape.fill, outline=shape.stroke, width=width)

    def _line(self, points: Sequence[tuple[float, float]], stroke: str, width: float) -> None:
        self._draw.line(self._scaled(points), fill=stroke, width=max(1, round(width * self._scale)), joint="curve")

    def _polyline(self, shape: Polyline) -> None:
        if shape.dash:
            for piece in dashes(shape.points, shape.dash):
                self._line(piece, shape.stroke, shape.stroke_width)
            return
        self._line(shape.points, shape.stroke, shape.stroke_width)
        for x, y in (shape.points[0], shape.points[-1]):
            self._disc(Disc(x, y, shape.stroke_width / 2, shape.stroke))

    def _label(self, shape: Label) -> None:
        size = shape.size * self._scale
        bold = round(0.025 * size) if shape.bold else 0
        place = (shape.x * self._scale, shape.y * self._scale)
        self._draw.text(place, shape.text, fill=shape.fill, font=_font(size), anchor=_ANCHORS[shape.anchor], stroke_width=bold)
