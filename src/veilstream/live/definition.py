"""What a live stream is: everything public about it, recorded once and compared whenever it is opened again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from veilstream.arguments import checks_arguments, refuses, with_checked_arguments
from veilstream.data import Categories, Domain
from veilstream.data.bounding.choice import Limit
from veilstream.data.bounding.distinct import movement_of_people
from veilstream.data.measures import QuantileOptions, ValueMeasures
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.jobs.automatic import AUTO, chosen_cuts, chosen_mechanism
from veilstream.jobs.measured import measures_of
from veilstream.jobs.window import steps_of_distinct, steps_of_window
from veilstream.live.clock import ClockKind, Timetable, duration
from veilstream.live.elsewhere import refuse_setting
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.traits import Traits
from veilstream.privacy.draws import Draw
from veilstream.privacy.durations import MICROSECONDS
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Membership
from veilstream.privacy.rationals import rational
from veilstream.release.sinks import check_names
from veilstream.values.choices import SO_FAR, SO_FAR_SETTINGS, STATISTICS, STEP

Measured: TypeAlias = str | Sequence[str] | Mapping[str, Any] | None
"""Columns to measure: names, names with a range such as fare=0..100, or a range for each name."""
BadRows: TypeAlias = Literal["drop", "refuse"]
CHOICES: Final = {
    "bad_rows": ("drop", "refuse"),
    "clock": ("wall", "manual"),
    "quantiles_by": ("cells", "choice"),
}
SHORTEST_DELAY: Final = MICROSECONDS["s"]
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
WORDS: Final = ("title", "description", "unit", "units", "smooth", "public", "webhooks")
"""Fields that may change from one opening to the next: they decide nothing about which rows count or what it costs."""


@with_checked_arguments
@dataclass(frozen=True)
class StreamDefinition:
    """A stream that rows are added to while time goes on.

    ``user`` and ``time`` name columns; without ``time`` a row belongs to the step in which it arrives. ``grace`` is how
    long after the end of a step its rows may still arrive, ``delay`` how long after that its release is shown.
    Rows may be at most ``ahead`` before their time. ``bad_rows`` says what happens to rows outside the domain, without
    a readable time or id: dropped one by one and counted for the operator, or the whole batch is refused. Refusing
    lets one person's row decide about the others in its batch until it is corrected, so dropping is the default.

    ``window`` is a number of steps, a duration such as ``24h``, or ``user``. ``mechanism`` is a name; ``auto`` means
    what it means to ``publish``: release by models, and a stream that exists keeps the mechanism with which it began.

    ``clock`` is ``wall`` for the machine's time, or ``manual`` for a stream that is moved by ``close_until`` alone.

    With ``presence`` a person counts in so many steps of a window, of each block ``per`` (which takes the window's
    place), or ever (docs/presence.md). ``population`` names a promise of the ledger that the stream keeps as well, and
    ``draw`` how it does (docs/population.md); ``unit`` says then what it protects.

    ``sum``, ``mean``, ``variance``, ``count``, ``median`` and ``quantiles`` name columns to measure instead of counting
    rows, with the settings that ``publish`` has for them, ``quantiles_by`` among them (docs/measures.md). A row without
    such a value is a bad row. ``units`` says in which units columns are, for readers. Quantiles that they see lean on
    releases of earlier steps unless ``smooth`` is false. Both may change.

    ``distinct`` counts people by their ids: of a ``step``, of so many last steps or a duration such as ``7d``, or
    ``so-far``; ``window`` is then that of what people do (docs/measures.md).

    >>> visits = StreamDefinition("visits", user="id", domain={"place": ["a", "b"]}, start="2024-01-01", every="1h",
    ...     epsilon="1", window="24h")
    >>> visits.bins, str(visits.guarantee), StreamDefinition.from_json(visits.to_json()) == visits
    (2, 'epsilon 1 within any 24 successive steps', True)
    """

    name: str
    user: str
    start: str | int
    every: str | int
    epsilon: str | int | float
    window: int | str | None = None
    time: str | None = None
    domain: Mapping[str, Any] = field(default_factory=dict[str, Any])
    zone: str = "UTC"
    delta: str | int | float = "0"
    mechanism: str = AUTO
    histogram: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    bins_per_user: int = 1
    counts_per_user: int = 1
    grace: str = "0s"
    delay: str = "10s"
    ahead: str = "1d"
    bad_rows: BadRows = "drop"
    clock: ClockKind = "wall"
    presence: int | None = None
    per: str | int | None = None
    population: str | None = None
    draw: Draw = "shared"
    sum: Measured = None
    mean: Measured = None
    variance: Measured = None
    count: Measured = None
    median: Measured = None
    quantiles: Measured = None
    distinct: str | int | None = None
    at: Sequence[Any] | None = None
    cells: int | None = None
    edges: Sequence[Any] | None = None
    quantiles_by: Literal["cells", "choice"] = "cells"
    smooth: bool | None = None
    between: Sequence[Any] | None = None
    most_per_user: str | int | float | None = None
    title: str = ""
    description: str = ""
    unit: str = "people"
    units: Mapping[str, str] = field(default_factory=dict[str, str])
    public: bool = False
    webhooks: tuple[str, ...] = ()

    @refuses("stream", "its settings have other types; see docs/live.md")
    def __post_init__(self) -> None:
        if not NAME.fullmatch(str(self.name)):
            raise InvalidInputError(
                name="stream name", value=self.name, limit="1 to 100 letters, digits, '.', '_' or '-' are needed"
            )
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidInputError(name=name, value=getattr(self, name), limit=f"choose {' or '.join(choices)}")
        object.__setattr__(self, "webhooks", tuple(self.webhooks))
        for url in self.webhooks:
            if not _is_safe(url):
                raise InvalidInputError(
                    name="webhook", value=url, limit="an https:// address without user and password is needed"
                )
        self._set_distinct()
        if self.window is not None:
            window = steps_of_window(self.window, self.every)
            object.__setattr__(self, "window", "user" if window is None else window)
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, str(getattr(self, name)))
        if self.clock == "wall" and duration(self.delay) < SHORTEST_DELAY:
            raise InvalidInputError(
                name="delay",
                value=self.delay,
                limit="at least 1s is needed: a batch may take half of it from its arrival until it is stored",
            )
        if isinstance(self.every, int) and (self.clock == "wall" or self.time is None):
            raise InvalidInputError(name="every", value=self.every, limit="whole-number steps need clock='manual'")
        if self.user in (self.time, *self.bound_domain.names):
            raise InvalidInputError(f"column '{self.user}': it is the person's id and cannot be a time or an attribute")
        self._check_measures()
        if (self.window is None) == (self.per is None):
            raise InvalidInputError(
                name="window", value=self.window, limit="missing, or given beside 'per'; one of the two is needed"
            )
        if self.population is not None:
            _ = Membership(self.population, self.draw, self.unit)
        _ = self.limit, self.timetable, self.ahead_ticks
        self.make_mechanism().start(self.guarantee, self.bins * (1 if self.measures is None else self.measures.parts))

    def _set_distinct(self) -> None:
        if self.distinct is None:
            return
        if self.distinct == SO_FAR:
            for name, value in SO_FAR_SETTINGS.items():
                if getattr(self, name) in (None, AUTO):
                    object.__setattr__(self, name, value)
        several, limited = self.distinct_steps != 1, self.presence is not None or self.per is not None
        so_far = (self.presence, self.window, self.per) == (1, "user", None)
        if self.counts_per_user != 1 or self.measures is not None:
            limit = "people are counted by their ids, so not with counts_per_user or columns that are measured"
        elif several and limited:
            limit = "people of the last steps are protected by a window, not by presence or per"
        elif several and self.population is not None:
            limit = "people of the last steps are seen for longer than a window of a population looks back"
        elif self.distinct == SO_FAR and not (so_far and Traits.of(self.make_mechanism()).cumulative):
            limit = "so far a person counts once for ever in a total: leave window, presence and mechanism out"
        else:
            return
        raise InvalidInputError(name="distinct", value=self.distinct, limit=limit)

    def _check_measures(self) -> None:
        check_names(self.bound_domain, self.measures)
        if self.measures is None:
            for name in ("at", "cells", "edges", "between", "most_per_user"):
                if getattr(self, name) is not None:
                    raise InvalidInputError(
                        name=name, value=getattr(self, name), limit="only with settings that measure a column"
                    )
        if self.smooth is not None and (self.quantiles_by == "choice" or not (self.median or self.quantiles)):
            raise InvalidInputError(
                name="smooth", value=self.smooth, limit="it is for quantiles and medians from cells"
            )
        if self.measures is None:
            return
        if self.user in self.measures.names:
            raise InvalidInputError(f"column '{self.user}': it is the person's id and cannot be measured")
        # What bounds a sum may bound nothing else.
        self.measures.movement(self.counts_per_user, self.most)

    @cached_property
    def measures(self) -> ValueMeasures | None:
        """What is published of which columns; None where rows are counted."""
        usual = QuantileOptions()
        options = QuantileOptions(
            usual.shares if self.at is None else tuple(rational(share, "at") for share in self.at),
            usual.cells if self.cells is None else self.cells,
            None if self.edges is None else tuple(self.edges),
            grouped=self.quantiles_by == "cells",
        )
        asked = {name: _columns(getattr(self, name)) for name in STATISTICS}
        return measures_of(asked, self.between, options)

    @cached_property
    def smooths(self) -> bool:
        """Whether readers get quantiles that lean on earlier releases."""
        from_cells = self.quantiles_by == "cells" and bool(self.median or self.quantiles)
        return self.smooth is not False and from_cells and Traits.of(self.make_mechanism()).single_steps

    @property
    def distinct_steps(self) -> int | None:
        """Over how many last steps people are counted once; None where rows are counted."""
        if self.distinct is None:
            return None
        return 1 if self.distinct in (STEP, SO_FAR) else steps_of_distinct(self.distinct, self.every)

    @property
    def max_contribution(self) -> int:
        """How far one person moves the counts of a step."""
        if self.distinct_steps is None:
            return self.counts_per_user
        return movement_of_people(self.bins, self.bins_per_user, self.distinct_steps)

    @property
    def most(self) -> Fraction | None:
        """The bound on what one person adds to a sum."""
        return None if self.most_per_user is None else rational(self.most_per_user, "most_per_user")

    @cached_property
    def bound_domain(self) -> Domain:
        """The public bins."""
        return Domain.from_json(self.domain)

    @property
    def bins(self) -> int:
        """The number of bins of a release."""
        return self.bound_domain.bins

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the published numbers keep. The people of the last m steps show a visit m times: a window of w + m − 1
        steps of such numbers is what protects a window of w steps of visits."""
        steps = None if self.window is None else steps_of_window(self.window, self.every)
        if steps is not None and self.distinct_steps is not None:
            steps += self.distinct_steps - 1
        promise = Guarantee(str(self.epsilon), steps, str(self.delta), presence=self.presence, per=self.per)
        return promise.placed(self.timetable.label(0), str(self.every), self.zone)

    @cached_property
    def timetable(self) -> Timetable:
        delay = 0 if self.clock == "manual" else duration(self.delay)
        grace = duration(self.grace) if isinstance(self.every, str) else 0
        return Timetable(self.start, self.every, self.zone, grace, delay)

    @cached_property
    def limit(self) -> Limit:
        return Limit(self.bins_per_user, self.counts_per_user)

    @cached_property
    def ahead_ticks(self) -> int:
        return duration(self.ahead)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that rows must have."""
        own = (self.user,) if self.time is None else (self.user, self.time)
        others = (*self.bound_domain.names, *(() if self.measures is None else self.measures.names))
        return tuple(dict.fromkeys((*own, *others)))

    @cached_property
    def number_columns(self) -> dict[str, Literal["id", "integer", "number"]]:
        """Columns that mean the same as numbers and as their text, where every value is a plain number."""
        kinds: dict[str, Literal["id", "integer", "number"]] = {}
        for name, axis in self.bound_domain.axes.items():
            if not isinstance(axis, Categories):
                kinds[name] = "number"
            elif type(axis.values[0]) is int:
                kinds[name] = "integer"
        # A time may be a column of an attribute as well, and then it is read as a time.
        kinds.pop(str(self.time), None)
        return {self.user: "id", **kinds}

    @property
    def automatic(self) -> bool:
        """Whether the mechanism is left to us: then a stream that exists keeps the one with which it began."""
        return self.mechanism == AUTO and self.histogram is None and not self.settings

    def make_mechanism(self) -> StreamMechanism[Any]:
        """The mechanism as the definition names it; ``auto`` means what it means to ``publish``."""
        if self.quantiles_by == "choice":
            return chosen_cuts(self.measures, self.mechanism, self.histogram, self.settings)
        counts = self.measures is None
        return chosen_mechanism(self.mechanism, self.histogram, self.settings, self.every, counts=counts)

    def to_json(self) -> dict[str, Any]:
        """The value that ``from_json`` reads."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    @checks_arguments
    def from_json(cls, source: Mapping[str, Any]) -> Self:
        """Read a definition; names that do not exist are errors."""
        known = {item.name for item in fields(cls)}
        given = dict(source)
        if "set" in given:
            given["settings"] = given.pop("set")
        for name in given:
            if name not in known:
                raise refuse_setting(name, known)
        try:
            return cls(**given)
        except TypeError:
            required = ("name", "user", "start", "every", "epsilon")
            missing = [name for name in required if name not in given]
            raise InvalidInputError(
                name="stream", value=given.get("name", "?"), limit=f"missing {', '.join(missing) or 'a value'}"
            ) from None

    def check_same(self, given: StreamDefinition) -> StreamDefinition:
        """The recorded definition with the words of the given one; anything else that differs is refused.

        A definition that leaves the mechanism open takes what is recorded.
        """
        if given.mechanism == AUTO and not given.settings:
            given = replace(given, mechanism=self.mechanism, histogram=self.histogram, settings=self.settings)
        mine, other = self.to_json(), given.to_json()
        free = {*WORDS, *(("mechanism", "histogram", "settings") if given.automatic else ())}
        for name in sorted({*mine, *other} - free):
            if json.dumps(mine.get(name)) != json.dumps(other.get(name)):
                raise LedgerMismatchError(
                    name="stream",
                    value=self.name,
                    limit=f"{name} is recorded as {mine.get(name)!r}, given {other.get(name)!r}; use another name",
                    outcome="nothing was changed, nothing was released",
                )
        return replace(self, **{name: getattr(given, name) for name in WORDS})


def _columns(given: Measured) -> Sequence[str] | Mapping[str, Any] | None:
    return (given,) if isinstance(given, str) else given


def _is_safe(url: str) -> bool:
    """Whether releases may be sent there: encrypted, or to this machine, and to the host that the address shows.

    >>> _is_safe("https://data.example/hook"), _is_safe("http://localhost:8000/hook")
    (True, True)
    >>> _is_safe("http://localhost:8000@evil.example/hook"), _is_safe("https:///hook")
    (False, False)
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or port == 0 or any(one <= " " or one == "\\" for one in url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in ("localhost", "127.0.0.1", "::1"))
