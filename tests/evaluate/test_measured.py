"""Comparisons by the error of a measured statistic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.data.measures import ValueMeasures
from veilstream.data.public import read_public_counts
from veilstream.errors import InvalidInputError
from veilstream.evaluate.compare import compare

STEPS, ROWS = 40, 50
RANGE = {"fare": (0, 100)}


def stream(statistic: str, **more: Any) -> tuple[NDArray[np.int64], ValueMeasures]:
    asked = ValueMeasures.of({statistic: RANGE})
    draw = np.random.default_rng(3)  # noqa: TID251
    rows = {"t": np.repeat(np.arange(STEPS), ROWS), "fare": draw.gamma(4, 5, STEPS * ROWS)}
    return read_public_counts(rows, time="t", every=1, value="fare", measures=asked, **more).counts, asked


def error(statistic: str, place: Path, rows: int = 1) -> float:
    counts, asked = stream(statistic)
    found = compare(
        counts, [1], 2, declared_public=True, directory=place, shape=(asked.parts,), per_person=rows,
        measures=asked, runs=4, workers=1, mechanisms=["uniform"], histograms=[],
    )  # fmt: skip
    return float(found.ranking["absolute"][0])


def test_the_error_of_a_sum_is_that_of_its_noise(tmp_path: Path) -> None:
    # Laplace noise of scale 100·w/ε per row: the mean of 160 absolute values is within a third of it but with
    # probability 3e-5 by chance; the seeds are fixed.
    assert error("sum", tmp_path / "one") == pytest.approx(200, rel=1 / 3)
    assert error("sum", tmp_path / "three", rows=3) == pytest.approx(600, rel=1 / 3)


def test_means_and_medians_have_errors_in_units_of_the_column(tmp_path: Path) -> None:
    assert 0.1 < error("mean", tmp_path / "mean") < 10
    assert 0.1 < error("median", tmp_path / "median") < 20


def test_what_has_no_single_error_is_refused(tmp_path: Path) -> None:
    counts, asked = stream("quantiles")
    common: dict[str, Any] = {"declared_public": True, "directory": tmp_path}
    with pytest.raises(InvalidInputError, match="one statistic is compared at a time"):
        compare(counts, [1], 2, measures=asked, **common)
    counts, asked = stream("mean")
    with pytest.raises(InvalidInputError, match="no sums of bins"):
        compare(counts, [1], 2, measures=asked, metric="ranges", **common)
    below = ValueMeasures.of({"sum": {"x": (-5, 5)}})
    with pytest.raises(InvalidInputError, match="below zero"):
        read_public_counts({"t": [0], "x": [-3.0]}, time="t", every=1, value="x", measures=below)
    with pytest.raises(InvalidInputError, match="needs a column"):
        read_public_counts({"t": [0], "x": [-3.0]}, time="t", every=1, measures=below)
