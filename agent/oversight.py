"""Puts an engineer to work under a person's or a run's settings: context, way of working, guard rails, approval."""

from __future__ import annotations

from envwright.agent.approval import Approval, AutoApproval
from envwright.agent.baselines import FixedEngineer
from envwright.agent.engineers import Engineer, ModelEngineer
from envwright.agent.events import Listener
from envwright.agent.work_settings import WorkSettings
from envwright.env.errors import UserError

__all__ = ["oversee"]


def oversee(engineer: Engineer, work: WorkSettings, approval: Approval | None = None, on_event: Listener | None = None) -> Engineer:
    """Return the engineer, at work under these settings.

    Baselines that compute their patch take no notice of context and guard rails, and a replay takes its own from its
    transcript.

    Args:
        engineer: from `make_engineer`.
        work: context modules, way of working, guard rails.
        approval: who has the last word; None approves.
        on_event: told everything that happens in its sessions.

    Raises:
        UserError: approval is asked for an engineer that could not be told of a rejection.
    """
    if isinstance(engineer, ModelEngineer):
        engineer.work, engineer.approval, engineer.on_event = work, approval, on_event
    elif not isinstance(approval, AutoApproval | None) and not isinstance(engineer, FixedEngineer):
        raise UserError(f"engineer {engineer.name!r} has no session in which a patch could be rejected; use --approval auto")
    return engineer
