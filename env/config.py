"""The generator's configuration: what an engineer may edit, and nothing else.

A config has *buckets* (here: map sizes) and, per bucket, three *knobs*: data ratio, hole ratio and wait ratio.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from envwright.env.base import FrozenModel, StrictInt
from envwright.env.errors import UserError
from envwright.env.jsonio import read_json

__all__ = ["KNOBS", "KNOB_BOUNDS", "SUM_TOLERANCE", "GeneratorConfig", "Knobs", "largest_remainder", "read_config"]

SUM_TOLERANCE = 0.01
"""How far data ratios may be from a sum of 1: room for a person's or a model's rounding, and the only tolerance there is."""

_NUMBER_TYPES = (int, float)


class Knobs(FrozenModel):
    """The three knobs of one map size."""

    data_ratio: float = Field(ge=0.0, le=1.0)
    """Share of the stage's instances that have this size, 0 to 1; the shares of all sizes sum to 1."""
    hole_ratio: float = Field(ge=0.0, le=0.5)
    """Share of the board's cells that are holes, 0 to 0.5; the number of holes is rounded."""
    wait_ratio: float = Field(ge=0.0, le=1.0)
    """Share of this size's instances in which every optimal plan must wait, 0 to 1; the count is rounded."""

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_only(cls, value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, _NUMBER_TYPES):
            raise ValueError(f"must be a number, got {value!r}")
        return value


KNOBS: tuple[str, ...] = tuple(Knobs.model_fields)
"""Names of the knobs, in order."""

KNOB_BOUNDS: dict[str, tuple[float, float]] = {"data_ratio": (0.0, 1.0), "hole_ratio": (0.0, 0.5), "wait_ratio": (0.0, 1.0)}
"""Lowest and highest value of each knob."""

SizeKey = Annotated[str, StringConstraints(pattern=r"^([2-9]|[1-5][0-9]|6[0-4])$")]


class GeneratorConfig(FrozenModel):
    """What the generator makes: one set of knobs per map size."""

    schema_version: Literal[1] = 1
    """Version of the file format."""
    num_agents: StrictInt = Field(ge=1, le=10)
    """Agents on every board, 1 to 10. Not a knob: engineers cannot edit it."""
    sizes: dict[SizeKey, Knobs] = Field(min_length=1, json_schema_extra={"additionalProperties": False})
    """Map side (as a string, "2" to "64") -> its knobs."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        total = sum(knobs.data_ratio for knobs in self.sizes.values())
        if total == 0:
            raise ValueError("every data_ratio is 0; at least one size needs a share of the instances")
        if abs(total - 1.0) > SUM_TOLERANCE + 1e-12:
            raise ValueError(f"the data ratios sum to {total:.6g}, not to 1 (tolerance {SUM_TOLERANCE})")
        return self

    @field_validator("sizes", mode="after")
    @classmethod
    def _in_order(cls, sizes: dict[str, Knobs]) -> dict[str, Knobs]:
        return dict(sorted(sizes.items(), key=lambda item: int(item[0])))

    def buckets(self) -> Iterator[tuple[str, Knobs]]:
        """Yield `(bucket, knobs)` from the smallest map to the largest."""
        yield from self.sizes.items()

    def counts(self, total: int) -> dict[str, int]:
        """Return instances per bucket for a budget of `total`, by largest remainder: they add up exactly."""
        return dict(zip(self.sizes, largest_remainder([knobs.data_ratio for knobs in self.sizes.values()], total), strict=True))


def largest_remainder(shares: list[float], total: int) -> list[int]:
    """Split `total` in proportion to `shares` (Hamilton's method; ties go to the earlier share)."""
    exact = [Fraction(share) for share in shares]
    whole = sum(exact)
    quotas = [share * total / whole for share in exact]
    counts = [int(quota) for quota in quotas]
    by_remainder = sorted(range(len(shares)), key=lambda index: (counts[index] - quotas[index], index))
    for index in by_remainder[: total - sum(counts)]:
        counts[index] += 1
    return counts


def read_config(path: Path) -> GeneratorConfig:
    """Read a config file.

    Raises:
        UserError: the file is missing, not strict JSON, or breaks a rule of `GeneratorConfig`; one line each.
    """
    raw = read_json(path)
    if not isinstance(raw, dict):
        raise UserError(f"{path}: a config must be a JSON object, got {type(raw).__name__}")
    return GeneratorConfig.parse(raw, str(path))
