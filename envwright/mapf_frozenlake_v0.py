"""MAPF-FrozenLake for multi-agent and single-agent RL libraries.

`parallel_env(...)` is the PettingZoo parallel environment and `env(...)` the same in turns (AEC); importing this module
registers the joint, single-player form with Gymnasium as `envwright/MAPF-FrozenLake-v0`. All take the arguments that
`MapfFrozenLakeParallelEnv` documents. Needs `envwright[envs]`.
"""

from __future__ import annotations

from typing import Any

from envwright.env.interfaces.joint import MapfFrozenLakeEnv
from envwright.env.interfaces.parallel import MapfFrozenLakeParallelEnv
from envwright.env.interfaces.registration import GYMNASIUM_ID, register_envs

__all__ = ["GYMNASIUM_ID", "MapfFrozenLakeEnv", "MapfFrozenLakeParallelEnv", "env", "parallel_env", "register_envs"]


def parallel_env(**arguments: Any) -> MapfFrozenLakeParallelEnv:
    """Return the PettingZoo parallel environment: all agents act at once.

    Raises:
        UserError: an argument is out of its bounds.
    """
    return MapfFrozenLakeParallelEnv(**arguments)


def env(**arguments: Any) -> Any:
    """Return the PettingZoo environment in turns (AEC): actions are gathered, and carried out together after the last agent's.

    Raises:
        UserError: an argument is out of its bounds.
    """
    from pettingzoo.utils.conversions import parallel_to_aec
    from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, OrderEnforcingWrapper

    return OrderEnforcingWrapper(AssertOutOfBoundsWrapper(parallel_to_aec(parallel_env(**arguments))))


register_envs()
