"""Every way that exact data take into a release: an error anywhere on it shows nothing to a crash reporter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veilstream as vs
from veilstream.data import Grid
from veilstream.metric import MetricGuarantee, Space, release_points
from veilstream.personalised import PeopleCounts, PersonalisedPublisher, Roster, count_levels, count_people
from veilstream.synthesis import DPCopula, TableDomain, fit, read_rows
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.meter import Meter
from veilstream.trusted.points import SealedPoints
from veilstream.values.values import Values

from .test_frames import SECRET, Failing, assert_nothing_exact, caught, planted


@dataclass(frozen=True)
class FailingPoints:
    """A mechanism for points that fails once it has looked at them."""

    def size(self, guarantee: MetricGuarantee, points: int) -> int:
        return points

    def estimate(self, x: SealedPoints, guarantee: MetricGuarantee, meter: Meter) -> Values:
        raise RuntimeError("failed")


@dataclass(frozen=True)
class FailingMargins:
    """A histogram that fails once it has looked."""

    def estimate(self, x: Sealed, epsilon: Fraction, meter: Meter) -> Values:
        pending = x.with_starts()
        raise RuntimeError(f"failed on {pending!r}")


ROSTER = Roster.of_budgets(["1/2", "1/2", "1", "1"])
LINE = MetricGuarantee(1, 5, Space(0, 10**10))
DOMAIN = TableDomain({"x": Grid(0, 2 * 10**9, 50), "y": Grid(0, 2 * 10**9, 50)})


def fed(when: str) -> object:
    counts = PeopleCounts(ROSTER, 2, seal(planted(), 0))
    return PersonalisedPublisher(ROSTER, 2, 1, Failing(when)).feed(counts)


def fitted() -> object:
    table = {"x": planted(), "y": planted()}
    return fit(table, DOMAIN, 1, DPCopula(margins=FailingMargins()))


CASES: dict[str, Callable[[], object]] = {
    "personalised, before an answer": lambda: fed("before"),
    "personalised, after an answer": lambda: fed("after"),
    "personalised, storing": lambda: fed("storing"),
    "people of a level that is not there": lambda: count_levels(ROSTER, planted(), np.zeros(4, dtype=np.int64), 2),
    "people in bins that are not there": lambda: count_levels(ROSTER, np.array([0, 0, 1, 1]), planted(), 2),
    "people who are not on the roster": lambda: count_people(ROSTER, planted(), [0, 0, 0, 0], 2),
    "points, failing mechanism": lambda: release_points([float(SECRET), SECRET + 1.0], FailingPoints(), LINE),
    "points outside": lambda: release_points([float(SECRET), -SECRET - 1.0], FailingPoints(), LINE),
    "points of no number": lambda: LINE.seal([float(SECRET), float("nan")]),
    "table, failing margins": fitted,
    "table, unknown value": lambda: read_rows({"x": -planted(), "y": planted()}, DOMAIN),
    "table, missing column": lambda: read_rows({"x": planted()}, DOMAIN),
}


@pytest.mark.parametrize("name", CASES)
def test_an_error_on_the_way_to_a_release_shows_nothing_exact(name: str) -> None:
    error = caught(CASES[name])
    assert isinstance(error, vs.VeilstreamError | RuntimeError)
    inside: Any = {"<lambda>", "fed", "fitted"}
    for below in inside:
        error = error.with_traceback(_under(error, below))
    assert_nothing_exact(error, "test_an_error_on_the_way_to_a_release_shows_nothing_exact")


def _under(error: BaseException, below: str) -> Any:
    """The traceback under the test's own function ``below``, or all of it where that does not occur."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_name == below and step.tb_frame.f_code.co_filename == __file__:
            return step.tb_next
        step = step.tb_next
    return error.__traceback__
