"""Claims of the stream mechanisms of the catalogue, each on the pairs that its own way of working makes dangerous."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from veilstream.audit.attack import Claim, stream_claim
from veilstream.audit.pairs import (
    Pair,
    alternation,
    border_burst,
    constant,
    empty,
    every_bin,
    follower,
    known_threshold,
    moving,
    one_event,
)
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import (
    DSAT,
    DSFT,
    BudgetAbsorption,
    BudgetDistribution,
    Fast,
    FixedRate,
    MovingSum,
    RunningTotal,
    Sample,
    Scheduled,
    SlidingWindow,
    TimeUnit,
    Uniform,
)
from veilstream.privacy.guarantee import Guarantee

USER: Final = Guarantee(1, w=None)
DECIDES: Final = Fraction(9, 10)
"""Of the budget where decisions are attacked: what a decision loses must show."""


def _batched(mechanism: StreamMechanism[Any], *cases: tuple[Guarantee, Pair], variant: str = "") -> list[Claim]:
    """Claims with as many quick trials as batches make cheap; ``variant`` names parameters in their names."""
    return [
        stream_claim(mechanism, guarantee, pair, name=f"{pair.name}{variant}, {guarantee}", quick=20_000)
        for guarantee, pair in cases
    ]


def _window(w: int) -> Guarantee:
    return Guarantee(1, w=w)


def uniform() -> list[Claim]:
    windows = (
        (_window(4), constant(4)),
        (_window(3), border_burst(3)),
        (_window(3), every_bin(3)),
        (_window(4), moving(4)),
    )
    return _batched(Uniform(), *windows) + _batched(Uniform(horizon=4), (USER, constant(None)))


def sample() -> list[Claim]:
    return _batched(Sample(), (_window(3), constant(3)), (_window(3), border_burst(3)), (_window(4), empty(4)))


def fixed_rate() -> list[Claim]:
    return _batched(FixedRate(interval=2), (_window(4), constant(4)), (_window(4), border_burst(4))) + _batched(
        FixedRate(interval=2, horizon=5), (USER, constant(None, steps=5))
    )


def time_unit() -> list[Claim]:
    return _batched(
        TimeUnit(window=2), (_window(1), one_event(3)), (_window(3), constant(3)), (_window(3), border_burst(3))
    )


def sliding_window() -> list[Claim]:
    return _batched(
        SlidingWindow(window=2), (_window(1), one_event(4)), (_window(3), constant(3)), (_window(2), border_burst(2))
    )


def scheduled() -> list[Claim]:
    return _batched(Scheduled(weights="1 1 8"), (_window(3), constant(3)), (_window(3), border_burst(3))) + _batched(
        Scheduled(weights="1 1 8", online=True), (_window(3), border_burst(3)), variant=" (online)"
    )


def fast() -> list[Claim]:
    """Looks at an even pace, which go together, and looks that the last one brings nearer."""
    steered = Fast(samples=3, memory=1, horizon=6)
    return (
        _batched(Fast(samples=2, horizon=4), (USER, constant(None)))
        + _batched(steered, (USER, constant(None, steps=6)), (USER, moving(None, steps=6)), variant=" (steered)")
        + _batched(Fast(samples=3, memory=1), (_window(6), border_burst(6, steps=9)))
    )


def _by_dissimilarity(make: Callable[[int], BudgetDistribution | BudgetAbsorption]) -> list[Claim]:
    """Data that do not move, that jump, and that keep a known distance to the last release."""
    return [
        *_batched(make(1), (_window(3), border_burst(3, steps=5)), (_window(3), constant(3, steps=3))),
        *_batched(make(1), (_window(3), alternation(6, 3, steps=5)), (_window(3), known_threshold(12, 3, steps=5))),
        *_batched(make(2), (_window(3), moving(3, steps=3))),
    ]


def budget_distribution() -> list[Claim]:
    return _by_dissimilarity(lambda columns: BudgetDistribution(columns=columns))


def budget_absorption() -> list[Claim]:
    return _by_dissimilarity(lambda columns: BudgetAbsorption(columns=columns))


def _by_distance(make: Callable[[int, int | None], DSFT | DSAT]) -> list[Claim]:
    """One secret for all comparisons, a fresh one after each positive, and a fresh one in every window."""
    person, after_each, windows = make(3, 8), make(2, None), make(6, None)
    short, long = Guarantee(3, w=4), Guarantee(3, w=7)
    cases = [
        (person, USER, known_threshold(_level(person, USER), None)),
        (person, USER, alternation(_level(person, USER), None)),
        (person, USER, follower(_level(person, USER), None)),
        (after_each, short, alternation(_level(after_each, short), 4, steps=5)),
        (after_each, short, follower(_level(after_each, short), 4)),
    ]
    claims = [stream_claim(mechanism, guarantee, pair, quick=4_000) for mechanism, guarantee, pair in cases]
    # So many patterns of answers that there is little to share.
    pair = known_threshold(_level(windows, long), 7, steps=9, first=3)
    return [*claims, stream_claim(windows, long, pair, quick=2_000)]


def _level(mechanism: DSFT | DSAT, guarantee: Guarantee) -> int:
    """The distance at which a comparison is about as likely to be answered yes as no."""
    return round(1 / mechanism.rule().plan(guarantee, 1).share)


def dsft() -> list[Claim]:
    def make(releases: int, horizon: int | None) -> DSFT:
        return DSFT(threshold=0, decision_share=DECIDES, releases=releases, horizon=horizon)

    return _by_distance(make)


def dsat() -> list[Claim]:
    def make(releases: int, horizon: int | None) -> DSAT:
        return DSAT(margin=0, decision_share=DECIDES, spacing=0, releases=releases, horizon=horizon)

    return _by_distance(make)


def running_total() -> list[Claim]:
    """A tree at event level and under a window; trees that double would only show after their first 64 steps."""
    return _batched(
        RunningTotal(horizon=4), (_window(1), one_event(4)), (_window(2), border_burst(2)), (_window(3), constant(3))
    ) + _batched(RunningTotal(), (_window(1), one_event(4)), variant=" (without end)")


def moving_sum() -> list[Claim]:
    return _batched(MovingSum(window=2), (_window(1), one_event(4)), (_window(2), border_burst(2))) + _batched(
        MovingSum(window=2), (Guarantee(1, w=1, delta="1/1000"), one_event(4)), variant=" (rows)"
    )


STREAM_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {
    "uniform": uniform,
    "sample": sample,
    "fixed-rate": fixed_rate,
    "fast": fast,
    "budget-distribution": budget_distribution,
    "budget-absorption": budget_absorption,
    "dsft": dsft,
    "dsat": dsat,
    "time-unit": time_unit,
    "sliding-window": sliding_window,
    "scheduled": scheduled,
    "running-total": running_total,
    "moving-sum": moving_sum,
}
"""Name in ``STREAMS`` -> its claims; grouping has its own module."""
