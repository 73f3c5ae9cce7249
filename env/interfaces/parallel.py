"""MAPF-FrozenLake as a PettingZoo parallel environment; `envwright.mapf_frozenlake_v0` is its public name."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from envwright.env.canonical import Split
from envwright.env.errors import MissingExtraError, UserError
from envwright.env.instance import Instance
from envwright.env.interfaces.episode import ACTIONS, Episode
from envwright.env.interfaces.planes import AGENT_PLANES, agent_planes, joint_planes, num_joint_planes
from envwright.env.interfaces.rendering import RENDER_MODES, render_episode
from envwright.env.interfaces.source import Instances, board_source, check_options, chosen_board

try:
    from gymnasium import logger, spaces
    from gymnasium.utils import seeding
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise MissingExtraError(error.name or "pettingzoo", "envs", "the PettingZoo environment") from None

__all__ = ["MapfFrozenLakeParallelEnv"]

Observation = dict[str, NDArray[np.int8]]


class MapfFrozenLakeParallelEnv(ParallelEnv[str, Observation, int]):  # type: ignore[misc]
    """Several agents cross a frozen lake full of holes, all at once, without running into each other.

    ## Description
    Multi-agent path finding on an N x N grid. Every agent has a start and a goal of its own. At each timestep all agents act at
    the same time. No agent may leave the board or enter a hole; no two agents may be in one cell after a timestep (a waiting or
    parked agent included), and no two may exchange cells in one timestep. An agent may enter the cell that another one leaves
    in the same timestep, and three or more may rotate. Agents stay on the board after arriving and still block their cells.
    The rules are those of `envwright.env.rules`, with which the solver and the grader agree.

    ## Agents
    `agent_0`, `agent_1`, ...; all live until the episode ends for all.

    ## Action Space
    `Discrete(5)` per agent: 0 up, 1 down, 2 left, 3 right, 4 wait. Rows count from the top, columns from the left.

    ## Observation Space
    `Dict` per agent:

    - `observation`: `Box(0, 1, (5, N, N), int8)`, planes indexed `[plane, row, col]`: blocked cells (holes, and cells beyond a
      board that is smaller than the largest given one), own position, own goal, other agents' positions, other agents' goals.
    - `action_mask`: `Box(0, 1, (5,), int8)`, 1 for each action that neither leaves the board nor enters a hole. Other agents are
      not looked at: whether a move collides depends on what they do. Infos carry the same mask under `action_mask`.

    `state()` is the joint `Box(0, 1, (1 + 2 * agents, N, N), int8)`: blocked cells, then position and goal of each agent in order.

    ## Rewards
    Shared by all agents: 1 at the timestep at which all are at their goals, 0 otherwise. With `efficiency_weight` w the 1 becomes
    1 + w * optimal cost / sum of costs.

    ## Starting State
    A board drawn uniformly from `instances`, or generated from `size`, `num_agents`, `hole_ratio` and `wait_ratio`. The same seed
    gives the same board at every `reset(seed=seed)`; a reset without a seed goes on in the seed's stream.
    `reset(options={"instance": board})` plays on that board; other options are ignored. The infos of `reset` carry `instance_id`.

    ## Episode End
    Terminated for all agents when a rule is broken (the offending timestep is not carried out) or when all are at their goals;
    truncated after `max_steps` timesteps. The last infos carry the grader's verdict on the moves made: `outcome`,
    `failure_step` (from 1), `failure_agents` (indices), `sum_of_costs`, `makespan`, and the board's `optimal_cost`.

    ## Arguments
    - `instances`: boards to play on: instances, JSON objects, or the path of an instance file; None generates boards.
    - `size`, `num_agents`, `hole_ratio`, `wait_ratio`, `split`: what is generated, as in a generator config; `wait_ratio` is the
      probability that a board's every optimal plan must wait. Not used with `instances`.
    - `max_steps`: timesteps until truncation; None means the larger of 4 N and twice the board's optimal makespan.
    - `efficiency_weight`: weight of the efficiency term, default 0.
    - `render_mode`: None, `ansi` (text) or `rgb_array` (needs `envwright[pictures]`).

    ## Version History
    - v0: initial version
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "mapf_frozenlake_v0",
        "render_modes": list(RENDER_MODES),
        "render_fps": 2,
        "is_parallelizable": True,
    }

    def __init__(
        self,
        *,
        instances: Instances | None = None,
        size: int = 4,
        num_agents: int = 2,
        hole_ratio: float = 0.2,
        wait_ratio: float = 0.25,
        split: Split | str = Split.TRAIN,
        max_steps: int | None = None,
        efficiency_weight: float = 0.0,
        render_mode: str | None = None,
    ) -> None:
        check_options(max_steps, efficiency_weight, render_mode, RENDER_MODES)
        self._source = board_source(instances, size, num_agents, hole_ratio, wait_ratio, split)
        self._max_steps = max_steps
        self._efficiency_weight = efficiency_weight
        self.render_mode = render_mode
        self.possible_agents = [f"agent_{index}" for index in range(self._source.num_agents)]
        self.agents: list[str] = []
        side = self._source.size
        self.state_space = spaces.Box(0, 1, (num_joint_planes(self._source.num_agents), side, side), np.int8)
        self.observation_spaces = {agent: _observation_space(side) for agent in self.possible_agents}
        self.action_spaces = {agent: spaces.Discrete(len(ACTIONS)) for agent in self.possible_agents}
        self._rng: np.random.Generator | None = None
        self._episode: Episode | None = None

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the agent's observation space: the same object at every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the agent's action space: the same object at every call."""
        return self.action_spaces[agent]

    @property
    def instance(self) -> Instance:
        """The board of the current episode.

        Raises:
            UserError: there was no reset yet.
        """
        return self._current().instance

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin an episode and return the observations and infos of all agents.

        Raises:
            UserError: the board in the options is bad or does not fit, or no board could be generated.
        """
        if seed is not None or self._rng is None:
            self._rng, _ = seeding.np_random(seed)
        self._episode = Episode(chosen_board(self._source, self._rng, options), self._max_steps)
        self.agents = self.possible_agents[:]
        return self._observations(self.agents), self._infos(self.agents, {"instance_id": self._episode.instance.id})

    def step(
        self, actions: dict[str, int]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Make one timestep with an action of every agent; after the end, no actions give five empty dicts.

        Raises:
            UserError: no reset yet, the episode has ended, an agent's action is missing or unknown.
        """
        episode = self._current()
        if not self.agents and not actions:
            return {}, {}, {}, {}, {}
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise UserError(f"no action for {', '.join(missing)}; every live agent acts at every timestep (4 waits)")
        episode.step([actions[agent] for agent in self.possible_agents])
        acted, reward = self.agents, episode.reward(self._efficiency_weight)
        if episode.grade is not None:
            self.agents = []
        return (
            self._observations(acted),
            dict.fromkeys(acted, reward),
            dict.fromkeys(acted, episode.terminated),
            dict.fromkeys(acted, episode.truncated),
            self._infos(acted, episode.verdict()),
        )

    def state(self) -> NDArray[np.int8]:
        """Return the joint state, for training with a central critic; the class says how its planes are ordered."""
        return joint_planes(self._current(), self._source.size)

    def render(self) -> str | NDArray[np.uint8] | None:
        """Return the current timestep as text (`ansi`) or as an array of shape (height, width, 3) (`rgb_array`)."""
        if self.render_mode is None:
            logger.warn("render() was called without a render_mode; pass render_mode='ansi' or 'rgb_array' to parallel_env()")
            return None
        return render_episode(self._current(), self.render_mode)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _current(self) -> Episode:
        if self._episode is None:
            raise UserError("call reset() before this")
        return self._episode

    def _observations(self, agents: list[str]) -> dict[str, Observation]:
        episode, side = self._current(), self._source.size
        return {
            agent: {"observation": agent_planes(episode, index, side), "action_mask": episode.action_mask(index)}
            for index, agent in enumerate(agents)
        }

    def _infos(self, agents: list[str], common: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {agent: {"action_mask": self._current().action_mask(index), **common} for index, agent in enumerate(agents)}


def _observation_space(side: int) -> spaces.Dict:
    planes = spaces.Box(0, 1, (len(AGENT_PLANES), side, side), np.int8)
    return spaces.Dict({"observation": planes, "action_mask": spaces.Box(0, 1, (len(ACTIONS),), np.int8)})
