"""The conformance suite passes what is in the catalogues and fails authors who cheat."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veilstream.errors import CheckFailedError
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS, FixedRate, Sample, Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.testing.checks import applicable, check_histogram, check_stream
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.opening import open_counts
from veilstream.values.values import Values


@pytest.mark.parametrize("name", STREAMS)
def test_every_stream_mechanism_conforms(name: str) -> None:
    check_stream(STREAMS[name]())


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_every_histogram_conforms(name: str) -> None:
    check_histogram(HISTOGRAMS[name]())


@pytest.mark.parametrize(
    "mechanism",
    [Uniform(horizon=12), FixedRate(interval=1, horizon=30), FixedRate(interval=7, horizon=12), Sample()],
    ids=repr,
)
def test_user_level_is_supported(mechanism: Any) -> None:
    assert any(not g.endless for g in applicable(mechanism))
    check_stream(mechanism)


@dataclass(frozen=True)
class Empty:
    pass


@dataclass(frozen=True)
class Honest:
    """The smallest mechanism, from which the cheats below differ in one line."""

    def start(self, guarantee: Guarantee, bins: int) -> Empty:
        return Empty()

    def step(self, state: Empty, now: Sealed, meter: Meter) -> tuple[Empty, Values]:
        return state, meter.laplace(now, meter.guarantee.pure / 100, "publish")


class ReadsExact(Honest):
    def step(self, state: Empty, now: Sealed, meter: Meter) -> tuple[Empty, Values]:
        noisy = meter.laplace(now, meter.guarantee.pure / 100, "publish")
        return state, Values(open_counts(now), noisy.std)


class ReadsByName(Honest):
    def step(self, state: Empty, now: Sealed, meter: Meter) -> tuple[Empty, Values]:
        secret: Any = open_counts(now)
        noisy = meter.laplace(now, meter.guarantee.pure / 100, "publish")
        return state, Values(noisy.numbers + (secret > 500), noisy.std)


class DecidesByExact(Honest):
    def step(self, state: Empty, now: Sealed, meter: Meter) -> tuple[Empty, Values]:
        share = 50 if open_counts(now).sum() > 1_000 else 100
        return state, meter.laplace(now, meter.guarantee.pure / share, "publish")


class KeepsExactInNoise(Honest):
    def step(self, state: Empty, now: Sealed, meter: Meter) -> tuple[Empty, Values]:
        noisy = meter.laplace(now, meter.guarantee.pure / 100, "publish")
        return state, Values(noisy.numbers, noisy.std + float(open_counts(now)[0]))


class RepublishesNothing(Honest):
    def step(self, state: Empty, now: Sealed, meter: Meter) -> tuple[Empty, Values]:
        return state, meter.laplace(now, meter.guarantee.pure / 100, "publish").repeated()


@dataclass
class Counter:
    steps: int = 0
    unsaved: int = field(default=0, init=False)


class ForgetsState(Honest):
    def start(self, guarantee: Guarantee, bins: int) -> Any:
        return Counter()

    def step(self, state: Any, now: Sealed, meter: Meter) -> tuple[Any, Values]:
        share = 100 + state.unsaved
        state = Counter(state.steps + 1)
        state.unsaved = state.steps
        return state, meter.laplace(now, meter.guarantee.pure / share, "publish")


@pytest.mark.parametrize(
    ("cheat", "words"),
    [
        (ReadsExact, "past the meter"),
        (ReadsByName, "past the meter"),
        (DecidesByExact, "chosen by exact data"),
        (KeepsExactInNoise, "past the meter"),
        (RepublishesNothing, "never published"),
        (ForgetsState, "resuming changes"),
    ],
)
def test_a_cheat_fails(cheat: type[Any], words: str) -> None:
    with pytest.raises(CheckFailedError, match=words):
        check_stream(cheat())


def test_thawed_parameters_fail() -> None:
    @dataclass
    class Loose:
        histogram: Any = None
        start = Honest.start
        step = Honest.step

    with pytest.raises(CheckFailedError, match="frozen dataclass"):
        check_stream(Loose())


def test_an_honest_author_passes() -> None:
    check_stream(Honest())


def test_overspending_is_refused_by_the_accountant_before_any_draw() -> None:
    class Greedy(Honest):
        def step(self, state: Empty, now: Sealed, meter: Meter) -> tuple[Empty, Values]:
            return state, meter.laplace(now, meter.guarantee.pure * Fraction(2, 3), "publish")

    with pytest.raises(CheckFailedError, match="would cost"):
        check_stream(Greedy())


def test_pending_values_and_thresholds_survive_the_codec() -> None:
    from veilstream.storage.codec import decode, encode
    from veilstream.trusted.counts import seal

    pending = (seal(np.array([3, 4]), 2, max_contribution=2).with_starts() + seal(np.array([1, 1]), 3)).restarted(
        np.array([True, False])
    )
    stored = encode(_Held(pending))
    back = decode(stored.header, stored.arrays, _Held).pending
    assert open_counts(back).tolist() == [0, 5]
    assert (back.span, back.l1, back.l2, back.starts is not None and back.starts.tolist()) == (
        pending.span,
        pending.l1,
        pending.l2,
        [4, 2],
    )


@dataclass(frozen=True)
class _Held:
    pending: Sealed
