"""Pictures as files: PNG, SVG or animated GIF, by the name's suffix."""

from __future__ import annotations

from pathlib import Path

from envwright.env.errors import UserError
from envwright.env.jsonio import write_atomic
from envwright.env.pictures.layout import animation_pictures, moment_picture, overview_picture, strip_picture
from envwright.env.pictures.raster import gif_bytes, png_bytes
from envwright.env.pictures.shapes import Picture
from envwright.env.pictures.story import Story
from envwright.env.pictures.svg import svg_text

__all__ = ["SUFFIXES", "check_suffix", "write_picture"]

SUFFIXES: tuple[str, ...] = (".png", ".svg", ".gif")
"""Suffixes of picture files."""


def check_suffix(path: Path) -> str:
    """Return the suffix of a picture file in lower case.

    Raises:
        UserError: it is none of `SUFFIXES`.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(f"{path}: unknown suffix {path.suffix!r}; pictures are .png, .svg or .gif")
    return suffix


def write_picture(path: Path, story: Story, *, step: int | None = None, strip: bool = False) -> None:
    """Draw a plan into a file, which is written whole or not at all.

    A GIF shows one timestep per frame. PNG and SVG show the plan at a glance, one timestep (`step`), or all timesteps side by
    side (`strip`). The same plan gives the same bytes.

    Args:
        path: the file; `.png`, `.svg` or `.gif`.
        story: the plan.
        step: the timestep to draw.
        strip: draw all timesteps.

    Raises:
        UserError: unknown suffix, `step` or `strip` with a GIF or together, no such timestep, or the file cannot be written.
        MissingExtraError: PNG or GIF without Pillow.
    """
    suffix = check_suffix(path)
    if step is not None and strip:
        raise UserError("a picture shows one timestep or all of them: give step or strip, not both")
    if suffix == ".gif":
        if step is not None or strip:
            raise UserError(f"{path}: a GIF shows all timesteps, one per frame; use .png or .svg for one timestep or a strip")
        write_atomic(path, gif_bytes(animation_pictures(story)))
        return
    picture = _still(story, step, strip)
    if suffix == ".png":
        write_atomic(path, png_bytes(picture))
    else:
        write_atomic(path, svg_text(picture))


def _still(story: Story, step: int | None, strip: bool) -> Picture:
    if step is not None:
        return moment_picture(story, step)
    return strip_picture(story) if strip else overview_picture(story)
