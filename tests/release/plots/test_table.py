"""Tables become arrays without losing a value, and long series become envelopes that hide no extreme."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from veilstream.errors import InvalidInputError
from veilstream.release.plot_options import PlotOptions
from veilstream.release.plots.labels import bin_names
from veilstream.release.plots.style import tick_name
from veilstream.release.plots.table import arrange, bucket_length, choose, envelope

from .support import table


def test_values_land_at_their_bin_and_step_whatever_the_order_of_rows() -> None:
    values = np.arange(12.0).reshape(4, 3)
    frame = table(values, ["a", "b", "c"])
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=3)
    released = arrange(shuffled)
    order = [released.names.index(name) for name in "abc"]
    assert np.array_equal(released.value[order], values.T)
    assert np.array_equal(released.high[order], values.T + 5)
    assert released.zone == "UTC"
    assert np.diff(released.times).tolist() == [3_600_000_000] * 4


def test_the_largest_bins_are_chosen_or_those_that_were_named() -> None:
    released = arrange(table(np.array([[5.0, 1.0, 9.0]]), ["a", "b", "c"]))
    assert choose(released, None, 2).names == ["a", "c"]
    assert choose(released, ("b",), 2).names == ["b"]
    assert choose(released, None, 2).all_bins == 3
    with pytest.raises(InvalidInputError) as refused:
        choose(released, ("bb",), 2)
    assert (refused.value.name, refused.value.value) == ("bins", "bb")


def test_time_is_cut_with_the_end_excluded() -> None:
    frame = table(np.arange(48.0)[:, None])
    assert arrange(frame, start="2024-01-02", end="2024-01-02T06:00").value.tolist() == [[24, 25, 26, 27, 28, 29]]
    assert arrange(table(np.arange(9.0)[:, None], hours=False), start=3, end="5").value.tolist() == [[3, 4]]
    with pytest.raises(InvalidInputError) as refused:
        arrange(frame, start="yesterday")
    assert refused.value.name == "start"
    with pytest.raises(InvalidInputError, match="widen the range"):
        arrange(frame, start="2025-01-01")


@pytest.mark.parametrize(("steps", "hours", "length"), [(300, True, 1), (17_544, True, 48), (2_880, False, 10)])
def test_buckets_are_round_amounts_of_time(steps: int, hours: bool, length: int) -> None:
    released = arrange(table(np.zeros((steps, 1)), hours=hours))
    assert bucket_length(released, 400) == length


def test_an_envelope_keeps_means_and_extremes() -> None:
    values = np.zeros((1000, 1))
    values[777] = 500.0
    values[3] = -40.0
    parts = envelope(arrange(table(values)), 24)
    assert parts.most.max() == 500
    assert parts.least.min() == -40
    weights = np.append(np.full(41, 24), 16)
    assert parts.mean.value[0] @ weights == pytest.approx(values.sum())
    assert parts.mean.times[-1] == arrange(table(values)).times[-1]


def test_intervals_are_rounded_by_their_own_width() -> None:
    names = bin_names(pl.DataFrame({"lon": ["[116.126666666667, 116.153333333333)", "[116.153333333333, 116.18]"]}))
    assert names == ["116.127 to 116.153", "116.153 to 116.180"]
    assert bin_names(pl.DataFrame({"age": ["[0, 18)", "unknown"]})) == ["[0, 18)", "unknown"]
    assert tick_name(0.0, [0.0, 0.5]) == "0"
    assert tick_name(12_500.0, [10_000.0, 12_500.0]) == "12,500"


@pytest.mark.parametrize(
    ("name", "value"), [("kind", "pie"), ("bins", 0), ("size", (0.0, 5.0)), ("value_range", (2.0, 1.0))]
)
def test_absurd_options_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError) as refused:
        PlotOptions(**{name: value})  # type: ignore[arg-type]
    assert (refused.value.name, refused.value.value) == (name, value)
    assert "nothing was drawn" in str(refused.value)
