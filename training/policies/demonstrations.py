"""Demonstrations for the pocket policy's base: independent random shortest paths with random waits.

Every agent walks a uniformly random shortest path to its own goal and waits now and then, blind to the other agents. A
policy that imitates them walks well and coordinates badly, which leaves reinforcement learning, and the environment that
it trains on, something to teach. Boards come from the train split alone. Vectorised over boards with numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from envwright.env.canonical import Split, content_hash, split_of_hash
from envwright.env.cells import AGENTS, BEGIN, END, HOLES, PLAN, VOCABULARY

__all__ = ["Demonstration", "demonstrations"]

_TOKEN = {word: index for index, word in enumerate(VOCABULARY)}
_CELL_0 = _TOKEN["00"]
_SIZE_0 = _TOKEN["1x1"] - 1
_MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
_FAR = 10_000


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One board and one walk, as token ids."""

    prompt: list[int]
    """The begin token and the board's words."""
    answer: list[int]
    """The walk's cells and the end token."""


def demonstrations(
    rng: np.random.Generator, count: int, size: int, num_agents: int, hole_ratio: float, wait_probability: float
) -> list[Demonstration]:
    """Return up to `count` demonstrations (those of `count` random boards whose goals are reachable and whose split is train).

    Args:
        rng: source of all randomness.
        count: boards to draw, B.
        size: side length N.
        num_agents: agents, K.
        hole_ratio: share of cells that are holes.
        wait_probability: chance per agent and timestep of waiting before arrival.
    """
    num_holes = round(hole_ratio * size * size)
    order_BC = np.argsort(rng.random((count, size * size)), axis=1)
    holes_BH = order_BC[:, :num_holes]
    starts_BK = order_BC[:, num_holes : num_holes + num_agents]
    scores_BC = rng.random((count, size * size))
    np.put_along_axis(scores_BC, holes_BH, 2.0, axis=1)
    goals_BK = np.argsort(scores_BC, axis=1)[:, :num_agents]
    free_BC = np.ones((count, size * size), dtype=bool)
    np.put_along_axis(free_BC, holes_BH, False, axis=1)

    distance_BKRC = _distances(free_BC.reshape(count, size, size), goals_BK)
    start_distance_BK = np.take_along_axis(distance_BKRC[:, :, 1:-1, 1:-1].reshape(count, num_agents, -1), starts_BK[:, :, None], axis=2)[
        ..., 0
    ]
    usable_B = (start_distance_BK < _FAR).all(axis=1) & (starts_BK != goals_BK).all(axis=1)
    keep = np.flatnonzero(usable_B)
    walks_TBK = _walks(rng, distance_BKRC[keep], starts_BK[keep], wait_probability)
    return _tokenise(size, holes_BH[keep], starts_BK[keep], goals_BK[keep], walks_TBK)


def _distances(free_BRC: npt.NDArray[np.bool_], goals_BK: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """Shortest distances to every goal on a frame padded by one cell, shape (B, K, N + 2, N + 2); unreachable is `_FAR`."""
    boards, size, _ = free_BRC.shape
    agents = goals_BK.shape[1]
    free = np.zeros((boards, 1, size + 2, size + 2), dtype=bool)
    free[:, 0, 1:-1, 1:-1] = free_BRC
    reached = np.zeros((boards, agents, size + 2, size + 2), dtype=bool)
    b_index, k_index = np.indices((boards, agents))
    reached[b_index, k_index, goals_BK // size + 1, goals_BK % size + 1] = True
    distance = np.where(reached, 0, _FAR)
    front, step = reached, 0
    while front.any():
        step += 1
        grown = np.zeros_like(front)
        grown[:, :, 1:] |= front[:, :, :-1]
        grown[:, :, :-1] |= front[:, :, 1:]
        grown[:, :, :, 1:] |= front[:, :, :, :-1]
        grown[:, :, :, :-1] |= front[:, :, :, 1:]
        front = grown & free & ~reached
        distance[front] = step
        reached = reached | front
    return distance


def _walks(
    rng: np.random.Generator, distance_BKRC: npt.NDArray[np.int64], starts_BK: npt.NDArray[np.intp], wait_probability: float
) -> npt.NDArray[np.int64]:
    """Cells (as `10 * row + col`) of every agent at timesteps 1, 2, ..., shape (T, B, K); arrived agents stay."""
    size = distance_BKRC.shape[2] - 2
    b_index, k_index = np.indices(starts_BK.shape)
    row, col = starts_BK // size + 1, starts_BK % size + 1
    steps: list[npt.NDArray[np.int64]] = []
    while True:
        here = distance_BKRC[b_index, k_index, row, col]
        if not here.any():
            return np.stack(steps)
        options = np.stack([distance_BKRC[b_index, k_index, row + dr, col + dc] for dr, dc in _MOVES], axis=-1)
        scores = np.where(options == here[..., None] - 1, rng.random(options.shape), -1.0)
        choice = scores.argmax(axis=-1)
        moving = (here > 0) & (rng.random(here.shape) >= wait_probability)
        row = row + np.where(moving, _MOVES[choice, 0], 0)
        col = col + np.where(moving, _MOVES[choice, 1], 0)
        steps.append((row - 1) * 10 + (col - 1))


def _tokenise(
    size: int,
    holes_BH: npt.NDArray[np.intp],
    starts_BK: npt.NDArray[np.intp],
    goals_BK: npt.NDArray[np.intp],
    walks_TBK: npt.NDArray[np.int64],
) -> list[Demonstration]:
    """Write boards and walks as tokens, leaving out boards of other splits."""
    results = []
    goal_words_BK = (goals_BK // size) * 10 + goals_BK % size
    arrived_TB = (walks_TBK == goal_words_BK[None]).all(axis=2)
    lengths_B = arrived_TB.argmax(axis=0) + 1
    for index in range(len(starts_BK)):
        holes = [divmod(int(cell), size) for cell in np.sort(holes_BH[index])]
        starts = [divmod(int(cell), size) for cell in starts_BK[index]]
        goals = [divmod(int(cell), size) for cell in goals_BK[index]]
        if split_of_hash(content_hash(size, holes, starts, goals)) is not Split.TRAIN:
            continue
        prompt = [_TOKEN[BEGIN], _SIZE_0 + size, _TOKEN[HOLES], *(_CELL_0 + 10 * r + c for r, c in holes), _TOKEN[AGENTS]]
        for (start_row, start_col), (goal_row, goal_col) in zip(starts, goals, strict=True):
            prompt += [_CELL_0 + 10 * start_row + start_col, _CELL_0 + 10 * goal_row + goal_col]
        cells = walks_TBK[: lengths_B[index], index].reshape(-1)
        results.append(Demonstration([*prompt, _TOKEN[PLAN]], [*(int(cell) + _CELL_0 for cell in cells), _TOKEN[END]]))
    return results
