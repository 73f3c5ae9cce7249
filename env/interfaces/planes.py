"""Observations: boards as stacks of 0/1 planes, `[plane, row, col]`, type int8.

Cells beyond a board that is smaller than the environment's largest one are blocked like holes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from envwright.env.interfaces.episode import Episode

__all__ = ["AGENT_PLANES", "agent_planes", "joint_planes", "num_joint_planes"]

Cell = tuple[int, int]

AGENT_PLANES: tuple[str, ...] = ("blocked", "own position", "own goal", "other positions", "other goals")
"""Planes of one agent's observation, in order."""


def num_joint_planes(num_agents: int) -> int:
    """Return the number of planes of the joint observation: the blocked cells, then position and goal of each agent."""
    return 1 + 2 * num_agents


def agent_planes(episode: Episode, agent: int, side: int) -> NDArray[np.int8]:
    """Return what one agent sees, shape (5, side, side), in the order of `AGENT_PLANES`."""
    planes = np.zeros((len(AGENT_PLANES), side, side), dtype=np.int8)
    planes[0] = _blocked(episode, side)
    positions, goals = episode.positions, episode.instance.goals
    _mark(planes[1], [positions[agent]])
    _mark(planes[2], [goals[agent]])
    _mark(planes[3], (cell for other, cell in enumerate(positions) if other != agent))
    _mark(planes[4], (cell for other, cell in enumerate(goals) if other != agent))
    return planes


def joint_planes(episode: Episode, side: int) -> NDArray[np.int8]:
    """Return the whole state, shape (1 + 2 * agents, side, side): blocked, then per agent its position and its goal."""
    planes = np.zeros((num_joint_planes(episode.instance.num_agents), side, side), dtype=np.int8)
    planes[0] = _blocked(episode, side)
    for agent, (position, goal) in enumerate(zip(episode.positions, episode.instance.goals, strict=True)):
        _mark(planes[1 + 2 * agent], [position])
        _mark(planes[2 + 2 * agent], [goal])
    return planes


def _blocked(episode: Episode, side: int) -> NDArray[np.int8]:
    plane = np.ones((side, side), dtype=np.int8)
    size = episode.instance.size
    plane[:size, :size] = 0
    _mark(plane, episode.instance.holes)
    return plane


def _mark(plane: NDArray[np.int8], cells: Iterable[Cell]) -> None:
    for row, col in cells:
        plane[row, col] = 1
