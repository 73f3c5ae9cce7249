"""Fixtures for the agent's tests."""

from __future__ import annotations

import pytest

from envwright.tools.evidence import Evidence
from tests.agent.evidence_maker import BASE, make_evidence


@pytest.fixture
def evidence() -> Evidence:
    return make_evidence(BASE)


@pytest.fixture
def patch_arguments() -> dict[str, object]:
    edit = {"op": "replace", "path": "/sizes/4/wait_ratio", "value": 0.5, "reason": "4x4: 6 of 60", "evidence": []}
    return {"summary": "more coordination at 4x4", "edits": [edit]}
