"""Releases of points, recorded on a ledger, and repeatable runs of them for experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from numpy.typing import ArrayLike

from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.metric.guarantee import MetricGuarantee
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.publisher import Publisher
from veilstream.storage.ledger import Ledger
from veilstream.testing.batch import BatchMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.meter import Meter
from veilstream.trusted.points import PointSnapshot, SealedPoints
from veilstream.values.release import Release
from veilstream.values.values import Values


class PointMechanism(Protocol):
    """Publishes something about a set of points for the whole epsilon of a metric guarantee."""

    def size(self, guarantee: MetricGuarantee, points: int) -> int:
        """How many numbers it releases for so many points."""
        ...

    def estimate(self, x: SealedPoints, guarantee: MetricGuarantee, meter: Meter) -> Values: ...


@dataclass
class Released:
    """Whether the points were released already."""

    done: bool = False


@dataclass(frozen=True, slots=True)
class PointRelease:
    """One release of points as a stream of one step, by which a ledger knows mechanism, space, metric and distance."""

    mechanism: PointMechanism
    metric: MetricGuarantee

    def start(self, guarantee: Guarantee, bins: int) -> Released:
        if guarantee != self.metric.guarantee:
            raise InvalidBudgetError(name="guarantee", value=guarantee, limit=f"the metric one says {self.metric}")
        return Released()

    def step(self, state: Released, now: Sealed, meter: Meter) -> tuple[Released, Values]:
        if state.done or not isinstance(now, PointSnapshot):
            raise InvalidInputError("points: they are released once, from sealed points")
        return Released(True), self.mechanism.estimate(now.points, self.metric, meter)


@hide_frames
def release_points(
    points: ArrayLike,
    mechanism: PointMechanism,
    guarantee: MetricGuarantee,
    ledger: Ledger | None = None,
    stream: str = "points",
    *,
    clip: bool = False,
) -> Release:
    """Release ``points`` once under ``stream``; asked again, the same release comes back and costs nothing.

    Noise comes from the secure source. The ledger refuses the stream's name for any other mechanism, space, metric,
    distance, epsilon or number of points.

    >>> from veilstream.metric import SortedPoints, Space
    >>> g = MetricGuarantee("1/2", "0.01", Space(0, 1))
    >>> r = release_points([0.2, 0.9, 0.4], SortedPoints(), g)
    >>> r.values.shape, r.spent, r.left
    ((3,), Fraction(1, 2), Fraction(0, 1))
    """
    sealed = guarantee.seal(points, clip=clip)
    size = mechanism.size(guarantee, sealed.count)
    once = PointRelease(mechanism, guarantee)
    with Publisher(size, guarantee.guarantee, once, ledger, stream=stream) as publisher:
        return publisher.feed(PointSnapshot(sealed, size))


@hide_frames
def simulate_points(
    mechanism: PointMechanism,
    guarantee: MetricGuarantee,
    points: ArrayLike,
    seed: int | tuple[int, ...],
    runs: int | None = None,
    *,
    clip: bool = False,
) -> Values:
    """The same with repeatable noise, for experiments; ``runs`` draws many at once where no choice depends on data."""
    sealed = guarantee.seal(points, clip=clip)
    accountant = Accountant(guarantee.guarantee, mechanism.size(guarantee, sealed.count))
    source = ExactSampler(SeededSource(seed))
    meter = Meter(accountant, source, 0) if runs is None else BatchMeter(accountant, source, 0, (runs,))
    return mechanism.estimate(sealed, guarantee, meter)
