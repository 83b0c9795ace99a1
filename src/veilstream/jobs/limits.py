"""A charged look at how many rows people have in a step, recorded in a ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from veilstream.data import Calendar, Categories, Domain, Dropped, ReadOptions, read_events
from veilstream.data.bounding.frequency import level_names, moved_by, rows_per_step
from veilstream.data.readers import AS_FOUND
from veilstream.errors import InvalidInputError
from veilstream.evaluate.advise import Facts
from veilstream.evaluate.limits import LimitChoice, RowLevels, limit_choices, suggested
from veilstream.jobs.checks import refuse_same_file_twice, refuse_shared_column
from veilstream.jobs.window import steps_of_window
from veilstream.mechanisms.streams import Sample
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Membership
from veilstream.privacy.rationals import Exact
from veilstream.release.publisher import Publisher
from veilstream.storage.ledger import Ledger

LEVELS_OF_ROWS = Domain({"rows per person and step": Categories(level_names())})


@dataclass(frozen=True, slots=True)
class Limits:
    """What the look showed: public, except ``dropped``, which is for the operator."""

    stream: str
    spent: Fraction
    before: bool
    levels: RowLevels
    choices: tuple[LimitChoice, ...]
    suggested: LimitChoice
    dropped: Dropped = field(repr=False)


def stream_facts(
    epsilon: Exact | None, window: int | str | None, count: float | None, every: str | int
) -> tuple[Facts, Fraction] | None:
    """The stream that is to be published, if it is known: all three or none of epsilon, window and count.

    >>> facts, epsilon = stream_facts(1, "24h", 500, "1h")
    >>> facts.w, epsilon
    (24, Fraction(1, 1))
    """
    given = [value is not None for value in (epsilon, window, count)]
    if not any(given):
        return None
    if epsilon is None or window is None or count is None:
        raise InvalidInputError(
            name="publish_epsilon",
            limit="what is known of the stream to come is its epsilon, its window and a count, or nothing",
            outcome="nothing was read",
            next_step="give --publish-epsilon, --window and --count, or none of them",
        )
    guarantee = Guarantee(epsilon, steps_of_window(window, every))
    if guarantee.w is None:
        raise InvalidInputError(
            name="window",
            value=window,
            limit="a number of steps or a duration is needed here; at user level give the number of steps",
            outcome="nothing was read",
        )
    return Facts(count, 1, guarantee.w), guarantee.epsilon


def look(
    source: Any,
    *,
    time: str,
    user: str,
    every: str | int,
    start: Any,
    end: Any,
    ledger: str,
    zone: str = "UTC",
    epsilon: Exact = "1/10",
    stream: str = "bound",
    steps_per_user: int = 1,
    unknown: Any = "error",
    missing_time: Any = "error",
    options: ReadOptions = AS_FOUND,
    to_come: tuple[Facts, Fraction] | None = None,
    population: Membership | None = None,
) -> Limits:
    """Release the histogram of rows per person and step for ``epsilon`` (user level), once, and derive limits from it.

    A second look at the same stream of the ledger reads what the first released and spends nothing. With ``population``
    it draws on one.
    """
    guarantee = Guarantee(epsilon, w=None)
    refuse_shared_column(user, time, Domain({}))
    refuse_same_file_twice(source)
    calendar = Calendar(start, end, every, zone)
    dropped = Dropped()
    # Every row is read and checked before the ledger is touched.
    histogram = rows_per_step(
        read_events(source, user=user, time=time, options=options),
        calendar,
        steps_per_user=steps_per_user,
        unknown=unknown,
        missing_time=missing_time,
        dropped=dropped,
    )
    with Ledger.open(ledger) as book:
        publisher = Publisher(
            LEVELS_OF_ROWS,
            guarantee,
            Sample(),
            book,
            stream=stream,
            max_contribution=moved_by(steps_per_user),
            population=population,
        )
        before = book.release_at(stream, 0) is not None
        release = publisher.feed(histogram)
    levels = RowLevels.of_release(release)
    facts, budget = to_come if to_come is not None else (None, None)
    choices = tuple(limit_choices(levels, facts, budget))
    return Limits(stream, release.spent, before, levels, choices, suggested(choices), dropped)
