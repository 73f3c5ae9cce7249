"""What `render()` of the standard interfaces returns: the same text and pictures that `envwright show` makes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envwright.env.interfaces.episode import Episode
from envwright.env.pictures.layout import moment_picture
from envwright.env.pictures.raster import rgb_array
from envwright.env.pictures.story import Story
from envwright.env.pictures.text import PLAIN, draw_moment
from envwright.env.rules import simulate

__all__ = ["RENDER_MODES", "render_episode"]

RENDER_MODES: tuple[str, ...] = ("ansi", "rgb_array")
"""Render modes of both interfaces."""


def render_episode(episode: Episode, mode: str) -> str | NDArray[np.uint8]:
    """Return the current timestep as text, or as an array of shape (height, width, 3) whose shape stays the same all episode long.

    Raises:
        MissingExtraError: `rgb_array` without Pillow.
    """
    ended = simulate(episode.instance, episode.paths) if episode.grade is not None else None
    story = Story(episode.instance, episode.paths, ended)
    if mode == "ansi":
        return draw_moment(story, episode.steps, PLAIN)
    return rgb_array(moment_picture(story, episode.steps, caption_lines=3))
