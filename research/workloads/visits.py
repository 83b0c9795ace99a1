"""Requests to a web site and visits to the stations of a city, unit by unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from research.workloads.base import Counts, at_least, generator
from veilstream.errors import InvalidInputError


@dataclass(frozen=True, slots=True, eq=False)
class WebRequests:
    """``totals`` requests in each unit over ``urls`` pages, the page of rank k with probability ∝ 1/k.

    The paper: 1,352,804,107 requests to 88,762 pages of the World Cup 1998 site in 88 days. Real totals with Zipf's law
    over the pages stand for it: :meth:`cut` divides a series per minute into units of equal length.

    >>> [int(c.sum()) for c in WebRequests(np.array([500, 20]), urls=100).snapshots(seed=1)]
    [500, 20]

    Chen, Shen, Jin: Private analysis of infinite data streams via retroactive grouping, CIKM 2015, section 6.
    """

    totals: Counts = field(repr=False)
    urls: int = 88_762

    def __post_init__(self) -> None:
        at_least(self.urls, 1, "urls")
        at_least(self.totals.size, 1, "units")

    @classmethod
    def cut(cls, series: Counts, units: int, urls: int = 88_762) -> WebRequests:
        """From a series of requests, divided into ``units`` runs of (nearly) equal length."""
        flat = series.reshape(-1)
        if not 1 <= units <= flat.size:
            raise InvalidInputError(f"units {units} of web requests: 1 to {flat.size} can be cut from the series")
        totals = np.add.reduceat(flat, np.arange(units) * flat.size // units)
        return cls(totals.astype(np.int64), urls)

    @property
    def steps(self) -> int:
        return int(self.totals.size)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.urls,)

    def snapshots(self, seed: int) -> Iterator[Counts]:
        rng = generator(seed)
        popularity = 1 / np.arange(1, self.urls + 1)
        popularity /= popularity.sum()
        for total in self.totals:
            yield rng.multinomial(int(total), popularity).astype(np.int64)


@dataclass(frozen=True, slots=True)
class StationVisits:
    """A week of ``visits`` to stations of a city in ``steps`` units: two rush hours on five days, quiet nights.

    The paper: 8,107,643 people at 342 stations in a week. Assumed: stations differ in popularity (log-normal) and in
    whether they live in the morning or in the evening; rush hours at 8:00 and 17:30; weekends are calm.

    >>> week = list(StationVisits(steps=28, stations=5, visits=10_000).snapshots(seed=1))
    >>> len(week), sum(int(unit.sum()) for unit in week)
    (28, 10000)

    Chen, Shen, Jin, CIKM 2015, section 6.
    """

    steps: int = 504
    stations: int = 342
    visits: int = 8_107_643

    def __post_init__(self) -> None:
        for name in ("steps", "stations", "visits"):
            at_least(getattr(self, name), 1, name)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.stations,)

    def snapshots(self, seed: int) -> Iterator[Counts]:
        rng = generator(seed)
        hour = np.arange(self.steps) * 168 / self.steps
        day, clock = hour // 24, hour % 24
        by_day = 0.03 + 0.5 * np.exp(-(((clock - 14) / 5) ** 2))
        work = (day < 5)[:, None]
        morning = rng.beta(2, 2, self.stations)
        peaks = [np.exp(-(((clock - centre) / 1.2) ** 2)) for centre in (8, 17.5)]
        rush = peaks[0][:, None] * morning + peaks[1][:, None] * (1 - morning)
        popularity = rng.lognormal(0, 1, self.stations)
        rates = (by_day[:, None] * np.where(work, 1, 0.6) + 3 * rush * np.where(work, 1, 0.15)) * popularity
        counts = rng.multinomial(self.visits, (rates / rates.sum()).ravel()).reshape(self.steps, self.stations)
        for unit in counts:
            yield unit.astype(np.int64)
