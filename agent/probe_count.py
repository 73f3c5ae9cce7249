"""Counts what an engineer asks of the policy: completions that simulations spend are part of its price."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from envwright.env.instance import Instance
from envwright.tools.evidence import Evidence

__all__ = ["count_probe"]


def count_probe(evidence: Evidence) -> tuple[Evidence, Callable[[], int]]:
    """Return the evidence with a probe that counts, and what tells the completions that were asked of the policy so far."""
    probe = evidence.probe
    if probe is None:
        return evidence, lambda: 0
    completions = 0

    def counting(instances: Sequence[Instance]) -> Sequence[Sequence[bool]]:
        nonlocal completions
        groups = probe(instances)
        completions += sum(map(len, groups))
        return groups

    return replace(evidence, probe=counting), lambda: completions
