"""Mechanisms whose published values are post-processed, at no privacy cost.

>>> import numpy as np
>>> from veilstream import Guarantee, simulate
>>> from veilstream.mechanisms.histograms import Geometric
>>> from veilstream.mechanisms.streams import Sample
>>> from veilstream.values.postprocess import Whole
>>> tidy = PostProcessed(Geometric(), (ConsistentTotal(1000), Whole()))
>>> y = simulate(Sample(tidy), Guarantee("1/10", w=1), np.full((1, 50), 20), seed=1)
>>> float(y.min()) >= 0, float(y.sum())
(True, 1000.0)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Generic, TypeVar

from veilstream.mechanisms.protocols import HistogramMechanism, StreamMechanism
from veilstream.mechanisms.traits import Traits
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.postprocess import ConsistentTotal, Step, post_process
from veilstream.values.values import Values

S = TypeVar("S")


def _default_steps() -> tuple[Step, ...]:
    return (ConsistentTotal(),)


@dataclass(frozen=True, slots=True)
class PostProcessed:
    """A histogram whose published values are post-processed.

    Inside a stream that goes on working with its releases (DSAT, budget absorption) it works with the
    processed ones; to change only what is shown, wrap the stream with :class:`PostProcessedStream`.
    """

    histogram: HistogramMechanism
    steps: tuple[Step, ...] = field(default_factory=_default_steps)

    @property
    def oblivious(self) -> bool:
        return Traits.of(self.histogram).oblivious

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        return post_process(self.histogram.estimate(x, epsilon, meter), self.steps)


@dataclass(frozen=True, slots=True)
class PostProcessedStream(Generic[S]):
    """A stream whose published values are post-processed as its last stage; its state sees none of it."""

    stream: StreamMechanism[S]
    steps: tuple[Step, ...] = field(default_factory=_default_steps)

    def start(self, guarantee: Guarantee, bins: int) -> S:
        return self.stream.start(guarantee, bins)

    def step(self, state: S, now: Sealed, meter: Meter) -> tuple[S, Values]:
        state, values = self.stream.step(state, now, meter)
        return state, post_process(values, self.steps)
