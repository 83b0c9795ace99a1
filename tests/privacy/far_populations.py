"""Random populations whose streams share a pool in a real ledger, and what a window costs by the definition alone.

``python -m tests.privacy.far_populations SEED`` shows again what failed.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from tests.privacy.far_books import PARTS, STEPS, quarter
from veilstream.audit.exact.dice import Dice
from veilstream.errors import BudgetExceededError
from veilstream.mechanisms.session import Session
from veilstream.noise import SecureNoise
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import EVER, Cost, Membership, Population
from veilstream.privacy.population_time import TimeGrid
from veilstream.release import transacting
from veilstream.release.transacting import Book
from veilstream.storage.ledger import Ledger, StreamSpec
from veilstream.storage.ledger.compacting import compact, plan_compaction
from veilstream.storage.ledger.verifying import verify
from veilstream.trusted.meter import Meter
from veilstream.values.values import NoiseLaw, Values


class Asking(Meter):
    """A meter that is asked for charges."""

    def ask(self, charge: Charge) -> None:
        self._admit([charge])


@dataclass
class Stream:
    """A stream of a population: its steps have ``width`` units of time from ``offset`` on, or one time for all."""

    name: str
    guarantee: Guarantee
    shares: bool
    offset: int = 0
    width: int | None = None
    data: tuple[int, int] | None = None
    """When its data are from, where its steps do not tell; None for all of time."""
    t: int = 0
    made: list[Charge] = field(default_factory=list[Charge])
    open: list[int] = field(default_factory=list[int])
    """The blocks that may grow."""

    @property
    def blocks(self) -> int:
        """How many blocks it ever had."""
        return max((charge.block or 0 for charge in self.made), default=0)

    def spec(self, population: Population) -> StreamSpec:
        calendar, data = None, EVER if self.data is None else (str(self.data[0]), str(self.data[1]))
        if self.width is not None:
            calendar = json.dumps({"start": str(self.offset), "every": str(self.width), "zone": "UTC"})
        membership = Membership(
            population.name, "shared" if self.shares else "reserved", data=None if calendar else data
        ).to_json()
        guarantee = self.guarantee.to_json()
        return StreamSpec(self.name, guarantee, "{}", 1, None, 1, calendar=calendar, membership=membership)

    def touched(self, steps: Iterable[int], first: int, after: int) -> int:
        """How many of some steps have data from ``first`` up to ``after``."""
        if self.width is None:
            begin, end = self.data or (first, after)
            return len(set(steps)) if begin < after and end > first else 0
        begins = np.array(sorted(set(steps))) * self.width + self.offset
        return int(((begins < after) & (begins + self.width > first)).sum())

    def cost(self, charges: Iterable[Charge], first: int | None, after: int | None) -> Cost:
        """What charges cost data from ``first`` up to ``after`` (None: all), by the links of their chains."""
        groups: dict[object, list[Charge]] = {}
        for number, charge in enumerate(charges):
            groups.setdefault((charge.block is None, charge.block or number), []).append(charge)
        total = Cost()
        for group in groups.values():
            read = {t for charge in group for t in range(charge.span.first, charge.span.last + 1)}
            inside = len(read) if first is None or after is None else self.touched(read, first, after)
            w = self.guarantee.w
            links = min(inside, 1) if w is None else math.ceil(inside / w)
            pure, squared = max(c.epsilon for c in group), max(c.mu_squared for c in group)
            total += Cost(links * pure, links**2 * squared)
        return total


@dataclass
class Books:
    """A population with its streams, what they were charged, and whom the pool refused though there was room."""

    seed: int
    population: Population
    streams: list[Stream]
    refused: int = 0
    needless: int = 0

    def loss(self, streams: Iterable[Stream], stream: Stream | None = None, more: Charge | None = None) -> Cost:
        """What the dearest window pays, in each of its parts, if ``stream`` is charged ``more``."""
        charges = [(one, [*one.made, *([more] if one is stream and more is not None else [])]) for one in streams]
        grid, w = self.population.grid, self.population.guarantee.w
        windows: list[tuple[int | None, int | None]] = [(None, None)]
        if grid is not None and w is not None:
            cell = int(grid.every)
            first, last = _reach(charges, cell, w)
            windows = [(c * cell, (c + w) * cell) for c in range(first, last + 1)]
        each = [sum((one.cost(made, *window) for one, made in charges), Cost()) for window in windows]
        return Cost(max(cost.pure for cost in each), max(cost.mu_squared for cost in each))

    def __str__(self) -> str:
        lines = [str(self.population)]
        for one in self.streams:
            time = f"steps of {one.width} from {one.offset}" if one.width else f"data of {one.data or 'all of time'}"
            lines.append(f"{one.name}: {'shares' if one.shares else 'reserves'}, {one.guarantee}, {time}")
            lines += [f"  {c.epsilon} and {float(c.mu_squared):.4g} of {c.span} block {c.block}" for c in one.made]
        return "\n".join([*lines, f"loss: {self.loss(self.streams)} of {self.population.cap}"])


def _reach(charges: Iterable[tuple[Stream, list[Charge]]], cell: int, w: int) -> tuple[int, int]:
    """The first cells of the first and the last window that hold data of any charge."""
    times = [0]
    for one, made in charges:
        for charge in made:
            times += [one.offset + (one.width or 0) * t for t in (charge.span.first, charge.span.last + 1)]
        times += one.data or ()
    return min(times) // cell - w, max(times) // cell + 1


def books_of(seed: int, folder: Path) -> Books:
    """A random population after all of its streams were charged in a ledger of its own."""
    dice = Dice(seed, 3)
    delta = dice.choice(["0", "1/1000"])
    cell, w = dice.between(1, 6), dice.choice([None, *[dice.between(1, 12)] * 4])
    population = Population("p", 1, window=w, every=None if w is None else cell, delta=delta)
    books = Books(seed, population, [])
    url = f"sqlite:///{folder / f'{seed}.db'}"
    ledger, known = Ledger.open(url), dict[str, Book[Session]]()
    with mock.patch.object(transacting, "INTERVAL", 2):
        for number in range(dice.between(6, 16)):
            if number < 2 or (len(books.streams) < 4 and dice.chance(4)):
                with suppress(BudgetExceededError):
                    stream = _stream(dice, f"s{number}", delta, population)
                    ledger.populations.define(population)
                    ledger.register(stream.spec(population))
                    books.streams.append(stream)
            if not books.streams:
                continue
            if dice.chance(5):
                ledger.close()
                ledger, known = Ledger.open(url), {}
                _compact(ledger, dice.choice(books.streams))
            one = dice.choice(books.streams)
            if one.name not in known:
                known[one.name] = Book(ledger, one.name, partial(_session, one))
            _step(dice, books, one, known[one.name])
        if dice.chance(4):
            assert verify(ledger) == []
        ledger.close()
    return books


def _stream(dice: Dice, name: str, delta: str, population: Population) -> Stream:
    shares = not dice.chance(3)
    own, time = dice.choice([1, 2, 3, dice.between(1, 12), None]), dice.below(6)
    if not shares and (time < 2 or population.grid is None):
        # What has no steps in a window to be counted reserves for ever or not at all.
        own = None
    epsilon = 1 if shares else dice.choice([Fraction(1, 16), Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)])
    guarantee = Guarantee(epsilon, own, delta)
    if time == 0:
        return Stream(name, guarantee, shares)
    if time == 1 and population.grid is not None:
        begin = dice.between(-5, STEPS)
        return Stream(name, guarantee, shares, data=(begin, begin + dice.between(1, 30)))
    return Stream(name, guarantee, shares, dice.between(-7, 40), dice.between(1, 8))


def _session(stream: Stream) -> Session:
    return Session(Accountant(stream.guarantee, 1), SecureNoise(), Asking)


def _compact(ledger: Ledger, stream: Stream) -> None:
    plan = plan_compaction(ledger, stream.name)
    if plan.through:
        compact(ledger, plan, keep_releases=False, archived=False)


class Failed(Exception):
    """A step that fails after it was charged."""


def _step(dice: Dice, books: Books, stream: Stream, book: Book[Session]) -> None:
    t, stream.t = stream.t, stream.t + dice.choice([1, 1, 1, 2, 5, dice.between(1, 20)])

    def measure() -> tuple[Values, None]:
        meter, before = book.session.at(t), stream.blocks
        assert isinstance(meter, Asking)
        for _ in range(dice.between(1, 3)):
            charge = _charge(dice, stream, t)
            for tried in (charge, quarter(charge)):
                try:
                    meter.ask(tried)
                except BudgetExceededError as error:
                    books.refused += 1
                    books.needless += "population" in str(error) and _had_room(books, stream, tried)
                else:
                    stream.made.append(tried)
                    break
        if dice.chance(8):
            raise Failed
        # A step that fails loses the blocks that it opened.
        stream.open += range(before + 1, stream.blocks + 1)
        return Values(np.zeros(1, dtype=np.int64), 1.0, NoiseLaw.LAPLACE), None

    with suppress(Failed), book.transaction() as transaction:
        book.catch_up(transaction)
        book.transact(transaction, t, measure)


def _charge(dice: Dice, stream: Stream, t: int) -> Charge:
    back, guarantee = dice.choice([0, 0, 1, 3, dice.between(0, 20)]), stream.guarantee
    share, block = (
        dice.choice(PARTS) / dice.choice([1, 2, 4]),
        dice.choice([None, None, stream.blocks + 1, *stream.open]),
    )
    if guarantee.mu_squared and block is None and dice.chance(2):
        return Charge(Fraction(0), Span(t - back, t), "any", guarantee.mu_squared * share)
    return Charge(guarantee.pure * share, Span(t - back, t), "any", block=block)


def _had_room(books: Books, stream: Stream, charge: Charge) -> bool:
    """Whether all windows of those that share keep within what is not reserved."""
    population, left = books.population, books.population.cap
    for one in books.streams:
        if not one.shares:
            calendar = None if one.width is None else TimeGrid(str(one.offset), str(one.width))
            left -= population.reserved_cost(one.guarantee, calendar)
    return books.loss([one for one in books.streams if one.shares], stream, charge).fits(left)


@dataclass
class PopulationAttack:
    """What a run of populations found."""

    charges: int = 0
    refused: int = 0
    full: int = 0
    broken: list[int] = field(default_factory=list[int])
    """The seeds of those that lose more than was promised, or refuse what has room."""

    def on(self, seeds: Iterable[int], folder: Path) -> PopulationAttack:
        for seed in seeds:
            books = books_of(seed, folder)
            loss = books.loss(books.streams)
            self.charges += sum(len(one.made) for one in books.streams)
            self.refused += books.refused
            self.full += loss.pure == books.population.cap.pure
            if not loss.fits(books.population.cap) or books.needless:
                self.broken.append(seed)
        return self


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as made:
            shown = books_of(int(argument), Path(made))
        print(shown, f"refused: {shown.refused}, needlessly {shown.needless}", sep="\n")
