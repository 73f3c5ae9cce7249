"""The Gymnasium id of the joint environment, and its registration."""

from __future__ import annotations

from envwright.env.errors import MissingExtraError

__all__ = ["GYMNASIUM_ID", "register_envs"]

GYMNASIUM_ID = "envwright/MAPF-FrozenLake-v0"
"""Id of the joint, single-player form."""


def register_envs() -> None:
    """Register the id with Gymnasium; a second call changes nothing.

    Raises:
        MissingExtraError: Gymnasium is not installed.
    """
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError("gymnasium", "envs", "the Gymnasium environment") from None
    if GYMNASIUM_ID not in gymnasium.registry:
        gymnasium.register(GYMNASIUM_ID, entry_point="envwright.env.interfaces.joint:MapfFrozenLakeEnv")
