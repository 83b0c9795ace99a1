"""Advice from public streams: the same again, and never from data that were not declared public."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.evaluate.compare import candidates, compare, histogram_variants
from veilstream.evaluate.comparison_picture import draw_comparison
from veilstream.mechanisms.streams import FixedRate
from veilstream.mechanisms.traits import Traits

CALM = np.full((24, 6), 200)
RESTLESS = np.where(np.arange(24)[:, None] % 2, 100_000, 0) * np.ones((1, 6), dtype=np.int64)


def found(counts: Any, place: Path, w: int | None = 12, **more: Any) -> Any:
    settings: dict[str, Any] = {
        "declared_public": True,
        "runs": 2,
        "workers": 1,
        "mechanisms": ["uniform", "sample"],
        "histograms": [],
        **more,
    }
    return compare(counts, ["1/2", 1], w, directory=place, **settings)


def test_data_must_be_declared_public_before_anything_is_kept(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"not declared public.*is itself a leak.*declared_public=True"):
        found(CALM, tmp_path / "out", declared_public=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("counts", "best"), [(CALM, "sample"), (RESTLESS, "uniform")])
def test_calm_streams_want_few_releases_and_restless_ones_many(counts: Any, best: str, tmp_path: Path) -> None:
    advice = found(counts, tmp_path)
    assert advice.recommended == best
    assert advice.ranking.group_by("epsilon", maintain_order=True).first()["mechanism"].to_list() == [best, best]
    assert advice.table.height == 2 * 2 * 2 * 4


def test_the_same_call_measures_nothing_twice(tmp_path: Path) -> None:
    first = found(CALM, tmp_path).table
    assert found(CALM, tmp_path).table.equals(first)
    assert not found(CALM + 1, tmp_path).table.equals(first)


def test_of_equals_the_simpler_is_recommended(tmp_path: Path) -> None:
    """At w = 1 uniform and sample are the same mechanism."""
    assert found(CALM, tmp_path, w=1).recommended == "uniform"


def test_window_sums_are_compared_with_window_sums(tmp_path: Path) -> None:
    advice = found(CALM, tmp_path, w=1, sums=4, mechanisms=None)
    assert set(advice.ranking["mechanism"]) == {
        name for name, kind in vs.STREAMS.items() if Traits.of(kind).window_sums
    }
    # Noise of 4 units at ε = 1/2 is about 4 per bin; sums taken for counts would be hundreds off.
    assert advice.ranking.filter(pl.col("mechanism") == "time-unit")["absolute"].to_numpy().max() < 10


def test_the_best_mechanism_is_tried_with_every_histogram_that_applies(tmp_path: Path) -> None:
    """Equal bins are what grouping is made for: its error is far below that of single bins."""
    level = np.full((12, 32), 300)
    advice = found(level, tmp_path, histograms=None)
    labels = set(advice.ranking["mechanism"])
    assert {"uniform", "sample", "sample histogram=dpcube", "sample histogram=efpa"} <= labels
    assert "sample histogram=gaussian" not in labels
    assert advice.recommended.startswith("sample histogram=")
    assert (
        advice.ranking.row(0, named=True)["absolute"]
        < advice.ranking.filter(pl.col("mechanism") == "sample")["absolute"].to_numpy().min()
    )
    with pytest.raises(InvalidInputError) as refused:
        found(level, tmp_path, histograms=["magic"])
    assert (refused.value.name, refused.value.value) == ("histogram", "magic")
    assert histogram_variants("uniform", vs.STREAMS["uniform"](), [vs.Guarantee(1, w=2)], (2,)) == {}


@pytest.mark.parametrize("epsilons", [["1"], ["1/2", "1", "2"]])
def test_the_picture_shows_the_intervals_of_the_table(
    epsilons: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is drawn is caught on its way: the same ends, so the same Student quantiles."""
    drawn: list[Any] = []

    def bars(axes: Axes, at: Any, mean: Any, ends: Any, label: str, **_: Any) -> None:
        drawn.append((mean - ends[0], mean + ends[1]))
        axes.plot(at, mean, label=label)

    monkeypatch.setattr(Axes, "errorbar", bars)
    monkeypatch.setattr(
        Axes, "barh", lambda _axes, _rows, mean, xerr, **_: drawn.append((mean - xerr[0], mean + xerr[1]))
    )
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda _figure, path, **_: path.write_bytes(b"picture"))
    settings: dict[str, Any] = {"mechanisms": ["uniform", "sample"], "histograms": [], "runs": 3, "workers": 1}
    advice = compare(CALM, epsilons, 12, declared_public=True, directory=tmp_path, **settings)
    draw_comparison(advice, "absolute", tmp_path / "a.png", "calm")
    ends = np.concatenate([np.stack(pair, axis=-1) for pair in drawn])
    # On a logarithmic axis a bar ends a decade below its mean.
    low = pl.max_horizontal("low", pl.col("absolute") / 10) if len(epsilons) > 1 else pl.col("low")
    told = advice.ranking.select(low, "high").to_numpy()
    assert np.allclose(np.sort(ends, axis=0), np.sort(told, axis=0))
    assert ends.shape == (2 * len(epsilons), 2)


def test_candidates_are_all_that_can_run() -> None:
    windows = candidates([vs.Guarantee(1, w=20)], 100, 5)
    assert {name.split()[0] for name in windows} == {
        name
        for name, kind in vs.STREAMS.items()
        if not (Traits.of(kind).window_sums or Traits.of(kind).needs_weights or Traits.of(kind).cumulative)
    }
    assert {m.interval for m in windows.values() if isinstance(m, FixedRate)} == {2, 4, 8, 16}
    users = candidates([vs.Guarantee(1, w=None)], 100, 5)
    assert all(getattr(m, "horizon", 100) == 100 for m in users.values())
    with pytest.raises(InvalidInputError, match="mechanism 'magic'"):
        candidates([vs.Guarantee(1, w=2)], 9, 5, names=["magic"])
    with pytest.raises(InvalidInputError, match="no mechanism that was asked for"):
        candidates([vs.Guarantee(1, w=2)], 9, 5, names=["time-unit"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metric": "luck"}, "metric 'luck'"),
        ({"runs": 0}, "runs 0"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=words):
        found(CALM, tmp_path, **change)


@pytest.mark.parametrize("counts", [[1, 2], [[0.5]], [[-1]], np.zeros((0, 3))])
def test_bad_counts_are_refused(counts: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="counts"):
        found(counts, tmp_path)
