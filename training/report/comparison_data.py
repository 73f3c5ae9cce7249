"""What a page tells of a comparison: comparison.json, its tables, and means over seeds with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from envwright.env.errors import MissingExtraError, UserError
from envwright.training.compare.comparison import read_comparison
from envwright.training.compare.tables import Row
from envwright.training.report.data import command_text, pick
from envwright.training.report.look import NEUTRAL, Series, category

__all__ = ["ComparisonData", "SeedMean", "seed_mean"]

_T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
"""97.5 % quantile of Student's t with 1, 2, ... degrees of freedom."""


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A mean over seeds."""

    mean: float
    low: float | None
    """Lower end of the 95 % t interval over seeds; of one seed, what its own row says, or None."""
    high: float | None
    seeds: int


def seed_mean(values: Sequence[float], own: tuple[float, float] | None = None) -> SeedMean:
    """Return the mean of a share over seeds with Student's 95 % interval, cut to 0..1.

    Args:
        values: one per seed, at least one.
        own: the interval to give when there is only one seed.
    """
    n, mean = len(values), sum(values) / len(values)
    if n == 1:
        low, high = own or (None, None)
        return SeedMean(mean, low, high, 1)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n)
    quantile = _T_QUANTILES[n - 2] if n - 2 < len(_T_QUANTILES) else 2.0
    return SeedMean(mean, max(0.0, mean - quantile * spread), min(1.0, mean + quantile * spread), n)


class ComparisonData:
    """A comparison's folder as its page needs it.

    Raises:
        UserError: there is no comparison, or a file of it is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.document: dict[str, Any] = read_comparison(folder)
        self.arms: list[str] = [arm["name"] for arm in self.document["arms"]]
        self.seeds: list[int] = self.document["seeds"]
        self.baseline: str = self.document.get("baseline") or self.arms[0]
        self.cells: list[Row] = self.document["cells"]
        self.command = command_text(self.document.get("command") or [])

    @property
    def looks(self) -> dict[str, Series]:
        """Look of every arm; the baseline is grey and dashed."""
        others = [arm for arm in self.arms if arm != self.baseline]
        looks = {arm: category(index) for index, arm in enumerate(others)}
        return {arm: looks.get(arm, Series(NEUTRAL, "D", (0, (4, 1.6)))) for arm in self.arms}

    @property
    def done(self) -> list[Row]:
        """Cells of finished runs."""
        return [cell for cell in self.cells if cell["status"] == "done"]

    @cached_property
    def tables(self) -> dict[str, list[Row]]:
        """Table -> rows, as `envwright compare` wrote them."""
        try:
            import pyarrow.parquet as pq
        except ImportError:
            raise MissingExtraError("pyarrow", "report", "envwright report") from None
        tables: dict[str, list[Row]] = {}
        for name in ("rates", "failures", "signal", "knobs", "calibration", "headline"):
            path = self.folder / "tables" / f"{name}.parquet"
            try:
                tables[name] = pq.read_table(path).to_pylist()
            except (OSError, ValueError) as error:
                first = str(error).split("\n", 1)[0]
                raise UserError(
                    f"{path}: cannot be read ({first}); run `envwright compare ... --resume` to write the tables anew"
                ) from None
        return tables

    def headline(self, arm: str, decoding: str = "sampled", metric: str = "valid", subset: str = "all") -> Row | None:
        """An arm's rate on held-out boards, over its seeds; None for an arm without a finished run."""
        rows = pick(self.tables["headline"], arm=arm, decoding=decoding, metric=metric, subset=subset)
        return rows[0] if rows else None

    def base(self, decoding: str = "sampled", metric: str = "valid") -> list[Row]:
        """Rates before training, one per policy that arms start from."""
        return pick(self.document.get("base") or [], decoding=decoding, metric=metric)

    def difference(self, arm: str, against: str, decoding: str = "sampled", metric: str = "valid", subset: str = "all") -> Row | None:
        """How much better an arm is than another, whichever of the two was named first; None where no seed has both."""
        for one, two, sign in ((arm, against, 1.0), (against, arm, -1.0)):
            for row in pick(self.document["differences"], arm=one, against=two, decoding=decoding, metric=metric, subset=subset):
                return row if sign > 0 else _turned(row)
        return None

    def subsets(self) -> list[str]:
        """Kinds of held-out boards, all of them first."""
        return list(dict.fromkeys(row["subset"] for row in self.tables["headline"]))

    def over_seeds(self, rows: Sequence[Row], column: str, by: str = "stage") -> dict[Any, SeedMean]:
        """Return value of `by` -> the mean of a column over seeds, from rows of one arm with one row per seed and value."""
        groups: dict[Any, list[Row]] = {}
        for row in rows:
            if row[column] is not None:
                groups.setdefault(row[by], []).append(row)
        result = {}
        for value, group in sorted(groups.items(), key=lambda item: item[0]):
            low, high = group[0].get(f"{column}_low"), group[0].get(f"{column}_high")
            own = None if low is None or high is None else (low, high)
            result[value] = seed_mean([row[column] for row in group], own)
        return result


def _turned(row: Mapping[str, Any]) -> Row:
    """Return a difference the other way round."""
    turned = {"difference": -row["difference"], "low": -row["high"], "high": -row["low"]}
    return {**row, **turned, "arm": row["against"], "against": row["arm"], "probability_better": 1.0 - row["probability_better"]}
