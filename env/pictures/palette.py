"""Colours of the pictures: agents from the colour-blind safe set of Okabe and Ito, everything else apart from them in lightness.

Colour is never the only sign: agents are discs and goals squares, both with the agent's number, holes are hatched, and
agents whose colours repeat differ in the dashes of their paths.
"""

from __future__ import annotations

__all__ = [
    "AGENT_COLOURS",
    "BORDER",
    "FAULT",
    "GRID",
    "HATCH",
    "HOLE",
    "ICE",
    "INK",
    "MUTED",
    "PAPER",
    "SUCCESS",
    "agent_colour",
    "agent_dash",
    "contrast",
    "edge",
    "ink_on",
    "tint",
]

AGENT_COLOURS: tuple[str, ...] = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#6B5B95")
"""Colour of agent 0, 1, ..., repeated after the seventh: Okabe and Ito's set without black and vermilion, and a violet."""

PAPER = "#FFFFFF"
ICE = "#F1F6FA"
GRID = "#D5E0E9"
BORDER = "#5E7285"
HOLE = "#2F3E4D"
HATCH = "#6C8299"
INK = "#121C26"
MUTED = "#66788A"
FAULT = "#C4260E"
SUCCESS = "#1A7F4B"

_DASHES: tuple[tuple[float, ...], ...] = ((), (3.0, 1.6), (0.6, 1.8), (4.0, 1.4, 0.6, 1.4), (1.5, 1.2))
"""Dashes of a path, in line widths, by how often the colours have repeated."""


def agent_colour(agent: int) -> str:
    """Return an agent's colour."""
    return AGENT_COLOURS[agent % len(AGENT_COLOURS)]


def agent_dash(agent: int) -> tuple[float, ...]:
    """Return the dashes of an agent's path, in line widths; empty for a solid line."""
    return _DASHES[agent // len(AGENT_COLOURS) % len(_DASHES)]


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def tint(colour: str, share: float, base: str = PAPER) -> str:
    """Return `share` of a colour mixed with a base colour."""
    mixed = (round(share * part + (1 - share) * under) for part, under in zip(_channels(colour), _channels(base), strict=True))
    return "#" + "".join(f"{part:02X}" for part in mixed)


def _luminance(colour: str) -> float:
    linear = [part / 3294.6 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in _channels(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2)."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def edge(colour: str) -> str:
    """Return a colour darkened until lines of it stand out from ice (contrast of 3 or more, as WCAG asks of graphics)."""
    return next(mixed for share in range(95, 0, -5) if contrast(mixed := tint(colour, share / 100, INK), ICE) >= 3)


def ink_on(colour: str) -> str:
    """Return white or the dark ink, whichever is read more easily on a colour."""
    return max((PAPER, INK), key=lambda ink: contrast(ink, colour))
