"""Releases of points, recorded on a ledger, and repeatable runs of them for experiments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, runtime_checkable

from numpy.typing import ArrayLike

from veilstream.errors import BudgetExceededError, InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.identity import defaults_of, describe, recognises
from veilstream.mechanisms.session import Session
from veilstream.metric.filling import Filling
from veilstream.metric.guarantee import MetricGuarantee, power, short
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import MAX_EPSILON, Guarantee
from veilstream.privacy.population import Membership, Population
from veilstream.privacy.rationals import Exact, rational
from veilstream.release.once import release_once
from veilstream.storage.ledger import Ledger, StreamSpec
from veilstream.testing.batch import BatchMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.meter import Meter
from veilstream.trusted.meter.person import PersonMeter
from veilstream.trusted.points import SealedPoints
from veilstream.values.release import Release
from veilstream.values.values import Values


@runtime_checkable
class KnowsMultiple(Protocol):
    """A mechanism that costs one person less than a chain of moves from anywhere to anywhere else.

    A release is registered with what it says. The Meter charges what the noise proves, and refuses if that is more.
    """

    def multiple(self, guarantee: MetricGuarantee, points: int) -> Fraction:
        """How many times epsilon one person costs."""
        ...


@runtime_checkable
class OfQuantile(Protocol):
    """A mechanism about a quantile, which stays where it is if as large a part of missing people is below it."""

    @property
    def quantile(self) -> Exact: ...


class PointMechanism(Protocol):
    """Publishes something about a set of points for the whole epsilon of a metric guarantee."""

    def size(self, guarantee: MetricGuarantee, points: int) -> int:
        """How many numbers it releases for so many points."""
        ...

    def estimate(self, x: SealedPoints, guarantee: MetricGuarantee, meter: Meter) -> Values: ...


@dataclass(frozen=True, slots=True)
class PointRelease:
    """What is recorded of a release of points: mechanism, space, metric and distance.

    With a public number of ``people`` the release is about people, who may be there or not, and not about moves alone.
    """

    mechanism: PointMechanism
    metric: MetricGuarantee
    people: int | None = None

    @property
    def filling(self) -> Filling | None:
        """What makes as many points as there are said to be people."""
        if self.people is None:
            return None
        mechanism: object = self.mechanism
        lower = rational(mechanism.quantile, "quantile") if isinstance(mechanism, OfQuantile) else Fraction(1, 2)
        return Filling(self.people, lower)

    @property
    def guarantee(self) -> Guarantee:
        """What the ledger counts by: for a move, or for a person."""
        if self.people is None:
            return self.metric.guarantee
        return Guarantee(person_price(self.mechanism, self.metric, self.people), None)

    def __str__(self) -> str:
        return str(self.metric) if self.people is None else person_words(self.metric, self.guarantee, self.people)[0]

    def promise(self) -> str:
        """What is protected, and what is not, in words.

        >>> from veilstream.metric import ChosenMedian, Space
        >>> print(PointRelease(ChosenMedian(), MetricGuarantee("1/8", 10, Space(0, 40)), people=500).promise())
        Whether one person is among the 500, and where, changes the probability of any published result by a factor of
        at most e^0.5 = 1.649; a move by up to 10 (euclidean) by at most e^0.125 = 1.133.
        """
        if self.people is None:
            return self.metric.promise()
        return person_words(self.metric, self.guarantee, self.people)[1]


def person_words(metric: MetricGuarantee, guarantee: Guarantee, people: int) -> tuple[str, str]:
    """What one of so many people loses, and what a small move does: shortly, and as a promise."""
    move = f"a move by up to {short(metric.distance)} ({metric.space.metric}) by at most {power(metric.epsilon)}"
    return (
        f"epsilon {guarantee.epsilon} for one of {people} people, there or not; {metric}",
        f"Whether one person is among the {people}, and where, changes the probability of any published result by a "
        f"factor of at most {power(guarantee.epsilon)}; {move}.",
    )


def person_price(mechanism: PointMechanism, guarantee: MetricGuarantee, people: int) -> Fraction:
    """The epsilon that one person loses, who may be there or not, if a release is about a public number of people.

    That is epsilon for every move of a chain from anywhere to anywhere else, or less where the mechanism knows why.

    >>> from veilstream.metric import ChosenMedian, HatGrid, Space
    >>> g = MetricGuarantee("1/8", 10, Space((0, 0), (40, 30)))
    >>> person_price(HatGrid(cells=8, noise="flow"), g, 500), person_price(HatGrid(cells=8, noise="nodes"), g, 500)
    (Fraction(5, 8), Fraction(1, 8))
    """
    chosen: object = mechanism
    known = chosen.multiple(guarantee, people) if isinstance(chosen, KnowsMultiple) else Fraction(guarantee.moves)
    price = guarantee.epsilon * known
    if price > MAX_EPSILON:
        raise InvalidBudgetError(
            name="distance",
            value=guarantee.distance,
            limit=f"{guarantee.moves} such moves cross the space: one person would lose epsilon {price}, more than "
            f"{MAX_EPSILON}",
            next_step="give a longer distance or a smaller epsilon",
        )
    return price


def as_recorded(recorded: str, once: PointRelease) -> PointRelease:
    """``once``, or what it was called before its class had a new version, if that is what a ledger has ``recorded``.

    >>> from veilstream.metric import HatGrid, Space
    >>> g = MetricGuarantee(1, 1, Space(0, 1))
    >>> now = PointRelease(HatGrid(4), g)
    >>> as_recorded(describe(now).replace('"version": 2', '"version": 1'), now).mechanism
    HatGrid(cells=4, noise='flow-or-nodes')
    """
    if recognises(recorded, once):
        return once
    mechanism: Any = once.mechanism
    cls: type[Any] = mechanism.__class__
    formers: Mapping[int, Mapping[str, Any]] = getattr(cls, "former_defaults", {})
    # What was given is what is wanted; only what was left to the class meant something else before.
    given = (
        {name for name, default in defaults_of(cls).items() if getattr(mechanism, name) != default} if formers else ()
    )
    for former in formers.values():
        earlier = replace(once, mechanism=replace(mechanism, **{n: v for n, v in former.items() if n not in given}))
        if recognises(recorded, earlier):
            return earlier
    return once


def require_people_for(population: object, people: int | None) -> None:
    """Refuse a release that tells how many people there are, if a ``population`` is to keep that secret.

    Of somebody who is added or removed a promise about moves says nothing (PROOF.md, "Points").
    """
    if population is not None and people is None:
        raise InvalidInputError(
            name="people",
            limit="missing; a release of points tells how many there are, and so whether one person is among them, "
            "which a population forbids",
            next_step="state a public number of people (--people 500, in Python people=500)",
        )


@hide_frames
def release_points(
    points: ArrayLike,
    mechanism: PointMechanism,
    guarantee: MetricGuarantee,
    ledger: Ledger | None = None,
    stream: str = "points",
    *,
    clip: bool = False,
    people: int | None = None,
    population: str | Population | Membership | None = None,
) -> Release:
    """Release ``points`` once under ``stream``; asked again, the same release comes back and costs nothing.

    Noise comes from the secure source. The ledger refuses the stream's name for any other mechanism, space, metric,
    distance, epsilon or number of points.

    With ``people``, a public number, exactly so many points are released: missing ones are filled in at two opposite
    corners, those beyond it are left out. Then the release is charged for what one person loses who may be there or
    not (``person_price``), and with ``population`` it draws on one, see ``Publisher``.

    >>> from veilstream.metric import SortedPoints, Space
    >>> g = MetricGuarantee("1/2", "0.01", Space(0, 1))
    >>> r = release_points([0.2, 0.9, 0.4], SortedPoints(), g)
    >>> r.values.shape, r.spent, r.left
    ((3,), Fraction(1, 2), Fraction(0, 1))
    """
    require_people_for(population, people)
    once = PointRelease(mechanism, guarantee, people)
    sealed = guarantee.seal(points, clip=clip, filling=once.filling)
    spec = StreamSpec(
        name=stream,
        guarantee=once.guarantee.to_json(),
        mechanism=describe(once),
        bins=mechanism.size(guarantee, sealed.count),
        domain=None,
        max_contribution=1,
    )
    try:
        return release_once(
            ledger,
            spec,
            lambda meter: mechanism.estimate(sealed, guarantee, meter),
            recognises=lambda recorded: recognises(recorded, once),
            population=population,
            make_meter=Meter if people is None else partial(PersonMeter, moves=guarantee.moves),
        )
    except BudgetExceededError as error:
        if guarantee.moves > 1:
            error.next_step += (
                f"; or give a longer distance, since a person pays for {guarantee.moves} moves by {guarantee.distance} "
                "across the space"
            )
        raise


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
