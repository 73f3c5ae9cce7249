"""The base of every data model: immutable, unknown keys refused, no NaN, field docstrings become JSON Schema descriptions."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envwright.env.errors import UserError, describe_validation

__all__ = ["FrozenModel", "StrictInt"]

StrictInt = Annotated[int, Field(strict=True)]
"""An integer that is written as an integer: neither `true` nor `"3"` nor `3.0` passes."""


class FrozenModel(BaseModel):
    """Immutable record with a strict reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, defer_build=True)

    @classmethod
    def parse(cls, raw: Any, where: str) -> Self:
        """Validate `raw`.

        Args:
            raw: plain JSON data.
            where: what the data is, for the message ("config.json", "rollouts.jsonl line 7").

        Raises:
            UserError: one line that names the place, the value and the rule.
        """
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise UserError(f"{where}: {describe_validation(error)}") from None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data, keys in the order of the fields."""
        return self.model_dump(mode="json")
