"""The boards that a stage trains on: those whose prompts fit, in the order in which they are met, and proof that they follow the config."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from envwright.env.config import GeneratorConfig
from envwright.env.errors import JobFailedError, UserError
from envwright.env.generator import num_holes, wait_count
from envwright.env.instance import Instance
from envwright.env.seeding import random_stream
from envwright.training.policies.policy import Policy

__all__ = ["check_boards_follow", "fitting", "met_in_order"]


def fitting(policy: Policy, instances: Sequence[Instance], longest: int | None) -> list[Instance]:
    """Return the boards whose prompt has at most `longest` tokens.

    Raises:
        UserError: more than half of them are longer.
    """
    if longest is None:
        return list(instances)
    lengths = [len(policy.encode(policy.prompt(instance))) for instance in instances]
    kept = [instance for instance, length in zip(instances, lengths, strict=True) if length <= longest]
    if 2 * len(kept) < len(instances):
        worst = instances[max(range(len(lengths)), key=lengths.__getitem__)]
        raise UserError(
            f"{len(instances) - len(kept)} of {len(instances)} prompts are longer than {longest} tokens (the longest, {worst.size}x{worst.size}, "
            f"has {max(lengths)}): raise grpo.max_prompt_length, take smaller boards, or a model with a longer context"
        )
    return kept


def met_in_order(instances: Sequence[Instance], wanted: int, *, seed: int, stage: int | str) -> list[Instance]:
    """Return `wanted` boards: the first pass in order, each further one shuffled."""
    order = list(range(len(instances)))
    passes = 0
    while len(order) < wanted:
        passes += 1
        order += random_stream(seed, "epoch", stage, passes).permutation(len(instances)).tolist()
    return [instances[place] for place in order[:wanted]]


def check_boards_follow(
    before: GeneratorConfig, boards_before: Sequence[Instance], config: GeneratorConfig, boards: Sequence[Instance]
) -> None:
    """Make sure that boards changed when their config did.

    Raises:
        JobFailedError: the config asks for other boards than the stage before, and they look the same.
    """
    there = {board.bucket for board in (*boards, *boards_before)}  # prompts of a whole size may be too long
    asked_before, asked = ({bucket: part for bucket, part in _asked(c, len(boards)).items() if bucket in there} for c in (before, config))
    if asked != asked_before and _measured(boards) == _measured(boards_before):
        changed = sorted((bucket for bucket in asked if asked[bucket] != asked_before.get(bucket)), key=int)
        raise JobFailedError(
            f"the config changed ({', '.join(f'{bucket}x{bucket}' for bucket in changed)}) but the boards have the sizes, holes and waits of the "
            "stage before: the generator does not follow the config; report this"
        )


def _asked(config: GeneratorConfig, n: int) -> dict[str, tuple[int, int, int]]:
    """Per size: boards, holes on each, and boards that need a wait."""
    counts = config.counts(n)
    return {
        bucket: (counts[bucket], num_holes(int(bucket), knobs.hole_ratio), wait_count(counts[bucket], knobs.wait_ratio))
        for bucket, knobs in config.buckets()
    }


def _measured(boards: Sequence[Instance]) -> Counter[tuple[str, int, bool]]:
    return Counter((board.bucket, len(board.holes), board.wait_required) for board in boards)
