"""A charged look at how often people come, recorded in a ledger, and the presence that it asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from veilstream.arguments import checks_arguments
from veilstream.data import Calendar, Categories, Domain, ReadOptions, read_events
from veilstream.data.bounding.presence_visits import ever_moves, stretches_of, visit_histogram
from veilstream.data.readers import AS_FOUND
from veilstream.errors import InvalidInputError
from veilstream.jobs.checks import refuse_same_file_twice, refuse_shared_column
from veilstream.jobs.window import steps_of_window
from veilstream.mechanisms.streams import Sample
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence_choice import PresenceCurve, Promise, chosen_guarantee, presence_curve
from veilstream.privacy.rationals import Exact
from veilstream.release.publisher import Publisher
from veilstream.storage.ledger import Ledger

NOISE_LEVELS: Final = 2
"""Numbers of people within so many standard deviations of 0 are taken as 0: each of those who come often weighs as many
rows as they have visits, and so does its noise."""
MOST_VISITS: Final = 10_000


@dataclass(frozen=True, slots=True)
class StreamToCome:
    """The promise of the stream that a presence is chosen for.

    ``steps`` are those of a window or a block; for ever, they are a stretch in which visits are counted, and
    ``horizon`` is for how many steps people are expected to be followed.
    """

    epsilon: Exact
    promise: Promise
    steps: int
    horizon: int | None = None
    counts_per_user: int = 1

    @classmethod
    def of(
        cls,
        epsilon: Exact,
        every: str | int,
        *,
        window: int | str | None = None,
        per: int | str | None = None,
        horizon: int | None = None,
        stretch: int | None = None,
        counts_per_user: int = 1,
    ) -> StreamToCome:
        """The promise as people write it: a window, blocks, or the window "user" with a horizon.

        >>> StreamToCome.of(1, "1d", per="1w").steps
        7
        """
        if (window is None) == (per is None):
            raise _refused("window", "give it, or 'per' for blocks")
        given = per if window is None else window
        assert given is not None
        steps = steps_of_window(given, every)
        if steps is None and (horizon is None or per is not None):
            raise _refused("horizon", "for ever, say for how many steps people are expected to be followed")
        if steps is not None and horizon is not None:
            raise _refused("horizon", "it is for the window 'user' alone")
        if min(counts_per_user, steps or 1, horizon or 1, stretch or 1) < 1:
            raise _refused("steps", "window, block, horizon and counts per user are at least 1")
        Guarantee(epsilon, steps)
        kind = Promise.BLOCK if window is None else Promise.FOR_EVER if steps is None else Promise.WINDOW
        return cls(epsilon, kind, steps or stretch or horizon or 1, horizon, counts_per_user)

    def curve(self, visits: list[float]) -> PresenceCurve:
        """The expected error over c, from how many people come once, twice, … in a stretch."""
        return presence_curve(
            visits,
            self.epsilon,
            steps=self.steps,
            promise=self.promise,
            horizon=self.horizon,
            max_contribution=self.counts_per_user,
        )


@dataclass(frozen=True, slots=True)
class PresenceChoice:
    """What the look showed, all of it public: people by visits in a stretch on average, noisy; and what follows."""

    to_come: StreamToCome
    visits: tuple[float, ...]
    noise: float
    """The standard deviation of each of them."""
    curve: PresenceCurve
    spent: Fraction
    before: bool = field(default=False)

    @property
    def presence(self) -> int | None:
        """The c that errs least, None where no bound on presence pays."""
        return self.curve.best

    @property
    def guarantee(self) -> Guarantee:
        """The promise with that c."""
        return chosen_guarantee(self.curve, self.to_come.epsilon, self.to_come.steps)

    def plot(self, path: str | Path) -> Path:
        """A picture of the visits and of the expected error over c."""
        from veilstream.evaluate.presence_picture import draw_presence

        return draw_presence(self.visits, self.noise, self.curve, path)


@checks_arguments
def choose_presence(
    source: Any,
    to_come: StreamToCome,
    *,
    time: str,
    user: str,
    every: str | int,
    start: Any,
    end: Any,
    ledger: str | Path,
    zone: str = "UTC",
    epsilon: Exact = "1/10",
    most: int = 12,
    stream: str = "presence",
    options: ReadOptions = AS_FOUND,
) -> PresenceChoice:
    """Release once, for ``epsilon`` at user level, how many people come in 1, 2, …, ``most`` steps of a stretch, and
    choose c by it.

    From ``start`` to ``end`` is a public period of trial: a whole number of windows or blocks of the stream to come.
    The choice is public and recorded: a second call with the same stream of the ledger reads what the first released
    and spends nothing. Its ε comes on top of that of the stream, for everybody of the period.

    >>> import os, tempfile
    >>> rows = {"id": [1, 1, 2, 3, 1, 2], "day": [0, 1, 1, 2, 4, 4]}
    >>> shop = StreamToCome.of(1, 1, window=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chosen = choose_presence(rows, shop, user="id", time="day", every=1, start=0, end=6, most=3,
    ...                              ledger=os.path.join(folder, "b.db"))
    ...     chosen.spent, len(chosen.visits)
    (Fraction(1, 10), 3)
    """
    if not 1 <= most <= MOST_VISITS:
        raise _refused("most", f"from 1 to {MOST_VISITS:,} numbers of visits are told apart")
    guarantee = Guarantee(epsilon, w=None)
    refuse_shared_column(user, time, Domain({}))
    refuse_same_file_twice(source)
    calendar = Calendar(start, end, every, zone)
    if calendar.steps % to_come.steps:
        raise _refused(
            "end", f"the period of {calendar.steps} steps is no whole number of stretches of {to_come.steps} steps"
        )
    stretches = stretches_of(calendar, to_come.steps)
    # Every row is read and checked before the ledger is touched.
    visits = visit_histogram(
        read_events(source, user=user, time=time, by=[], options=options),
        calendar,
        steps=to_come.steps,
        most=most,
        promise=to_come.promise,
        ever=True,
    )
    levels = Domain({"visits in a stretch": Categories([*map(str, range(1, most)), f"{most} or more"])})
    with Ledger.open(str(ledger)) as book:
        publisher = Publisher(
            levels, guarantee, Sample(), book, stream=stream, max_contribution=ever_moves(stretches), calendar=calendar
        )
        before = book.release_at(stream, 0) is not None
        release = publisher.feed(visits)
    people = tuple((release.values / stretches).tolist())
    noise = float(np.max(release.std)) / stretches
    told_apart = [number if number > NOISE_LEVELS * noise else 0.0 for number in people]
    return PresenceChoice(to_come, people, noise, to_come.curve(told_apart), release.spent, before)


def _refused(name: str, limit: str) -> InvalidInputError:
    return InvalidInputError(name=name, limit=limit, outcome="nothing was read")
