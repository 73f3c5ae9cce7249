"""The oracle baseline: tries a grid of knobs on the policy itself and takes what it predicts to teach most.

An upper line, not a fair rival: each redesign asks the policy for thousands of completions, which it reports
(`Usage.policy_completions`), so that a comparison can say what it cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from envwright.agent.baselines import Baseline, edit, scaled_shares
from envwright.agent.context import Bookkeeping
from envwright.agent.frontier import FLOOR
from envwright.env.config import GeneratorConfig
from envwright.tools.evidence import Evidence
from envwright.tools.simulate_config import Forecast, SimulateConfigArguments
from envwright.tools.simulate_config import run as simulate

__all__ = ["OracleEngineer"]

GRID_HOLES, GRID_WAITS = (0.0, 0.15, 0.3), (0.0, 0.25, 0.5, 0.75)
"""Knobs that are tried on every size, each with each, beside the current ones."""
FIRST_BOARDS, FINAL_BOARDS = 12, 32
"""Boards per size and candidate: in the first round, and in the final of the best ones."""
FINALISTS = 2
"""Candidates of each size that reach the final; the current knobs always do."""

_Setting = tuple[float, float]
"""Hole ratio and wait ratio of a size."""


class OracleEngineer(Baseline):
    """Per size the best of a grid by the predicted share of groups with mixed outcomes, and shares in proportion to it.

    Sizes do not depend on each other, so each row of the grid is one simulation for all sizes. The best of the first round are
    tried once more on more boards, with the current knobs, since the best of many small samples is mostly the luckiest one.
    """

    @property
    def name(self) -> str:
        """`oracle`."""
        return "oracle"

    def propose(self, evidence: Evidence, bookkeeping: Bookkeeping) -> dict[str, Any] | str:  # noqa: ARG002  (the same at every stage)
        """Try, choose, and say what was predicted; without a policy at hand there is nothing to try on."""
        if evidence.probe is None:
            return "no policy is at hand to try configs on"
        current = {bucket: (knobs.hole_ratio, knobs.wait_ratio) for bucket, knobs in evidence.config.buckets() if knobs.data_ratio > 0}
        grid = list(product(GRID_HOLES, GRID_WAITS))
        first = [_tried(evidence, dict.fromkeys(current, setting), FIRST_BOARDS) for setting in grid]
        best = {bucket: _best(grid, [row[bucket] for row in first], FINALISTS) for bucket in current}
        entries = {bucket: [current[bucket], *(grid[place] for place in best[bucket])] for bucket in current}
        final = [
            _tried(evidence, {bucket: settings[min(number, len(settings) - 1)] for bucket, settings in entries.items()}, FINAL_BOARDS)
            for number in range(max(map(len, entries.values())))
        ]
        chosen = {bucket: _best(settings, [row[bucket] for row in final], 1) for bucket, settings in entries.items()}
        edits = _edits(evidence.config, current, entries, final, {bucket: places[0] for bucket, places in chosen.items() if places})
        if not edits:
            return f"the current knobs are the best of {len(grid) + 1} tried on every size"
        return {"summary": f"The most mixed groups by simulation, of {len(grid) + 1} settings tried on every size", "edits": edits}


def _tried(evidence: Evidence, settings: Mapping[str, _Setting], n: int) -> dict[str, Forecast]:
    """Simulate a config with these knobs; bucket -> how the policy does, empty figures where the generator fails."""
    sizes = {
        bucket: knobs.model_copy(update=dict(zip(("hole_ratio", "wait_ratio"), settings[bucket], strict=True)))
        if bucket in settings
        else knobs
        for bucket, knobs in evidence.config.buckets()
    }
    config = GeneratorConfig(num_agents=evidence.config.num_agents, sizes=sizes)
    answer = simulate(SimulateConfigArguments(edits=(), n=n), replace(evidence, config=config))
    return {row.bucket: row.forecast for row in answer.buckets}


def _best(settings: Sequence[_Setting], forecasts: Sequence[Forecast], count: int) -> list[int]:
    """Return the places of the settings with the most mixed groups, the best first; ties go to the earlier one."""
    known = {place: figures.mixed_groups for place, figures in enumerate(forecasts[: len(settings)]) if figures.mixed_groups is not None}
    return sorted(known, key=lambda place: (-known[place], place))[:count]


def _edits(
    config: GeneratorConfig,
    current: Mapping[str, _Setting],
    entries: Mapping[str, Sequence[_Setting]],
    final: Sequence[Mapping[str, Forecast]],
    chosen: Mapping[str, int],
) -> list[dict[str, Any]]:
    """Turn the places chosen in the final into edits of the knobs that change, and of the shares."""
    mixed = {bucket: final[place][bucket].mixed_groups or 0.0 for bucket, place in chosen.items()}
    edits = []
    for bucket, place in chosen.items():
        before = final[0][bucket].mixed_groups
        told = "infeasible" if before is None else f"{before:.2f}"
        reason = f"{bucket}x{bucket}: mixed groups {told} to {mixed[bucket]:.2f} on {FINAL_BOARDS} simulated boards"
        for knob, old, new in zip(("hole_ratio", "wait_ratio"), current[bucket], entries[bucket][place], strict=True):
            if old != new:
                edits.append(edit(bucket, knob, new, reason))
    whole = sum(mixed.values())
    if edits and whole > 0 and len(mixed) > 1:
        together = sum(config.sizes[bucket].data_ratio for bucket in mixed)
        weights = {bucket: FLOOR / len(mixed) + (1 - FLOOR) * value / whole for bucket, value in mixed.items()}
        for bucket, share in scaled_shares(weights, together).items():
            edits.append(
                edit(bucket, "data_ratio", share, f"{bucket}x{bucket}: {mixed[bucket]:.2f} of its groups are predicted to be mixed")
            )
    return edits
