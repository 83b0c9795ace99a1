"""Meters that record their answers and replay them, whatever the data: how the checks catch a leak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import CheckFailedError
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.buffers import Buffers
from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.correlated import CorrelatedNoise
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter, NoiseSource
from veilstream.trusted.points import SealedFlow
from veilstream.trusted.records import SealedRecords
from veilstream.trusted.running import SealedRunning
from veilstream.trusted.statistics import JointScores, Scores
from veilstream.trusted.statistics.dyadic import DyadicCosts
from veilstream.trusted.statistics.metric import SmoothValue
from veilstream.trusted.threshold import SealedThreshold
from veilstream.values.boxes import Boxes
from veilstream.values.values import Values

A = TypeVar("A")


@dataclass(slots=True)
class Recording:
    """Questions put to a meter, in order, with their answers."""

    entries: list[tuple[tuple[Any, ...], Any]] = field(default_factory=list[tuple[tuple[Any, ...], Any]])


class _AskingMeter(Meter):
    """Sends every question through ``_answer`` as (public question, function that asks the real meter)."""

    def _answer(self, question: tuple[Any, ...], ask: Callable[[], A]) -> A:
        return ask()

    @property
    def left(self) -> Fraction:
        return self._answer(("left",), lambda: super(_AskingMeter, self).left)

    def laplace(self, x: Sealed, epsilon: Fraction, purpose: str) -> Values:
        question = ("laplace", x.size, x.span, epsilon, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).laplace(x, epsilon, purpose))

    def flow_laplace(self, x: SealedFlow, epsilon: Fraction, purpose: str) -> Values:
        question = ("flow", x.shape, x.span, x.flow, epsilon, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).flow_laplace(x, epsilon, purpose))

    def smooth_cauchy(self, x: SmoothValue, epsilon: Fraction, purpose: str) -> Values:
        question = ("smooth", x.span, x.smoothness, x.low, x.high, epsilon, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).smooth_cauchy(x, epsilon, purpose))

    def sampled_laplace(self, x: Sealed, epsilon: Fraction, rate: Fraction, purpose: str) -> Values:
        question = ("sampled", x.size, x.span, epsilon, rate, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).sampled_laplace(x, epsilon, rate, purpose))

    def gaussian(self, x: Sealed, mu_squared: Fraction, purpose: str) -> Values:
        question = ("gaussian", x.size, x.span, mu_squared, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).gaussian(x, mu_squared, purpose))

    def row_of(self, sums: SealedRunning, mu_squared: Fraction, purpose: str) -> Values:
        question = ("row", sums.size, sums.span, mu_squared, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).row_of(sums, mu_squared, purpose))

    def correlated(
        self, x: Sealed, buffers: Buffers, mu_squared: Fraction, purpose: str, past: CorrelatedNoise | None = None
    ) -> tuple[Values, CorrelatedNoise]:
        question = ("correlated", x.size, x.span, buffers, mu_squared, purpose, past is None)
        return self._answer(
            question, lambda: super(_AskingMeter, self).correlated(x, buffers, mu_squared, purpose, past)
        )

    def block_laplace(
        self, x: Sealed, epsilon: Fraction, length: int, purpose: str, block: NoiseBlock | None = None
    ) -> tuple[Values, NoiseBlock]:
        question = ("block", x.size, x.span, epsilon, length, purpose, block is None)
        return self._answer(
            question, lambda: super(_AskingMeter, self).block_laplace(x, epsilon, length, purpose, block)
        )

    def select(self, scores: Scores, epsilon: Fraction, purpose: str) -> int:
        question = ("select", scores.size, scores.span, epsilon, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).select(scores, epsilon, purpose))

    def select_each(self, scores: JointScores, epsilon: Fraction, purpose: str) -> NDArray[np.int64]:
        question = ("select each", tuple(scores.sizes.tolist()), scores.span, epsilon, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).select_each(scores, epsilon, purpose))

    def partition(self, costs: DyadicCosts, price: Fraction, epsilon: Fraction, purpose: str) -> NDArray[np.bool_]:
        question = ("partition", costs.size, costs.span, price, epsilon, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).partition(costs, price, epsilon, purpose))

    def reaching(self, records: SealedRecords, level: int, epsilon: Fraction, purpose: str) -> Boxes:
        question = ("reaching", records.shape, records.span, level, epsilon, purpose)
        return self._answer(question, lambda: super(_AskingMeter, self).reaching(records, level, epsilon, purpose))

    def open_threshold(
        self, epsilon_rho: Fraction, epsilon_nu: Fraction, sensitivity: Fraction, purpose: str
    ) -> SealedThreshold:
        question = ("open", epsilon_rho, epsilon_nu, sensitivity, purpose)
        return self._answer(
            question,
            lambda: super(_AskingMeter, self).open_threshold(epsilon_rho, epsilon_nu, sensitivity, purpose),
        )

    def above(self, threshold: SealedThreshold, x: Sealed, level: float) -> bool:
        question = ("above", threshold.block, x.span, level)
        return self._answer(question, lambda: super(_AskingMeter, self).above(threshold, x, level))

    def is_open(self, block: SealedThreshold | NoiseBlock) -> bool:
        return self._answer(("is open", block.block), lambda: super(_AskingMeter, self).is_open(block))


class RecordingMeter(_AskingMeter):
    """A meter that appends each question and its answer to a recording."""

    def __init__(self, accountant: Accountant, noise: NoiseSource, t: int, recording: Recording) -> None:
        super().__init__(accountant, noise, t)
        self._recording = recording

    def _answer(self, question: tuple[Any, ...], ask: Callable[[], A]) -> A:
        answer = ask()
        self._recording.entries.append((question, answer))
        return answer


class ReplayingMeter(_AskingMeter):
    """A meter that gives the answers of a recording without looking at its data."""

    def __init__(self, accountant: Accountant, noise: NoiseSource, t: int, recording: Recording) -> None:
        super().__init__(accountant, noise, t)
        self._recording = recording

    def close(self, threshold: SealedThreshold) -> None:
        """Nothing was opened here."""

    def _answer(self, question: tuple[Any, ...], ask: Callable[[], A]) -> A:
        if not self._recording.entries:
            raise CheckFailedError(
                f"a question {question[:1]} that other data did not bring: it was chosen by exact data"
            )
        asked, answer = self._recording.entries.pop(0)
        if asked != question:
            raise CheckFailedError(f"question {question} where other data brought {asked}: it was chosen by exact data")
        return cast(A, answer)
