"""Programs over several streams of one population: what one unit in a window loses, exactly, by the noise alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.audit.exact.dice import Dice
from veilstream.errors import BudgetExceededError
from veilstream.mechanisms.session import Session
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Cost
from veilstream.privacy.population_limit import Pool, PoolDraws
from veilstream.privacy.population_pool import Drawn, Member, StreamDraws
from veilstream.privacy.population_profile import Profile
from veilstream.trusted.counts import seal

CAP = Cost(Fraction(1), Fraction(1))


@dataclass
class Scales:
    """A source of noise that only remembers how much was asked for."""

    asked: list[tuple[str, Fraction]] = field(default_factory=list[tuple[str, Fraction]])

    def laplace(self, scale: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        self.asked.append(("laplace", Fraction(scale)))
        return np.zeros(size, dtype=np.int64)

    def gaussian(self, sigma: Fraction, size: int | tuple[int, ...]) -> NDArray[np.int64]:
        raise AssertionError

    def select(self, gaps: NDArray[np.int64], rate: Fraction) -> int:
        raise AssertionError


@dataclass
class Stream:
    """A stream with steps of ``width`` half cells from ``offset`` on, its charges, and what it answered."""

    name: str
    width: int
    offset: int
    w: int | None
    noise: Scales = field(default_factory=Scales)
    charges: list[Charge] = field(default_factory=list[Charge])
    answers: list[tuple[Span, Fraction]] = field(default_factory=list[tuple[Span, Fraction]])
    t: int = 0

    def __post_init__(self) -> None:
        # The stream's own budget is no limit here: the pool is.
        self.session = Session(Accountant(Guarantee(1000, w=self.w), bins=1), self.noise)

    def cells(self, t: int) -> tuple[int, int]:
        begin = self.offset + t * self.width
        return begin // 2, (begin + self.width - 1) // 2

    def member(self, once: bool) -> Member:
        return Member(self.name, None if once else self.w, self.cells)


def run(seed: int, *, once: bool = False) -> tuple[list[Stream], int]:
    """A random program; with ``once`` the pool counts every charge once, which is the wrong rule."""
    dice = Dice(seed, 25)
    streams = [
        Stream(f"s{i}", dice.between(1, 5), dice.between(-3, 3), dice.choice([1, 1, 2, 3, None])) for i in range(3)
    ]
    w = dice.between(1, 6)
    for _ in range(40):
        ask(dice, streams, dice.choice(streams), w, once=once)
    return streams, w


def ask(dice: Dice, streams: list[Stream], stream: Stream, w: int, *, once: bool) -> None:
    """One step of a stream: a sum of its last steps, if the pool has what it costs."""

    def fetch(_cells: Span | None, _blocks: Collection[int]) -> PoolDraws:
        draws = [StreamDraws(one.member(once), Profile([], w)) for one in streams]
        for one, made in zip(streams, draws, strict=True):
            made.count(map(Drawn.of, one.charges))
        return PoolDraws.of(draws, w)

    meter = stream.session.at(stream.t)
    stream.session.limit(Pool("p", CAP, w, stream.member(once), fetch))
    first = max(0, stream.t - dice.below(4))
    total = seal(np.array([3]), first)
    for t in range(first + 1, stream.t + 1):
        total = total + seal(np.array([3]), t)
    epsilon = dice.choice([Fraction(1, 16), Fraction(1, 8), Fraction(1, 4)])
    try:
        meter.laplace(total, epsilon, "sum")
    except BudgetExceededError:
        pass
    else:
        stream.answers.append((Span(first, stream.t), stream.noise.asked[-1][1]))
    stream.charges += stream.session.charges
    stream.t += 1


def loss(streams: list[Stream], w: int) -> Fraction:
    """The most that a unit loses which has one count in every step of every stream that touches one window.

    Discrete Laplace noise of scale b on a sum that moves by d loses d/b, and all answers may lose it at once.
    """
    return max(
        sum(
            (
                Fraction(sum(1 for t in range(span.first, span.last + 1) if _inside(one, t, end, w))) / scale
                for one in streams
                for span, scale in one.answers
            ),
            Fraction(0),
        )
        for end in range(-5, 120)
    )


def _inside(stream: Stream, t: int, end: int, w: int) -> bool:
    begin = stream.offset + t * stream.width
    return begin < 2 * (end + 1) and begin + stream.width > 2 * (end - w + 1)


@pytest.mark.parametrize("seed", range(24))
def test_no_program_over_a_population_loses_more_than_its_cap(seed: int) -> None:
    streams, w = run(seed)
    assert sum(len(one.answers) for one in streams) > 3
    assert loss(streams, w) <= CAP.pure


def test_the_cap_is_reached() -> None:
    assert any(loss(*run(seed)) == CAP.pure for seed in range(24))


def test_counting_every_charge_once_is_found_out() -> None:
    assert any(loss(*run(seed, once=True)) > CAP.pure for seed in range(10))
