"""One release of counts, recorded on a ledger: asked again, it is given again and costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np

from veilstream.errors import InvalidInput, LedgerMismatch
from veilstream.guarantee import Guarantee
from veilstream.ledger import Ledger
from veilstream.noise import SecureNoise
from veilstream.personalised.counts import Minimum, Partitioned, Sampling, Stretching, Threshold
from veilstream.personalised.partition import Group, at_least, everybody
from veilstream.personalised.people import PeopleCounts
from veilstream.personalised.roster import UNIT, Roster
from veilstream.personalised.stream import PersonalisedPublisher
from veilstream.publisher import Publisher
from veilstream.scores.personalised import sampled_counts, sampling_rates, weighted_counts
from veilstream.sealed import Sealed
from veilstream.streams.uniform import Uniform
from veilstream.types import Values

Recorded: TypeAlias = Minimum | Threshold | Partitioned | Stretching | Sampling
WEIGHT: Final = 1 << 16
"""Weights of stretched counts are whole multiples of the largest over this, rounded down."""
ONCE: Final = Uniform(horizon=1)


@dataclass(frozen=True, slots=True, eq=False)
class CountRelease:
    """Estimates for everybody, and what people of each level were charged, at most."""

    values: Values
    charged: list[Fraction]
    streams: list[str]


def release_counts(
    x: PeopleCounts, mechanism: Recorded, ledger: Ledger, stream: str = "counts", of: str = ""
) -> CountRelease:
    """Publish ``x`` once, under ``stream``, with noise from the secure source.

    Groups are recorded each as a stream under its own Guarantee. *Stretching* and *Sampling* are one stream under the
    largest epsilon that anybody is charged; that each person pays no more than their own is in the proofs of
    ``weighted_counts`` and ``sampling_rates``. A stream that was released with another mechanism or roster is
    refused, for the same people would pay twice; so is one ``of`` something else (say, another domain's fingerprint).

    >>> from veilstream.personalised import Roster, count_levels
    >>> roster = Roster.of_budgets(["1/8"] * 50 + ["1"] * 950)
    >>> x = count_levels(roster, np.repeat([0, 1], [50, 950]), np.arange(1000) % 2, bins=2)
    >>> with Ledger.open(None) as ledger:
    ...     first = release_counts(x, Stretching(), ledger)
    ...     again = release_counts(x, Stretching(), ledger)
    >>> bool((first.values.numbers == again.values.numbers).all()), [str(paid) for paid in first.charged]
    (True, ['1/8', '1'])
    """
    roster = x.roster
    name = f"{stream}/{roster.fingerprint()}{of} {_text(mechanism)}"
    others = [s.name for s in ledger.streams() if s.name.startswith(f"{stream}/") and not s.name.startswith(f"{name}/")]
    if others:
        raise LedgerMismatch(
            f"stream {stream!r}: {others[0]!r} was released already, of other people or bins or by other means; the "
            "same people would pay twice; nothing was released"
        )
    match mechanism:
        case Stretching():
            return _stretched(x, mechanism, ledger, f"{name}/all")
        case Sampling():
            return _sampled(x, mechanism, ledger, f"{name}/all")
        case _:
            return _grouped(x, mechanism, ledger, name)


def _text(mechanism: Recorded) -> str:
    return repr(mechanism).replace("/", "|")


def _grouped(x: PeopleCounts, mechanism: Minimum | Threshold | Partitioned, ledger: Ledger, name: str) -> CountRelease:
    groups = _groups(mechanism, x.roster)
    spread = mechanism.spread if isinstance(mechanism, Partitioned) else 0.0
    with PersonalisedPublisher(
        x.roster, x.bins, None, ONCE, ledger, stream=name, groups=groups, spread=spread
    ) as publisher:
        released = publisher.feed(x)
        return CountRelease(released.values, publisher.spent(), [one.stream for one in publisher.publishers])


def _groups(mechanism: Minimum | Threshold | Partitioned, roster: Roster) -> list[Group]:
    match mechanism:
        case Minimum():
            return everybody(roster)
        case Threshold():
            return at_least(roster, mechanism.threshold)
        case Partitioned() if mechanism.number == 1:
            return mechanism.groups(roster)
        case _:
            raise InvalidInput(
                f"number {mechanism.number} of Partitioned: a recorded release has 1 round; nothing was released"
            )


def _stretched(x: PeopleCounts, mechanism: Stretching, ledger: Ledger, name: str) -> CountRelease:
    roster = x.roster
    capped = np.minimum(roster.units, mechanism.cap(roster))
    weights = capped * WEIGHT // int(capped[-1])
    if int(weights[0]) == 0:
        raise InvalidInput(
            f"budgets from {roster.lowest} to {roster.highest}: the highest is more than {WEIGHT} times the lowest; "
            "leave out the lowest; nothing was released"
        )
    highest = Fraction(int(capped[-1]), UNIT)
    values = _once(weighted_counts(x.table, weights), highest, ledger, name, WEIGHT)
    factor = roster.people / int((weights * roster.sizes).sum())
    charged = [Fraction(weight, WEIGHT) * highest for weight in weights.tolist()]
    return CountRelease(_scaled(values, factor), charged, [name])


def _sampled(x: PeopleCounts, mechanism: Sampling, ledger: Ledger, name: str) -> CountRelease:
    roster = x.roster
    level = mechanism.units(roster)
    rates = sampling_rates(roster.units, level, UNIT)
    sample = sampled_counts(x.table, rates, SecureNoise())
    values = _once(sample, Fraction(level, UNIT), ledger, name, 1)
    share = float((rates * (roster.sizes / 2.0**32)).sum())
    charged = [Fraction(min(unit, level), UNIT) for unit in roster.units.tolist()]
    return CountRelease(_scaled(values, roster.people / share), charged, [name])


def _once(x: Sealed, epsilon: Fraction, ledger: Ledger, name: str, l1: int) -> Values:
    publisher: Publisher[Any] = Publisher(x.size, Guarantee(epsilon, None), ONCE, ledger, stream=name, l1=l1)
    release = publisher.feed(x)
    return Values(release.values, release.std, release.law)


def _scaled(values: Values, factor: float) -> Values:
    return Values(np.asarray(values.numbers * factor, dtype=np.float64), values.std * factor, values.law)
