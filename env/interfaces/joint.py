"""MAPF-FrozenLake as a Gymnasium environment: one player moves all agents at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from envwright.env.canonical import Split
from envwright.env.errors import MissingExtraError, UserError
from envwright.env.instance import Instance
from envwright.env.interfaces.episode import ACTIONS, Episode
from envwright.env.interfaces.planes import joint_planes, num_joint_planes
from envwright.env.interfaces.rendering import RENDER_MODES, render_episode
from envwright.env.interfaces.source import Instances, board_source, check_options, chosen_board

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise MissingExtraError("gymnasium", "envs", "the Gymnasium environment") from None

__all__ = ["MapfFrozenLakeEnv"]


class MapfFrozenLakeEnv(gymnasium.Env[NDArray[np.int8], NDArray[np.int64]]):
    """Several agents cross a frozen lake full of holes, all at once and moved by one player, without running into each other.

    ## Description
    Multi-agent path finding on an N x N grid. Every agent has a start and a goal of its own. At each timestep all agents act at
    the same time. No agent may leave the board or enter a hole; no two agents may be in one cell after a timestep (a waiting or
    parked agent included), and no two may exchange cells in one timestep. An agent may enter the cell that another one leaves
    in the same timestep, and three or more may rotate. Agents stay on the board after arriving and still block their cells.
    The rules are those of `envwright.env.rules`, with which the solver and the grader agree.

    ## Action Space
    `MultiDiscrete([5] * agents)`: for each agent 0 up, 1 down, 2 left, 3 right, 4 wait. Rows count from the top, columns from the
    left. Infos carry `action_mask`, shape (agents, 5), int8: 1 for each action that neither leaves the board nor enters a hole;
    `action_space.sample(mask=tuple(info["action_mask"]))` takes it.

    ## Observation Space
    `Box(0, 1, (1 + 2 * agents, N, N), int8)`, planes indexed `[plane, row, col]`: blocked cells (holes, and cells beyond a board that
    is smaller than the largest given one), then for each agent in order its position and its goal.

    ## Rewards
    1 at the timestep at which all agents are at their goals, 0 otherwise. With `efficiency_weight` w the 1 becomes
    1 + w * optimal cost / sum of costs.

    ## Starting State
    A board drawn uniformly from `instances`, or generated from `size`, `num_agents`, `hole_ratio` and `wait_ratio`. The same seed
    gives the same board at every `reset(seed=seed)`; a reset without a seed goes on in the seed's stream.
    `reset(options={"instance": board})` plays on that board; other options are ignored. The info of `reset` carries `instance_id`.

    ## Episode End
    Terminated when a rule is broken (the offending timestep is not carried out) or when all agents are at their goals; truncated
    after `max_steps` timesteps. The last info carries the grader's verdict on the moves made: `outcome`, `failure_step` (from 1),
    `failure_agents` (indices), `sum_of_costs`, `makespan`, and the board's `optimal_cost`.

    ## Arguments
    ```python
    import gymnasium
    import envwright.mapf_frozenlake_v0  # registers the id
    gymnasium.make("envwright/MAPF-FrozenLake-v0", size=6, num_agents=3)
    ```

    - `instances`: boards to play on: instances, JSON objects, or the path of an instance file; None generates boards.
    - `size`, `num_agents`, `hole_ratio`, `wait_ratio`, `split`: what is generated, as in a generator config; `wait_ratio` is the
      probability that a board's every optimal plan must wait. Not used with `instances`.
    - `max_steps`: timesteps until truncation; None means the larger of 4 N and twice the board's optimal makespan.
    - `efficiency_weight`: weight of the efficiency term, default 0.
    - `render_mode`: None, `ansi` (text) or `rgb_array` (needs `envwright[pictures]`).

    ## Version History
    - v0: initial version
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 2}  # noqa: RUF012 Gymnasium declares it so

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
        agents, side = self._source.num_agents, self._source.size
        self.action_space = spaces.MultiDiscrete([len(ACTIONS)] * agents)
        self.observation_space = spaces.Box(0, 1, (num_joint_planes(agents), side, side), np.int8)
        self._episode: Episode | None = None

    @property
    def instance(self) -> Instance:
        """The board of the current episode.

        Raises:
            UserError: there was no reset yet.
        """
        return self._current().instance

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[np.int8], dict[str, Any]]:
        """Begin an episode and return its observation and info.

        Raises:
            UserError: the board in the options is bad or does not fit, or no board could be generated.
        """
        super().reset(seed=seed)
        self._episode = Episode(chosen_board(self._source, self.np_random, options), self._max_steps)
        return self._observation(), self._info({"instance_id": self._episode.instance.id})

    def step(self, action: NDArray[np.int64]) -> tuple[NDArray[np.int8], float, bool, bool, dict[str, Any]]:
        """Make one timestep.

        Args:
            action: shape (agents,), one action number per agent.

        Raises:
            UserError: no reset yet, the episode has ended, or the actions are not one of 0 to 4 per agent.
        """
        episode, actions = self._current(), np.asarray(action)
        if actions.shape != (self._source.num_agents,):
            raise UserError(
                f"the action has shape {actions.shape}; expected one action number per agent, shape ({self._source.num_agents},)"
            )
        episode.step(actions.tolist())
        reward = episode.reward(self._efficiency_weight)
        return self._observation(), reward, episode.terminated, episode.truncated, self._info(episode.verdict())

    def render(self) -> Any:
        """Return the current timestep as text (`ansi`) or as an array of shape (height, width, 3) (`rgb_array`)."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() was called without a render_mode; pass render_mode='ansi' or 'rgb_array' to gymnasium.make()")
            return None
        return render_episode(self._current(), self.render_mode)

    def _current(self) -> Episode:
        if self._episode is None:
            raise UserError("call reset() before this")
        return self._episode

    def _observation(self) -> NDArray[np.int8]:
        return joint_planes(self._current(), self._source.size)

    def _info(self, more: dict[str, Any]) -> dict[str, Any]:
        episode = self._current()
        return {"action_mask": np.stack([episode.action_mask(agent) for agent in range(self._source.num_agents)]), **more}
