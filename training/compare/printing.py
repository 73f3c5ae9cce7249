"""A comparison as text: what will run, and what came of it. Plain ASCII, at most about 120 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envwright.training.compare.plan import Plan

__all__ = ["outcome_lines", "plan_lines"]


def plan_lines(plan: Plan, jobs: int) -> Iterator[str]:
    """Yield what a comparison will do."""
    shared, seeds = plan.shared(), ", ".join(map(str, plan.seeds))
    yield f"envwright compare: preset {plan.source}, {len(plan.arms)} arms x {len(plan.seeds)} seeds ({seeds}) = {len(plan.cells)} runs"
    yield f"   {'arm':<22}{'stages':>6} {'boards':>9} {'completions':>12}  settings"
    for arm in plan.to_json()["arms"]:
        settings = plan.settings_of(arm["name"])
        boards = settings.num_stages * settings.instances_per_stage
        completions = settings.num_stages * settings.steps_per_stage * settings.grpo.boards_per_step * settings.grpo.num_generations
        own = ", ".join(f"{key}={value}" for key, value in arm["overrides"].items() if key != "engineer")
        words = f"engineer {arm['engineer']}{', ' + own if own else ''}"
        yield f"   {arm['name']:<22}{settings.num_stages:>6} {boards:>9} {completions:>12}  {words}"
    saved = sum(len(cells) - 1 for cells in shared.values())
    if shared:
        yield f"   {len(shared)} first stages are trained once and shared, which saves {saved} of {sum(map(_stages, plan.cells))} stages"
    evaluation = plan.cells[0].settings.evaluation
    yield (
        f"   measured on the same {evaluation.heldout_instances} held-out and {evaluation.validation_instances} validation boards, "
        f"greedy and with {evaluation.samples} samples"
    )
    yield f"   differences are paired by seed and board; against {plan.baseline}, and every other pair"
    yield f"   {jobs} run{'s' if jobs > 1 else ''} at a time, {plan.cells[0].settings.threads} CPU threads each"


def _stages(cell: Any) -> int:
    count: int = cell.settings.num_stages
    return count


def outcome_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outcome of a comparison: rates, differences, budgets, and what is missing."""
    if document["headline"]:
        yield ""
        yield "== held-out boards, mean over seeds [95 % interval over seeds and boards] =="
        yield f"   {'arm':<22}{'valid, greedy':<24}{'valid, sampled':<24}{'optimal, greedy':<24}seeds"
        for row in document["base"]:
            if (row["decoding"], row["metric"]) == ("greedy", "valid"):
                yield _rates_line(f"before ({_short(row['policy'])})", document["base"], "policy", row["policy"])
        for arm in document["arms"]:
            if any(row["arm"] == arm["name"] for row in document["headline"]):
                yield _rates_line(arm["name"], document["headline"], "arm", arm["name"])
        yield from _difference_lines(document["differences"])
        yield from _budget_lines(document["cells"])
    if document["unfinished"]:
        yield ""
        yield f"unfinished: {len(document['unfinished'])} of {len(document['cells'])} runs"
        for line in document["unfinished"]:
            yield f"   {line}"


def _rates_line(name: str, rows: Sequence[Mapping[str, Any]], key: str, value: str) -> str:
    own = {(row["decoding"], row["metric"]): row for row in rows if row[key] == value}
    shown = [own["greedy", "valid"], own["sampled", "valid"], own["greedy", "optimal"]]
    cells = [f"{100 * row['rate']:5.1f} % [{100 * row['low']:.1f}, {100 * row['high']:.1f}]" for row in shown]
    return f"   {name:<22}{''.join(f'{cell:<24}' for cell in cells)}{shown[0]['seeds']}"


def _difference_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    shown = [row for row in rows if row["subset"] == "all" and row["metric"] == "valid"]
    if not shown:
        return
    yield ""
    yield "== differences in valid plans, in points [95 % interval, paired by seed and board]; * where it excludes 0 =="
    for row in shown:
        if row["decoding"] == "greedy":
            pair = (row["arm"], row["against"])
            of_pair = {other["decoding"]: other for other in shown if (other["arm"], other["against"]) == pair}
            yield (
                f"   {row['arm'] + ' - ' + row['against']:<40}greedy {_points(of_pair['greedy']):<28}"
                f"sampled {_points(of_pair['sampled']):<28}{row['seeds']} seeds"
            )


def _points(row: Mapping[str, Any]) -> str:
    star = " *" if row["low"] > 0 or row["high"] < 0 else ""
    return f"{100 * row['difference']:+5.1f} [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]{star}"


def _budget_lines(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    done = [cell for cell in cells if cell["status"] == "done"]
    yield ""
    yield "== spent per run, mean over seeds (a shared first stage counts for every arm) =="
    yield f"   {'arm':<22}{'boards':>9}{'completions':>13}{'tokens':>12}{'simulated':>11}{'training s':>12}{'engineer s':>12}{'its tokens':>12}"
    names = (
        "boards",
        "completions",
        "completion_tokens",
        "simulated_completions",
        "training_seconds",
        "engineer_seconds",
        "engineer_tokens",
    )
    for arm in dict.fromkeys(cell["arm"] for cell in done):
        budgets = [cell["budget"] for cell in done if cell["arm"] == arm]
        figures = [_mean([budget[name] for budget in budgets]) for name in names]
        yield f"   {arm:<22}{''.join(f'{figure:>{width}}' for figure, width in zip(figures, (9, 13, 12, 11, 12, 12, 12), strict=True))}"
    for cell in done:
        for flag in cell["flags"]:
            yield f"   {cell['arm']} seed {cell['seed']}: {flag}"


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.0f}" if len(known) == len(values) and known else "?"


def _short(policy: str) -> str:
    return policy if len(policy) <= 12 else f"...{policy[-9:]}"
