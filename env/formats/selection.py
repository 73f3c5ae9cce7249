"""Which instances an export takes, in their canonical lines, by the split that each board belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envwright.env.canonical import Split
from envwright.env.errors import UserError
from envwright.env.instance import Instance, board_split

__all__ = ["canonical_instance", "select_by_split"]


def canonical_instance(instance: Instance) -> Instance:
    """Return the instance with its holes in reading order, so that equal boards give equal lines; agents keep their order."""
    return instance.model_copy(update={"holes": tuple(sorted(instance.holes))})


def select_by_split(
    instances: Iterable[Instance], split: Split | None = None, sizes: Sequence[int] | None = None
) -> dict[Split, list[Instance]]:
    """Return the instances of each split that has some, in file order.

    The split is the board's own, from its content hash, whatever its id says.

    Args:
        instances: what to choose from.
        split: keep this split alone; None keeps all.
        sizes: keep boards of these side lengths alone; None or empty keeps all.

    Raises:
        UserError: nothing is left.
    """
    kept: dict[Split, list[Instance]] = {name: [] for name in Split}
    for instance in instances:
        own = board_split(instance)
        if (split is None or own is split) and (not sizes or instance.size in sizes):
            kept[own].append(canonical_instance(instance))
    found = {name: members for name, members in kept.items() if members}
    if not found:
        wanted = [f"split {split}"] if split else []
        wanted += [f"size {', '.join(map(str, sizes))}"] if sizes else []
        raise UserError(f"no instance has {' and '.join(wanted) or 'been given'}; choose another --split or --size")
    return found
