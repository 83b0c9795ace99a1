"""Workloads: the same for the same seed, and with the properties that their papers name."""

from __future__ import annotations

import gzip
import itertools
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from research.workloads import (
    Census,
    First,
    Margin,
    MovingObjects,
    RoadNetwork,
    TaxiGrid,
    Workload,
    Zipf,
    as_array,
    dependent_table,
    random_correlation,
)
from veilstream.errors import InvalidInputError, UnreadableFileError

DATA = Path(os.environ.get("VEILSTREAM_DATA", str(Path(__file__).resolve().parents[3] / "shared" / "data")))
TINY = np.array([400, 300, 200, 100] * 3)


def square() -> RoadNetwork:
    """Four corners, a fast road round and a slow one across, and a road of its own that leads nowhere else."""
    x, y = np.array([0.0, 10, 10, 0, 4, 5]), np.array([0.0, 0, 10, 10, 5, 5])
    start, end = np.array([0, 1, 2, 3, 0, 0, 4]), np.array([1, 2, 3, 0, 2, 2, 5])
    return RoadNetwork(x, y, start, end, np.array([0, 0, 0, 0, 6, 4, 0]))


def taxi_file(folder: Path) -> Path:
    def at(minute: int, second: int = 0) -> datetime:
        return datetime(2008, 2, 2, 16, minute, second)

    rows = [
        (7, at(0), 0.5, 0.5),
        (7, at(0, 30), 1.5, 0.5),
        (9, at(0), 9.0, 9.0),
        (9, at(2), 0.5, 1.5),
        (8, at(3), 1.5, 1.5),
    ]
    path = folder / "taxis.parquet"
    pl.DataFrame(rows, schema=["taxi_id", "time", "lon", "lat"], orient="row").write_parquet(path)
    return path


def made(folder: Path) -> dict[str, Workload]:
    return {
        "census": Census(steps=12, people=500, population=TINY, shape=(3, 4)),
        "census that drifts": Census(steps=12, people=500, population=TINY, shape=(3, 4), drift=1.0),
        "zipf": Zipf(steps=5, bins=50, events=200, churn=0.1),
        "roads": MovingObjects(square(), steps=6, objects=300, side=8, destinations=3),
        "taxis": TaxiGrid(taxi_file(folder), side=2, box=(0, 2, 0, 2), amplify=3),
    }


@pytest.mark.parametrize("name", ["census", "census that drifts", "zipf", "roads", "taxis"])
def test_repeats_with_its_seed_and_counts_are_counts(name: str, tmp_path: Path) -> None:
    workload = made(tmp_path)[name]
    first, again, other = (as_array(workload, seed) for seed in (1, 1, 2))
    assert first.shape == (workload.steps, np.prod(workload.shape))
    assert first.dtype == np.int64
    assert (first >= 0).all()
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.array_equal(as_array(workload, 1, steps=3), first[:3])


@pytest.mark.parametrize("drift", [0.0, 2.0])
def test_census_keeps_its_size_and_never_exceeds_the_population(drift: float) -> None:
    counts = as_array(Census(steps=40, people=600, population=TINY * 2, shape=(3, 4), rate=1.0, drift=drift), 3)
    assert (counts.sum(axis=1) == 600).all()
    assert (counts <= TINY * 2).all()


def test_census_moves_at_ten_speeds_and_the_rate_of_the_paper() -> None:
    census = Census(steps=100, people=20_000, size=100_000, rate=0.5)
    counts = as_array(census, 5)
    moved = np.abs(np.diff(counts, axis=0)).sum(axis=1)
    by_period = np.array([moved[10 * k : 10 * k + 9].mean() for k in range(10)])
    assert by_period.min() == 0
    # Replacing m people moves the bins by about √m, and m differs by a factor of nine among the others.
    assert by_period.max() > 2 * by_period[by_period > 0].min()
    still = as_array(Census(steps=5, people=20_000, size=100_000, rate=0.0), 5)
    assert (still == still[0]).all()


def test_census_drift_moves_the_histogram_where_the_paper_leaves_it_to_chance() -> None:
    def change(drift: float) -> float:
        census = Census(steps=40, periods=4, people=20_000, size=200_000, drift=drift)
        ages = as_array(census, 2).reshape(40, 96, -1).sum(axis=2)
        return float(np.abs(ages[-1] - ages[0]).sum())

    # Chance alone moves 96 ages of about 208 people by some 16 each; the draws are fixed by their seeds.
    assert change(1.0) > 3 * change(0.0)


def test_zipf_has_its_exponent_and_churn_changes_who_is_popular() -> None:
    counts = as_array(Zipf(steps=1, bins=200, events=2_000_000, exponent=1.2), 4)[0]
    ranked = np.sort(counts)[::-1]
    slope = np.polyfit(np.log(np.arange(1, 51)), np.log(ranked[:50]), 1)[0]
    # About 10,000 events or more in each of these bins: the fit's standard error is below 0.002.
    assert slope == pytest.approx(-1.2, abs=0.02)
    for churn, changes in ((0.0, False), (0.5, True)):
        stream = as_array(Zipf(steps=20, bins=50, events=100_000, exponent=1.5, churn=churn), 4)
        assert (len(set(stream.argmax(axis=1).tolist())) > 1) == changes


@pytest.mark.parametrize("margin", list(Margin))
def test_dependent_tables_have_the_dependence_and_the_margin(margin: Margin) -> None:
    wanted = np.array([[1.0, 0.7, -0.4], [0.7, 1.0, 0.0], [-0.4, 0.0, 1.0]])
    table = dependent_table(3, rows=20_000, attributes=3, domain=500, margin=margin, correlation=wanted)
    assert table.min() >= 0
    assert table.max() < 500
    jittered = table + dependent_table(9, rows=20_000, attributes=3, margin="uniform") / 1000
    ranks = jittered.argsort(axis=0).argsort(axis=0)
    seen = 2 * np.sin(np.pi / 6 * np.corrcoef(ranks.T))
    if margin is not Margin.ZIPF:
        # 20,000 rows: standard error of a rank correlation below 0.0075, seven of them.
        assert seen == pytest.approx(wanted, abs=0.053)
    first = np.bincount(table[:, 0], minlength=500) / 20_000
    expected = {Margin.GAUSSIAN: 1 / 62.5 / np.sqrt(2 * np.pi), Margin.UNIFORM: 1 / 500, Margin.ZIPF: 1 / 6.79}
    at = {Margin.GAUSSIAN: slice(245, 255), Margin.UNIFORM: slice(0, 500), Margin.ZIPF: slice(0, 1)}
    assert first[at[margin]].mean() == pytest.approx(expected[margin], rel=0.15)


def test_random_correlations_are_correlations() -> None:
    for attributes in (1, 2, 8, 20):
        matrix = random_correlation(attributes, seed=attributes)
        assert np.diag(matrix) == pytest.approx(np.ones(attributes))
        assert np.linalg.eigvalsh(matrix).min() > 0.01


def test_objects_stay_on_roads_keep_their_number_and_take_the_quickest_way() -> None:
    objects = MovingObjects(square(), steps=40, objects=500, side=8, destinations=4, top_speed=0.1)
    for x, y in objects.positions(7):
        assert x.size == 500
        round_it = (np.isclose(x, 0) | np.isclose(x, 10)) | (np.isclose(y, 0) | np.isclose(y, 10))
        # Diagonals take 57 steps and more, the way round 20; the road at (4, 5) is cut off: nobody is on any of them.
        assert round_it.all()
    assert (as_array(objects, 7).sum(axis=1) == 500).all()


def test_objects_move_no_faster_than_the_fastest_road() -> None:
    objects = MovingObjects(square(), steps=30, objects=200, side=8, destinations=4, top_speed=0.05)
    path = list(objects.positions(1))
    moved = [np.hypot(a[0] - b[0], a[1] - b[1]) for a, b in itertools.pairwise(path)]
    # 0.05 of a map of 10 is half a unit a step; those who arrived begin anew elsewhere, the rest obeys.
    fast = np.stack(moved) > 0.5 + 1e-9
    assert fast.mean() < 0.1


def test_parallel_roads_count_by_the_quickest() -> None:
    times = square().travel_times(0.1)
    assert times[0, 2] == times[2, 0] == pytest.approx(np.sqrt(200) / (1.0 * 2**-2))


def test_a_network_is_read_from_files(tmp_path: Path) -> None:
    nodes, edges = tmp_path / "nodes.csv.gz", tmp_path / "edges.csv"
    with gzip.open(nodes, "wt") as file:
        file.write("node_id,x,y\n9,0,0\n4,3,4\n")
    edges.write_text("edge_id,node_a,node_b,road_class\n1,9,4,0\n")
    network = RoadNetwork.read(nodes, edges)
    assert (network.start.tolist(), network.end.tolist(), network.extent) == ([0], [1], 4.0)
    edges.write_text("edge_id,node_a,node_b,road_class\n1,9,5,0\n")
    with pytest.raises(UnreadableFileError, match="lacks"):
        RoadNetwork.read(nodes, edges)
    with pytest.raises(UnreadableFileError, match="are needed"):
        RoadNetwork.read(tmp_path / "none.csv", edges)


def test_taxis_count_where_they_were_last_seen(tmp_path: Path) -> None:
    workload = TaxiGrid(taxi_file(tmp_path), side=2, box=(0, 2, 0, 2))
    # Cells: row of latitude, column of longitude. Taxi 7 moves within minute 0, 9 is outside until 2, 8 comes at 3.
    assert as_array(workload, 1).tolist() == [[0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    assert workload.steps == 4
    with pytest.raises(UnreadableFileError, match="not a Parquet file"):
        as_array(TaxiGrid(tmp_path / "none.parquet"), 1)


@pytest.mark.skipif(not (DATA / "oldenburg_nodes.csv.gz").exists(), reason="the Oldenburg map is not there")
def test_oldenburg_is_driven() -> None:
    network = RoadNetwork.read(DATA / "oldenburg_nodes.csv.gz", DATA / "oldenburg_edges.csv.gz")
    counts = as_array(MovingObjects(network, steps=4, objects=20_000, side=64, destinations=32), 1)
    assert (network.x.size, network.start.size) == (6105, 7035)
    assert (counts.sum(axis=1) == 20_000).all()
    assert 0 < np.abs(counts[1] - counts[0]).sum() < 20_000


@pytest.mark.skipif(not (DATA / "tdrive_beijing_2008-02-02_16h.parquet").exists(), reason="T-Drive is not there")
def test_real_taxis_fill_a_grid() -> None:
    counts = as_array(TaxiGrid(DATA / "tdrive_beijing_2008-02-02_16h.parquet", every="5m"), 1, steps=12)
    assert counts.shape == (12, 100)
    assert counts[0].sum() < counts[-1].sum() < 10_357


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Census(rate=2), "rate 2"),
        (lambda: Census(people=2_000_000), "at least twice"),
        (lambda: Census(shape=(2, 2)), "without a population"),
        (lambda: Census(people=10, population=TINY, shape=(5, 5)), "25 are needed"),
        (lambda: Zipf(churn=1.5), "churn"),
        (lambda: Zipf(bins=0), "bins 0"),
        (lambda: MovingObjects(square(), top_speed=0), "top_speed 0"),
        (lambda: MovingObjects(square(), objects=0), "objects 0"),
        (lambda: TaxiGrid(Path("x"), box=(1, 0, 0, 1)), "west < east"),
        (lambda: dependent_table(1, rows=0), "rows 0"),
    ],
)
def test_bad_parameters_are_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        make()


def test_the_first_steps_are_those_of_the_whole() -> None:
    whole = Zipf(steps=6, bins=4)
    part = First(whole, 2)
    assert part.shape == (4,)
    assert np.array_equal(as_array(part, 3), as_array(whole, 3)[:2])
    with pytest.raises(InvalidInputError, match="steps 0"):
        First(whole, 0)
