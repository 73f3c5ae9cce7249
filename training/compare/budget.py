"""What a run spent, as measured: counted in its files, timed by its events.

Boards and completions are those that the policy was trained on. What an engineer has the policy play in `simulate_config` is
counted apart: no gradient sees those completions, but they were sampled all the same. A first stage that several arms share
counts for each of them, as if each had done it. Times of a stage that was broken off are those of its last try.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envwright.agent.messages import ToolMessage
from envwright.agent.transcript import Recording, read_transcript
from envwright.env.errors import UserError
from envwright.env.jsonio import parse_json, read_text
from envwright.training.compare.completions import Completion
from envwright.training.runstore import RunStore, StageFolder
from envwright.training.settings import RunSettings

__all__ = ["TOLERANCE", "budget_flags", "simulations", "stage_budget", "total_budget"]

TOLERANCE = 0.01
"""Share by which an arm may spend more than the one that spent least in its seed, before it is flagged."""
_FLAGGED = {"boards": "boards", "completions": "completions"}


def stage_budget(store: RunStore, settings: RunSettings, number: int, trained: Sequence[Completion]) -> dict[str, Any]:
    """Return what a finished stage spent; None where it was not measured.

    Args:
        store: the run.
        settings: its settings.
        number: the stage.
        trained: the completions of its training.
    """
    folder, times = store.stage(number), _times(store, number)
    usage = folder.outcome().get("usage", {})
    return {
        "boards": read_text(folder.path / "instances.jsonl").count("\n"),
        "completions": len(trained),
        "completion_tokens": sum(completion.tokens for completion in trained),
        "training_seconds": times.get("training"),
        "wall_seconds": times.get("wall"),
        "engineer_requests": usage.get("requests", 0),
        "engineer_tool_calls": usage.get("tool_calls", 0),
        "engineer_tokens": usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0),
        "engineer_seconds": times.get("engineer"),
        "simulated_completions": _simulated_completions(folder, settings.grpo.num_generations),
    }


def total_budget(stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up the stages of a run; a figure that one stage lacks is None."""
    names = [name for name in (stages[0] if stages else ()) if name != "stage"]
    total: dict[str, Any] = {}
    for name in names:
        values = [stage[name] for stage in stages]
        total[name] = None if any(value is None for value in values) else sum(values)
        if isinstance(total[name], float):
            total[name] = round(total[name], 2)
    return total


def budget_flags(of_arms: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Say which arms of one seed spent more than they should have.

    Args:
        of_arms: arm -> its total budget, all of one seed.

    Returns:
        Arm -> sentences: one for boards or completions above the least by more than `TOLERANCE`, one for completions in simulations.
    """
    flags: dict[str, list[str]] = {arm: [] for arm in of_arms}
    for key, word in _FLAGGED.items():
        least_arm = min(of_arms, key=lambda arm: of_arms[arm][key], default=None)
        if least_arm is None:
            continue
        least = of_arms[least_arm][key]
        for arm, budget in of_arms.items():
            if budget[key] > least * (1 + TOLERANCE):
                flags[arm].append(f"trained on {budget[key]} {word}, {_percent(budget[key] - least, least)} more than {least_arm}")
    for arm, budget in of_arms.items():
        simulated = budget["simulated_completions"]
        if simulated is None:
            flags[arm].append("its simulations cannot be counted: a transcript is cut off, or an answer in it was shortened")
        elif simulated > TOLERANCE * budget["completions"]:
            share = _percent(simulated, budget["completions"])
            flags[arm].append(f"sampled {simulated} completions in simulations beside training, {share} of those trained on")
    return flags


def simulations(recording: Recording) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield arguments and answer of every `simulate_config` call that was answered in full, in order."""
    calls = {
        call.id: call.function.arguments
        for message in recording.assistant_messages
        for call in message.tool_calls
        if call.function.name == "simulate_config"
    }
    for message in recording.messages:
        if isinstance(message, ToolMessage) and message.tool_call_id in calls:
            try:
                arguments, answer = parse_json(calls[message.tool_call_id]), parse_json(message.content)
            except UserError:
                continue
            if isinstance(arguments, dict) and isinstance(answer, dict) and isinstance(answer.get("buckets"), list):
                yield arguments, answer


def _times(store: RunStore, number: int) -> dict[str, float]:
    """Seconds of the last try at a stage: training, the engineer, and all of it."""
    times: dict[str, float] = {}
    for event in store.events():
        if event.get("stage") != number:
            continue
        if event["event"] == "stage_trained":
            times["training"] = event["seconds"]
        elif event["event"] == "stage_finished":
            times |= {"wall": event["seconds"], "engineer": event.get("engineer_seconds", 0.0)}
    if "wall" in times and "training" in times:  # a stage that was trained in an earlier try, or by another run
        times["wall"] = max(times["wall"], round(times["training"] + times["engineer"], 2))
    return times


def _simulated_completions(folder: StageFolder, num_generations: int) -> int | None:
    """Completions that the policy sampled for `simulate_config`; None when the session cannot be read."""
    if not folder.transcript.is_file():
        return 0
    try:
        recording = read_transcript(folder.transcript)
    except UserError:
        return None
    boards = 0
    for _, answer in simulations(recording):
        if "buckets" in answer.get("dropped_from", ()):
            return None
        for bucket in answer["buckets"]:
            for hardness, forecast in (("hardness", "forecast"), ("current_hardness", "current_forecast")):
                if bucket[hardness] is not None and bucket[forecast]["predicted_valid"] is not None:
                    boards += bucket[hardness]["instances"]
    return boards * num_generations


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "all"
