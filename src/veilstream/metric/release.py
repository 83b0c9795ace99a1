"""Releases of points, recorded on a ledger, and repeatable runs of them for experiments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from numpy.typing import ArrayLike

from veilstream.mechanisms.identity import describe, recognises
from veilstream.mechanisms.session import Session
from veilstream.metric.guarantee import MetricGuarantee
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.release.once import release_once
from veilstream.storage.ledger import Ledger, StreamSpec
from veilstream.testing.batch import BatchMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.meter import Meter
from veilstream.trusted.points import SealedPoints
from veilstream.values.release import Release
from veilstream.values.values import Values


class PointMechanism(Protocol):
    """Publishes something about a set of points for the whole epsilon of a metric guarantee."""

    def size(self, guarantee: MetricGuarantee, points: int) -> int:
        """How many numbers it releases for so many points."""
        ...

    def estimate(self, x: SealedPoints, guarantee: MetricGuarantee, meter: Meter) -> Values: ...


@dataclass(frozen=True, slots=True)
class PointRelease:
    """What is recorded of a release of points: mechanism, space, metric and distance."""

    mechanism: PointMechanism
    metric: MetricGuarantee


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
    once = PointRelease(mechanism, guarantee)
    spec = StreamSpec(
        name=stream,
        guarantee=guarantee.guarantee.to_json(),
        mechanism=describe(once),
        bins=mechanism.size(guarantee, sealed.count),
        domain=None,
        max_contribution=1,
    )
    return release_once(
        ledger,
        spec,
        lambda meter: mechanism.estimate(sealed, guarantee, meter),
        recognises=lambda recorded: recognises(recorded, once),
    )


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
    meter = Meter if runs is None else partial(BatchMeter, batch=(runs,))
    session = Session(accountant, ExactSampler(SeededSource(seed)), meter)
    return mechanism.estimate(sealed, guarantee, session.at(0))
