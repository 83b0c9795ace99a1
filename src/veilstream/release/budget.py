"""What a population has spent, what is left, and when it comes back: one statement, derived from the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import EVER, Cost, Population
from veilstream.privacy.population_profile import Profile
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.population import Enrolled, date_of
from veilstream.storage.ledger.population_book import Account


@dataclass(frozen=True, slots=True)
class StreamBudget:
    """One stream of a population. ``spent`` and ``fullest`` are costs of windows of the population, not of its own."""

    member: Enrolled
    mechanism: str
    releases: int
    latest: str | None
    reserved: Fraction
    spent: Fraction
    fullest: Fraction
    left: Fraction
    comes_back: str | None
    profile: Profile


@dataclass(frozen=True, slots=True)
class Listed:
    """A release, and the time of its data."""

    seq: int
    stream: str
    time: str
    fresh: bool
    spent: Fraction


@dataclass(frozen=True, slots=True)
class Outside:
    """A stream of the ledger that belongs to no population: what it costs comes on top of every promise made here."""

    stream: str
    guarantee: Guarantee
    releases: int


def outside(ledger: Ledger) -> list[Outside]:
    """Streams of a ledger that belong to no population.

    Releases of points are left out: what they promise is about places, unless they are about a number of people.
    """
    found: list[Outside] = []
    for spec in ledger.streams():
        mechanism = spec.recorded_mechanism()
        settings = mechanism.get("set", mechanism)
        about_places = str(mechanism.get("name", mechanism.get("class"))).endswith("PointRelease")
        if spec.membership is None and not (about_places and settings.get("people") is None):
            releases = sum(1 for _ in ledger.releases(spec.name))
            found.append(Outside(spec.name, Guarantee.from_json(spec.guarantee), releases))
    return found


def outside_in_words(streams: Sequence[Outside]) -> str:
    """What they mean for whoever is in them as well."""
    together = sum((one.guarantee.epsilon for one in streams), Fraction(0))
    return (
        f"{len(streams)} stream(s) of this ledger belong to no population. If they are about the same people, what "
        f"they promise comes on top of the promises here: epsilon {float(together):.4g} for their windows together"
    )


@dataclass(frozen=True, slots=True)
class BudgetStatement:
    """A population at a glance, as of the latest data that were charged."""

    population: Population
    now: int | None
    reserved: Fraction
    pool: Fraction
    spent: Fraction
    fullest: Fraction
    fullest_window: tuple[str, str] | None
    left: Fraction
    comes_back: str | None
    ever: Fraction
    streams: Sequence[StreamBudget]
    releases: Sequence[Listed]

    @classmethod
    def of(cls, ledger: Ledger, name: str) -> BudgetStatement:
        """The statement of one of a ledger's populations."""
        account = ledger.populations.account(name)
        return _Statement(ledger, account).made()


class _Statement:
    """Works out a statement from an account."""

    def __init__(self, ledger: Ledger, account: Account) -> None:
        self._ledger = ledger
        self._account = account
        self._population = account.population
        self._w = account.population.guarantee.w
        self._pool = account.profile()
        self._all = {member.name: account.profile([member]) for member in account.members}
        self._now = self._latest_cell()

    def made(self) -> BudgetStatement:
        end, full = self._pool.fullest()
        pool, spent = self._account.pool, self._at(self._pool)
        listed = sorted((one for member in self._account.members for one in self._listed(member)), key=lambda r: r.seq)
        return BudgetStatement(
            self._population,
            self._now,
            nominal(self._population, self._account.reserved),
            nominal(self._population, pool),
            nominal(self._population, spent),
            nominal(self._population, full),
            None if end is None else self._window(end),
            nominal(self._population, pool - spent),
            self._comes_back(self._pool),
            nominal(self._population, self._ever()),
            [self._stream(member) for member in self._account.members],
            listed,
        )

    def _latest_cell(self) -> int | None:
        return max([profile.ends[-1] - (self._w or 1) for profile in self._all.values() if profile.ends], default=None)

    def _at(self, profile: Profile) -> Cost:
        """The cost of the window that ends now."""
        return profile.always if self._now is None else profile.at(self._now)

    def _ever(self) -> Cost:
        """The most that everything so far costs one unit, in whatever it was; of a reserved stream what it drew."""
        return sum((draws.ever.always for draws in self._account.draws.values()), Cost())

    def _window(self, end: int) -> tuple[str, str]:
        assert self._w is not None
        grid = self._population.grid
        return date_of(grid, end - self._w + 1), date_of(grid, end + 1)

    def _comes_back(self, profile: Profile) -> str | None:
        """When data have moved on so far that a window costs less than the present one."""
        present = self._at(profile)
        if self._now is None or present == profile.always:
            return None
        later = [end for end in profile.ends if end > self._now]
        for end in later:
            if profile.at(end).pure < present.pure or profile.at(end).mu_squared < present.mu_squared:
                return date_of(self._population.grid, end)
        return None

    def _stream(self, member: Enrolled) -> StreamBudget:
        profile, population = self._all[member.name], self._population
        share = member.cost(population)
        spent, fullest = nominal(population, self._at(profile)), nominal(population, profile.fullest()[1])
        reserved = nominal(population, share)
        left = nominal(population, self._account.pool - self._at(self._pool))
        if member.membership.draw == "reserved":
            # What names bins, or people in few steps, costs less than its charges together: never more than its share.
            spent, fullest = min(spent, reserved), min(fullest, reserved)
            left = reserved - spent
        releases = self._listed(member)
        spec = self._ledger.spec(member.name)
        mechanism = spec.recorded_mechanism()
        return StreamBudget(
            member,
            str(mechanism.get("name", mechanism.get("class"))),
            len(releases),
            releases[-1].time if releases else None,
            reserved,
            spent,
            fullest,
            left,
            self._comes_back(profile),
            profile,
        )

    def _listed(self, member: Enrolled) -> list[Listed]:
        return [
            Listed(release.seq, member.name, self._time(member, release.t), release.fresh, release.spent)
            for release in self._ledger.releases(member.name)
        ]

    def _time(self, member: Enrolled, t: int) -> str:
        data = member.membership.data
        if data is not None and data != EVER:
            return f"{data[0]} to {data[1]}"
        if member.member(self._population).cells_at is None and self._population.grid is not None:
            return "counts for ever"
        return f"step {t}" if member.calendar is None else date_of(member.calendar, t)


def nominal(population: Population, cost: Cost) -> Fraction:
    """A cost in epsilon, Gaussian charges by their share of μ²."""
    promise = population.guarantee
    if not promise.mu_squared:
        return cost.pure
    return cost.pure + (promise.epsilon - promise.pure) * cost.mu_squared / promise.mu_squared


def outside_json(streams: Sequence[Outside]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "stream": one.stream,
            "guarantee": str(one.guarantee),
            "epsilon": str(one.guarantee.epsilon),
            "releases": one.releases,
        }
        for one in streams
    ]


def as_json(statement: BudgetStatement) -> dict[str, Any]:
    """The statement for programs, with exact numbers."""
    population = statement.population
    return {
        "population": population.name,
        "promise": str(population),
        "unit": population.unit,
        "epsilon": str(population.guarantee.epsilon),
        "delta": str(population.guarantee.delta),
        "reserved": str(statement.reserved),
        "pool": str(statement.pool),
        "pool_spent_now": str(statement.spent),
        "pool_left_now": str(statement.left),
        "pool_fullest": str(statement.fullest),
        "fullest_window": statement.fullest_window,
        "comes_back": statement.comes_back,
        "all_time": str(statement.ever),
        "streams": [
            {
                "stream": one.member.name,
                "draw": one.member.membership.draw,
                "guarantee": str(one.member.guarantee),
                "mechanism": one.mechanism,
                "releases": one.releases,
                "latest": one.latest,
                "reserved": str(one.reserved),
                "spent_now": str(one.spent),
                "spent_in_fullest_window": str(one.fullest),
                "left_now": str(one.left),
                "comes_back": one.comes_back,
            }
            for one in statement.streams
        ],
    }


def in_words(population: Population) -> str:
    """What is promised to one unit."""
    import math

    promise = population.guarantee
    one = {"people": "one person", "devices": "one device", "events": "one event"}[population.unit]
    did = "is about" if population.unit == "events" else "comes from"
    when = "" if population.grid is None else f" {population.window}"
    factor = f"e^{float(promise.epsilon):.4g} = {math.exp(min(float(promise.epsilon), 700.0)):.4g}"
    slack = f", except with a probability of about {float(promise.delta):.1g}" if promise.delta else ""
    after = (
        ""
        if population.grid is None
        else " Steps of a stream that reach beyond such a time count with all their data. "
        "What lies further apart is protected window by window."
    )
    return (
        f"Everything published together, whatever {did} {one}{when} changes the probability of any result by a factor "
        f"of at most {factor}{slack}.{after}"
    )
