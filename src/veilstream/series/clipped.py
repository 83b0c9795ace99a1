"""Sums and averages of a value that each person has, clipped to public bounds, as counts that any mechanism takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from veilstream.data.bounding.people import canonical_ids
from veilstream.data.readers import as_series
from veilstream.errors import InvalidInputError
from veilstream.privacy.rationals import Exact, rational
from veilstream.values.release import Release
from veilstream.values.values import Numbers, Values

MAX_RESOLUTION = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """How many people, the sum of their values and its average, per step, with standard deviations of their noise."""

    count: NDArray[np.float64]
    count_std: NDArray[np.float64]
    sum: NDArray[np.float64]
    sum_std: NDArray[np.float64]
    mean: NDArray[np.float64]
    mean_std: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClippedValues:
    """Turns one value per person and step, clipped to [low, high], into two counts with l1 = G = ``resolution``.

    A value at the share p of the way from low to high adds G − g to the first count A and g = round(p·G) to the second
    count B: always G in all, so that G is exactly how far one person moves the two. Then

        people = (A + B)/G,     sum = (low·A + high·B)/G,     average = sum/people.

    With noise of standard deviation c·G on both, the sum has c·√(low² + high²) and the number of people c·√2. A sum
    alone, released as one number, would have c·max{|low|, |high|}: for low = 0 the count comes free, and two numbers
    (sum about the middle, people) with half of the budget each would have twice the variance. Rounding to the
    grid moves a value by at most (high − low)/(2G).

    >>> import numpy as np, veilstream as vs
    >>> wages = ClippedValues(0, 5000)
    >>> snapshot = wages.encode([1200.0, 3400.0, 9999.0])
    >>> snapshot
    array([1080, 1920])
    >>> p = vs.Publisher(2, vs.Guarantee(1, w=12), vs.STREAMS["uniform"](), max_contribution=wages.max_contribution)
    >>> totals = wages.decode(p.feed(snapshot))
    >>> totals.sum.shape, float(totals.sum_std.round()), float(totals.count_std.round(1))
    ((), 84853.0, 24.0)
    """

    low: Exact
    high: Exact
    resolution: int = 1000

    def __post_init__(self) -> None:
        low, high = rational(self.low, "low"), rational(self.high, "high")
        if not low < high:
            raise InvalidInputError(f"bounds {self.low}..{self.high}: low must be below high")
        if type(self.resolution) is not int or not 1 <= self.resolution <= MAX_RESOLUTION:
            raise InvalidInputError(
                name="resolution", value=self.resolution, limit=f"a whole number from 1 to {MAX_RESOLUTION}"
            )

    @property
    def max_contribution(self) -> int:
        """How far one person moves the two counts of a step."""
        return self.resolution

    @property
    def _ends(self) -> tuple[float, float]:
        return float(rational(self.low, "low")), float(rational(self.high, "high"))

    def encode(self, values: ArrayLike) -> NDArray[np.int64]:
        """The two counts of one step from the values of the people in it, one each. Exact: feed it, never show it."""
        g = self._on_grid(np.atleast_1d(np.asarray(values, dtype=np.float64)))
        return np.array([(self.resolution - g).sum(), g.sum()], dtype=np.int64)

    def encode_events(
        self,
        users: Any,
        steps: Any,
        values: ArrayLike,
        horizon: int,
        combine: Literal["sum", "mean"] = "sum",
    ) -> NDArray[np.int64]:
        """Two counts for each of the steps 0..horizon−1 from rows of many values per person.

        What a person has in one step is added up (or averaged) *before* it is clipped, so that nobody counts twice.

        >>> ClippedValues(0, 10, resolution=10).encode_events(["a", "a", "b"], [0, 0, 1], [3, 4, 99], horizon=3)
        array([[ 3,  7],
               [ 0, 10],
               [ 0,  0]])
        """
        ids = canonical_ids(as_series("user", users))
        frame = pl.DataFrame({"user": ids, "step": steps, "value": np.asarray(values, dtype=np.float64)})
        if frame["user"].null_count() or frame["step"].null_count():
            raise InvalidInputError("events: a user or a step is missing")
        integral = frame["step"].dtype.is_integer()
        if not integral or (len(frame) and not frame["step"].is_between(0, horizon - 1).all()):
            raise InvalidInputError(f"events: steps must be whole numbers from 0 to {horizon - 1}")
        joined = pl.col("value").sum() if combine == "sum" else pl.col("value").mean()
        people = frame.group_by("user", "step").agg(joined)
        g = self._on_grid(people["value"].to_numpy())
        counts = np.zeros((horizon, 2), dtype=np.int64)
        at = people["step"].to_numpy()
        np.add.at(counts[:, 0], at, self.resolution - g)
        np.add.at(counts[:, 1], at, g)
        return counts

    def _on_grid(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        if np.isnan(values).any():
            raise InvalidInputError("values: one is missing (NaN); leave out people without a value")
        low, high = self._ends
        share = (np.clip(values, low, high) - low) / (high - low)
        return np.clip(np.rint(share * self.resolution), 0, self.resolution).astype(np.int64)

    def decode(self, released: Release | Values) -> Totals:
        """People, sum and average from what was released for the two counts.

        The average lies within the bounds; of fewer than one person it means nothing, and its deviation is wide.
        """
        return self.decode_numbers(released.values if isinstance(released, Release) else released.numbers, released.std)

    def decode_numbers(self, numbers: Numbers, std: ArrayLike = 0.0) -> Totals:
        """The same from arrays whose last axis holds the two counts, and the standard deviation of their noise."""
        if numbers.shape[-1:] != (2,):
            raise InvalidInputError(f"values of shape {numbers.shape}: two counts in the last axis are needed")
        low, high = self._ends
        pair = np.asarray(numbers, dtype=np.float64) / self.resolution
        noise = np.broadcast_to(np.asarray(std, dtype=np.float64) / self.resolution, pair.shape)
        count, total = pair.sum(axis=-1), pair @ np.array([low, high])
        people = np.maximum(count, 1.0)
        mean = np.clip(total / people, low, high)
        slopes = np.stack([low - mean, high - mean], axis=-1) / people[..., None]
        return Totals(
            count=count,
            count_std=_norm(noise),
            sum=total,
            sum_std=_norm(noise * np.array([low, high])),
            mean=mean,
            mean_std=_norm(noise * slopes),
        )


def _norm(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    norm: NDArray[np.float64] = np.sqrt((parts**2).sum(axis=-1))
    return norm
