"""The books of a population equal brute force over every window, whatever comes in whatever order."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.data import Calendar
from veilstream.errors import BudgetExceededError, InvalidInputError
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.durations import MICROSECONDS
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Cost, Membership, Population
from veilstream.privacy.population_limit import Pool, PoolDraws
from veilstream.privacy.population_pool import Drawn, Member, StreamDraws
from veilstream.privacy.population_profile import Profile, Usage
from veilstream.privacy.population_steps import most_steps, windows_of_stream
from veilstream.privacy.population_time import TimeGrid
from veilstream.privacy.presence_blocks import Blocks

AMOUNTS = st.sampled_from([Fraction(1, 8), Fraction(1, 6), Fraction(1, 4), Fraction(1, 3), Fraction(1)])


@dataclass(frozen=True)
class DrawnStream:
    """A stream of a random calendar, cut into steps of ``width`` cells from ``offset`` on, and its charges."""

    name: str
    w: int | None
    dated: bool
    borders: tuple[int, ...]
    charges: tuple[Charge, ...]

    def cells(self, t: int) -> tuple[int, int]:
        """Borders are in halves of a cell, so that a step may touch a cell in part."""
        return self.borders[t] // 2, (self.borders[t + 1] - 1) // 2

    @property
    def member(self) -> Member:
        return Member(self.name, self.w, self.cells if self.dated else None)

    def draws(self, w: int | None, charges: Sequence[Charge] | None = None) -> StreamDraws:
        """What it has drawn by all of its charges, or by some."""
        made = StreamDraws(self.member, Profile([], w))
        made.count(map(Drawn.of, self.charges if charges is None else charges))
        return made


@st.composite
def streams(draw: st.DrawFn) -> DrawnStream:
    widths = draw(st.lists(st.integers(1, 7), min_size=6, max_size=6))
    start = draw(st.integers(-6, 6))
    borders = [start]
    for width in widths:
        borders.append(borders[-1] + width)
    charges: list[Charge] = []
    for _ in range(draw(st.integers(0, 5))):
        first = draw(st.integers(0, 5))
        last = draw(st.integers(first, 5))
        gaussian = draw(st.booleans())
        amount = draw(AMOUNTS)
        charges.append(
            Charge(
                Fraction(0) if gaussian else amount,
                Span(first, last),
                "publish",
                mu_squared=amount if gaussian else Fraction(0),
                block=None if gaussian else draw(st.sampled_from([None, None, 1, 2])),
            )
        )
    name = draw(st.sampled_from(["a", "b", "c"]))
    window = draw(st.sampled_from([None, 1, 2, 3]))
    return DrawnStream(name, window, draw(st.booleans()), tuple(borders), tuple(charges))


def by_definition(found: Sequence[DrawnStream], w: int | None) -> Cost:
    """The largest cost of any window of ``w`` cells, charge by charge and step by step."""
    pure, squared = Fraction(0), Fraction(0)
    for first in range(-40, 60) if w is not None else (0,):
        cost = [_of_window(one, None if w is None else (first, first + w - 1)) for one in found]
        pure = max(pure, sum((a for a, _ in cost), Fraction(0)))
        squared = max(squared, sum((b for _, b in cost), Fraction(0)))
    return Cost(pure, squared)


def _of_window(one: DrawnStream, window: tuple[int, int] | None) -> tuple[Fraction, Fraction]:
    groups: dict[object, list[Charge]] = {}
    for number, charge in enumerate(one.charges):
        groups.setdefault(("alone", number) if charge.block is None else ("block", charge.block), []).append(charge)
    pure, squared = Fraction(0), Fraction(0)
    for group in groups.values():
        read = {t for charge in group for t in range(charge.span.first, charge.span.last + 1)}
        if one.dated and window is not None:
            inside = range(window[0], window[1] + 1)
            read = {t for t in read if any(one.borders[t] < 2 * c + 2 and one.borders[t + 1] > 2 * c for c in inside)}
        if not read:
            continue
        times = 1 if one.w is None else -(-len(read) // one.w)
        pure += times * max(charge.epsilon for charge in group)
        squared += times**2 * max(charge.mu_squared for charge in group)
    return pure, squared


def named(found: list[DrawnStream]) -> list[DrawnStream]:
    """Each with a name of its own."""
    return [replace(one, name=f"{one.name}{number}") for number, one in enumerate(found)]


WINDOWS = st.sampled_from([None, 1, 2, 3, 5])


@settings(max_examples=150, deadline=None)
@given(st.lists(streams(), max_size=3), WINDOWS)
def test_the_fullest_window_equals_brute_force(found: list[DrawnStream], w: int | None) -> None:
    assert PoolDraws.of([one.draws(w) for one in named(found)], w).together.peak() == by_definition(found, w)


@settings(max_examples=150, deadline=None)
@given(st.lists(streams(), min_size=1, max_size=3), WINDOWS, st.data())
def test_charges_one_by_one_and_their_summaries_are_all_of_them(
    found: list[DrawnStream], w: int | None, data: st.DataObject
) -> None:
    """Whatever was summed up before, in whatever order streams went on: every window costs what it cost."""
    pool = PoolDraws.of([StreamDraws(one.member, Profile([], w)) for one in named(found)], w)
    left = [(one.name, charge) for one in named(found) for charge in one.charges]
    for name, charge in data.draw(st.permutations(left)):
        if data.draw(st.booleans()):
            fields = json.loads(json.dumps(pool.streams[name].to_fields(pool.streams[name].blocks)))
            pool.streams[name] = StreamDraws.from_fields(fields, pool.streams[name].member, w)
        pool.count(name, [Drawn.of(charge)])
    at_once = PoolDraws.of([one.draws(w) for one in named(found)], w)
    assert (pool.together.ends, pool.together.costs) == (at_once.together.ends, at_once.together.costs)
    assert pool.together.peak() == by_definition(found, w)
    for name, draws in pool.streams.items():
        assert draws.profile.costs == at_once.streams[name].profile.costs
        assert draws.ever.always == at_once.streams[name].ever.always
    assert sum((one.ever.always for one in pool.streams.values()), Cost()) == by_definition(found, None)


@settings(max_examples=120, deadline=None)
@given(st.lists(streams(), max_size=2), streams(), st.sampled_from([None, 1, 2, 4]), st.sampled_from([1, 2, 3]))
def test_a_pool_admits_what_brute_force_admits(
    found: list[DrawnStream], mine: DrawnStream, w: int | None, limit: int
) -> None:
    """Charge by charge, the pool refuses exactly when a window would pass the limit with it."""
    others = named(found)
    cap = Cost(Fraction(limit), Fraction(limit))
    if not by_definition(found, w).fits(cap):
        return

    def fetch(wanted: Span | None, blocks: Collection[int]) -> PoolDraws:
        """No more than was asked for, so that too little is noticed."""
        near = [one.draws(w, _near(one, one.charges, wanted)) for one in others]
        return PoolDraws.of([*near, mine.draws(w, _near(mine, made, wanted, blocks))], w)

    made: list[Charge] = []
    for number, charge in enumerate(mine.charges):
        # Now and then a step ends, and what it was charged is on record.
        if number % 2 == 0:
            step: list[Charge] = []
            pool = Pool("residents", cap, w, mine.member, fetch)
        tried = replace(mine, charges=(*made, *step, charge))
        if by_definition([*found, tried], w).fits(cap):
            pool.check([charge])
            pool.count([charge])
            step.append(charge)
        else:
            with pytest.raises(BudgetExceededError) as caught:
                pool.check([charge])
            assert caught.value.limit == str(cap)
        if number % 2 == 1 or number == len(mine.charges) - 1:
            pool.confirm(step)
            made += step


def _near(
    one: DrawnStream, charges: Sequence[Charge], cells: Span | None, wanted: Collection[int] = ()
) -> list[Charge]:
    """Charges that touch cells, with the whole of their blocks and of those that are wanted."""

    def touches(charge: Charge) -> bool:
        read = Span(one.cells(charge.span.first)[0], one.cells(charge.span.last)[1])
        return cells is None or not one.dated or read.touches(cells)

    blocks = {charge.block for charge in charges if touches(charge)} | set(wanted)
    return [charge for charge in charges if touches(charge) or (charge.block is not None and charge.block in blocks)]


@settings(max_examples=100, deadline=None)
@given(streams(), st.sampled_from([1, 2, 4]), st.integers(-8, 30))
def test_windows_of_lost_steps_are_full(mine: DrawnStream, w: int, lost: int) -> None:
    pool = Pool(
        "residents",
        Cost(Fraction(9), Fraction(9)),
        w,
        mine.member,
        lambda _c, _b: PoolDraws.of([mine.draws(w, [])], w),
        str,
        lost,
    )
    for t in range(6):
        charge = Charge(Fraction(1, 8), Span(t, t), "publish")
        held = not mine.dated or mine.cells(t)[0] - w + 1 <= lost
        if held:
            with pytest.raises(BudgetExceededError) as caught:
                pool.check([charge])
            assert "forgotten" in str(caught.value)
        else:
            pool.check([charge])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(streams(), min_size=1, max_size=3),
    st.sampled_from([1, 2, 3, 5]),
    st.integers(-10, 10),
    AMOUNTS,
    st.integers(1, 4),
)
def test_budget_comes_back_when_it_is_said_to(
    found: list[DrawnStream], w: int, after: int, wanted: Fraction, cells: int
) -> None:
    profile = PoolDraws.of([one.draws(w) for one in named(found)], w).together
    limit = profile.peak() + Cost(wanted / 2)

    def fits(cell: int) -> bool:
        more = Profile([Usage(Cost(wanted), ((cell, cell + cells - 1),))], w)
        return profile.peak_with(more).fits(limit)

    room = profile.room_from(Cost(wanted), limit, after, cells)
    if room is None:
        assert not any(fits(cell) for cell in range(after, after + 60))
    else:
        assert room == next(cell for cell in range(after, 200) if fits(cell))


FIXED = st.sampled_from(["15m", "1h", "90m", "5h", "1d", "1w"])
SHIFTED = st.sampled_from(["2026-01-01", "2026-01-01T00:30", "2026-01-03T07:00"])


@settings(max_examples=150, deadline=None)
@given(FIXED, SHIFTED, st.integers(1, 30), FIXED, SHIFTED)
def test_steps_in_a_window_are_counted_exactly_where_lengths_are_fixed(
    every: str, start: str, w: int, step: str, begin: str
) -> None:
    cells, steps = TimeGrid(start, every), TimeGrid(begin, step)
    assert cells.width is not None
    assert steps.width is not None
    # Windows repeat after a common multiple of both lengths.
    found = max(_touched(cells, w, steps, i) for i in range(steps.width // 900_000_000 + 2))
    assert most_steps(cells, w, steps) == found


def _touched(cells: TimeGrid, w: int, steps: TimeGrid, i: int) -> int:
    begin, end = cells.border(i), cells.border(i + w)
    return steps.cell_of(end - 1) - steps.cell_of(begin) + 1


LONG = st.sampled_from(["1h", "6h", "1d", "2d", "1w", "1mo", "1q", "1y"])
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
STARTS = st.sampled_from(["2025-01-01", "2025-01-06", "2025-01-31", "2025-02-15T12:00"])


@settings(max_examples=80, deadline=None)
@given(LONG, ZONES, STARTS, st.integers(1, 8), LONG, ZONES, STARTS)
def test_no_window_of_any_calendars_touches_more_steps_than_said(
    every: str, zone: str, start: str, w: int, step: str, other: str, begin: str
) -> None:
    cells, steps = TimeGrid(start, every, zone), TimeGrid(begin, step, other)
    most = most_steps(cells, w, steps)
    found = [_touched(cells, w, steps, i) for i in range(-20, 100)]
    assert max(found) <= most
    if cells == steps:
        assert most == w == max(found)


@pytest.mark.parametrize(
    ("zone", "hours", "start"),
    [
        ("Europe/Berlin", 25, "2025-10-20"),
        ("Antarctica/Casey", 27, "2010-03-01"),
        ("Antarctica/Troll", 26, "2025-10-20"),
        ("Pacific/Kwajalein", 47, "1969-09-20"),
    ],
)
def test_the_longest_day_of_a_zone_is_known(zone: str, hours: int, start: str) -> None:
    days, steps = TimeGrid(start, "1d", zone), TimeGrid(start, "30m")
    lengths = [days.border(i + 1) - days.border(i) for i in range(30)]
    assert max(lengths) == hours * MICROSECONDS["h"]
    assert most_steps(days, 1, steps) >= max(_touched(days, 1, steps, i) for i in range(30)) >= 2 * hours
    blocks = Blocks("1d").placed(start, "30m", zone)
    numbers = [blocks.block_of(t) for t in range(48 * 30)]
    assert blocks.longest is not None
    assert blocks.longest >= max(map(numbers.count, numbers)) == 2 * hours
    assert all(blocks.first_of(t) == numbers.index(numbers[t]) for t in range(100, 48 * 30, 7))


@settings(max_examples=40, deadline=None)
@given(LONG, ZONES, STARTS)
def test_a_grid_has_the_borders_of_the_calendar(every: str, zone: str, start: str) -> None:
    calendar, grid = Calendar(start, "2027-06-01", every, zone), TimeGrid(start, every, zone)
    some = range(0, calendar.steps, max(1, calendar.steps // 60))
    begins = [calendar.begins(t) for t in some]
    assert [grid.cell_of(grid.border(t)) for t in some] == list(some)
    assert [calendar.step_of([begin])[0] for begin in begins] == list(some)
    ticks = [round(begin.timestamp() * 1_000_000) for begin in begins if not isinstance(begin, int)]
    assert ticks == [grid.border(t) for t in some]


def test_cells_cover_time_without_gaps_where_clocks_change() -> None:
    for zone in ("Europe/Berlin", "America/Sao_Paulo", "Africa/Cairo", "Australia/Lord_Howe", "Antarctica/Casey"):
        grid = TimeGrid("2013-01-01", "1d", zone)
        borders = [grid.border(i) for i in range(-100, 800)]
        assert all(a < b for a, b in pairwise(borders))
        assert [grid.cell_of(border) for border in borders] == list(range(-100, 800))
        assert [grid.cell_of(border - 1) for border in borders] == list(range(-101, 799))


def test_blocks_of_people_are_counted_by_the_blocks_that_a_window_touches() -> None:
    weekly = Guarantee(1, per=7, presence=2)
    for steps in range(1, 40):
        touched = max(len({t // 7 for t in range(first, first + steps)}) for first in range(7))
        assert windows_of_stream(weekly, steps) == min(steps, touched) + 1


@pytest.mark.parametrize(
    ("guarantee", "steps"),
    [
        *((Guarantee(1, w=None, presence=c), k) for c in (1, 2, 3) for k in (3, 4)),
        *((Guarantee(1, per=per, presence=c), k) for per in (2, 3, 4) for c in (1, 2) for k in (1, 2, 3, 4)),
        *((Guarantee(1, w=w, presence=1), k) for w in (3, 4) for k in (1, 3, 4, 5)),
    ],
    ids=str,
)
def test_a_part_of_a_persons_visits_moves_no_more_steps_than_are_reserved(guarantee: Guarantee, steps: int) -> None:
    """Every pattern of visits, every place of the window: what differs, in the units that the stream protects."""
    every, reserved = range(9), windows_of_stream(guarantee, steps)
    assert guarantee.reach is not None
    assert reserved is not None
    most = all_gone = 0
    for pattern in range(1 << len(every)):
        visits = [t for t in every if pattern >> t & 1]
        counted = _counted(visits, guarantee)
        all_gone = max(all_gone, len(counted))
        for first in every[: len(every) - steps + 1]:
            rest = [t for t in visits if not first <= t < first + steps]
            most = max(most, len(counted ^ _counted(rest, guarantee)))
    assert most <= reserved * guarantee.reach
    if guarantee.w is None and guarantee.per is None:
        assert most == reserved * guarantee.reach
        assert windows_of_stream(guarantee, None, ever=True) == 1
        assert all_gone == guarantee.reach
    elif guarantee.per is not None and guarantee.presence == steps == 1:
        # One of two steps of a block: the other takes its place.
        assert most == reserved * guarantee.reach == 2


def _counted(visits: Sequence[int], guarantee: Guarantee) -> set[int]:
    """The steps in which a person counts, by the rule of docs/presence.md."""
    c, w, per = guarantee.presence or 0, guarantee.w, guarantee.per
    if per is not None:
        return {t for t in visits if sum(s < t and per.block_of(s) == per.block_of(t) for s in visits) < c}
    return {t for t in visits if sum(s < t and (w is None or s > t - w) for s in visits) < c}


def test_a_longer_window_than_the_streams_own_pays_for_each_of_its_windows() -> None:
    """A sum over four steps with noise for one: who is in all four moves it by four."""
    member = Member("sums", 1, lambda t: (t, t))
    usage = member.usage(Cost(Fraction(1, 4), Fraction(1, 16)), ((0, 3),))
    assert Profile([usage], 4).peak() == Cost(Fraction(1), Fraction(1))
    assert Profile([usage], 1).peak() == Cost(Fraction(1, 4), Fraction(1, 16))


def test_a_reserved_share_is_refused_where_it_has_no_end() -> None:
    for population in (Population("all", 1, None), Population("days", 1, "1d")):
        with pytest.raises(InvalidInputError) as caught:
            population.reserved_cost(Guarantee(1, w=24), None)
        assert caught.value.name == "draw"
        assert population.reserved_cost(Guarantee("1/2", w=None), None) == Cost(Fraction(1, 2))


@pytest.mark.parametrize(
    "one",
    [
        Population("residents", "3/2", "24h", zone="Europe/Berlin", start="2026-01-01", delta="1e-6"),
        Population("residents", 1, None, unit="devices"),
        Population("residents", 1, "7d", every="1d"),
        Population("residents", 1, 6, every=4, start=3),
    ],
)
def test_a_population_is_the_same_after_it_was_written(one: Population) -> None:
    assert Population.from_json("residents", one.to_json()) == one


@pytest.mark.parametrize(
    ("settings_given", "name"),
    [
        ({"window": "1d", "every": "1h", "zone": "Europe/Berlin"}, "window"),
        ({"window": "25h", "every": "2h"}, "window"),
        ({"window": 24}, "every"),
        ({"window": "24h", "unit": "cars"}, "unit"),
        ({"window": "24h", "zone": "Mars"}, "zone"),
    ],
)
def test_what_makes_no_population_is_refused(settings_given: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Population("residents", 1, **settings_given)  # type: ignore[arg-type]
    assert caught.value.name == name


def test_what_is_about_different_people_is_reserved() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Membership("residents", apart="groups")
    assert caught.value.name == "draw"
    assert Membership("residents", "reserved", apart="groups").apart == "groups"
