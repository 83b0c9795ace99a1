"""No derived sensitivity is ever exceeded by neighbouring streams, and nothing but the Meter opens a seal."""

from __future__ import annotations

import copy
import math
import pickle  # noqa: TID251 (to show that it is refused)
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError, SealedAccessError
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.counts import Sealed, seal
from veilstream.trusted.grids import PIECE
from veilstream.trusted.opening import open_counts, open_scores
from veilstream.trusted.spectrum import fourier_slack, reliable_norm
from veilstream.trusted.statistics import cutoff_scores, quantile_scores

STEPS, BINS = 4, 8
Stream = NDArray[np.int64]


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Stream, Stream, int, int]:
    """Two streams that differ by what one person does within w steps, at most l1 counts a step."""
    l1 = draw(st.integers(1, 3))
    w = draw(st.integers(1, STEPS))
    begin = draw(st.integers(0, STEPS - w))
    base = np.array(draw(st.lists(st.integers(0, 9), min_size=STEPS * BINS, max_size=STEPS * BINS)))
    extra = np.zeros((STEPS, BINS), dtype=np.int64)
    for t in range(begin, begin + w):
        for b in draw(st.lists(st.integers(0, BINS - 1), max_size=l1)):
            extra[t, b] += 1
    stream = base.reshape(STEPS, BINS)
    return stream, stream + extra, l1, w


def _table(x: Sealed) -> Sealed:
    """Six of the bins as a table of 2 × 3."""
    return seal(open_counts(x)[:6], x.span.first, int(x.l1), (2, 3))


groups = np.array([0, 0, 1, 1, 2, -1, 2, 0])
public_whole = np.array([3, 1, 4, 1, 5, 9, 2, 6])
public_real = np.array([0.3, 1.7, 4.01, 1.2, 5.5, 9.9, 2.1, 6.6])
PIPELINES: dict[str, Callable[[list[Sealed]], Sealed]] = {
    "itself": lambda xs: xs[0],
    "twice": lambda xs: xs[0] + xs[0],
    "over time": lambda xs: xs[0] + xs[1] + xs[2],
    "overlapping sums": lambda xs: (xs[0] + xs[1]) + (xs[1] + xs[2]),
    "selection": lambda xs: xs[2].select([1, 3, 5]),
    "groups": lambda xs: xs[1].sums(groups, 3),
    "as many groups as bins": lambda xs: xs[1].fourier().sums(np.zeros(BINS, dtype=np.int64), BINS),
    "total": lambda xs: xs[1].total(),
    "distance": lambda xs: xs[0].distance(public_whole),
    "distance to reals": lambda xs: xs[0].distance(public_real),
    "distances of runs": lambda xs: xs[0].distances(public_whole, np.array([0, 1, 4])),
    "distances of runs of a sum": lambda xs: (xs[0] + xs[1]).distances(public_real, np.array([0, 3])),
    "minus": lambda xs: (xs[0] + xs[3]).minus(public_real),
    "haar": lambda xs: (xs[0] + xs[1]).haar(),
    "haar, padded": lambda xs: xs[1].select([0, 2, 3, 5, 7]).haar(),
    "haar of a table": lambda xs: _table(xs[0]).haar(),
    "haar along one axis": lambda xs: _table(xs[0]).haar([1]),
    "walsh": lambda xs: xs[0].walsh(np.array([0, 3, 5])),
    "walsh of a sum": lambda xs: (xs[0] + xs[1]).walsh(np.arange(BINS)),
    "fourier": lambda xs: xs[0].fourier(),
    "fourier of a sum": lambda xs: (xs[0] + xs[1]).fourier().select([0, 2, 3]),
    "fourier, then distance": lambda xs: xs[0].fourier().distance(public_real),
    "without": lambda xs: (xs[0] + xs[1]).without([1, 4, 7]),
    "split_pending, groups": lambda xs: (xs[0].with_starts() + xs[1]).split_pending(xs[2], [0, 4, 6], [1, 7], [2])[0],
    "split_pending, alone": lambda xs: (xs[0].with_starts() + xs[1]).split_pending(xs[2], [0, 4, 6], [1, 7], [2, 3])[1],
    "split_pending, rest": lambda xs: (
        (xs[0].with_starts() + xs[1]).split_pending(xs[2], [0, 4], [1, 7], [2])[2] + xs[3]
    ),
    "split_pending, all apart": lambda xs: xs[0].split_pending(xs[1] + xs[2], [], np.arange(BINS), [])[0],
    "pending": lambda xs: (xs[0].with_starts() + xs[1]).restarted(np.arange(BINS) < 3) + xs[2],
}


@pytest.mark.parametrize("name", PIPELINES)
@settings(max_examples=60, deadline=None)
@given(pair=neighbours())
def test_no_derived_sensitivity_is_exceeded(name: str, pair: tuple[Stream, Stream, int, int]) -> None:
    one, other, l1, w = pair
    results = [PIPELINES[name]([seal(counts, t, l1) for t, counts in enumerate(stream)]) for stream in (one, other)]
    a, b = results
    assert (a.l1, a.l2, a.span, a.grid) == (b.l1, b.l2, b.span, b.grid)
    moved = (open_counts(a) - open_counts(b)) / 2.0**a.grid
    times = Guarantee(1, w=w).steps_at_once(a.span.steps)
    assert np.abs(moved).sum() <= float(a.l1) * times * (1 + 1e-12)
    assert np.sqrt((moved**2).sum()) <= float(a.l2) * times * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(pair=neighbours(), q=st.sampled_from(["1/2", "1/4", "9/10"]))
def test_quantile_scores_are_lipschitz(pair: tuple[Stream, Stream, int, int], q: str) -> None:
    one, other, l1, _ = pair
    for t in range(STEPS):
        a, b = (quantile_scores(seal(stream[t], t, l1), q) for stream in (one, other))
        assert np.abs(open_scores(a) - open_scores(b)).max() <= a.sensitivity


def test_fourier_is_an_isometry_and_haar_is_invertible_by_hand() -> None:
    x = np.array([5, 0, 2, 9, 1, 1, 0, 4])
    assert np.sqrt((open_counts(seal(x, 0).fourier()) / 2.0**20) ** 2).shape == (8,)
    norm = np.sqrt(((open_counts(seal(x, 0).fourier()) / 2.0**20) ** 2).sum())
    assert norm == pytest.approx(np.sqrt((x**2).sum()), abs=1e-4)
    assert open_counts(seal(x, 0).haar()).tolist() == [22, 10, -6, -2, 5, -7, 0, -4]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100, 101])
def test_fourier_keeps_norms_at_any_size(size: int) -> None:
    x = np.arange(size) ** 2 % 17
    norm = np.sqrt(((open_counts(seal(x, 0).fourier()) / 2.0**20) ** 2).sum())
    assert norm == pytest.approx(np.sqrt((x**2).sum()), abs=1e-4)


READS: dict[str, Callable[[Any], object]] = {
    "array": np.asarray,
    "list": list,
    "len": len,
    "index": lambda x: x[0],
    "bool": bool,
    "float": float,
    "int": int,
    "compare": lambda x: x > 3,
    "pickle": pickle.dumps,
    "copy": copy.deepcopy,
    "sum": sum,
    "ufunc": lambda x: np.add(x, 1),
}


@pytest.mark.parametrize("name", READS)
def test_ordinary_reading_is_refused(name: str) -> None:
    with pytest.raises(SealedAccessError, match="cannot be read"):
        READS[name](seal(np.array([1, 2, 3]), 0))


def test_a_seal_does_not_print_its_values() -> None:
    secret = seal(np.array([123456789]), 0)
    assert "123456789" not in f"{secret!r} {secret}"
    assert not hasattr(secret, "__dict__")


def test_misuse_gets_clear_errors() -> None:
    x = seal(np.array([1, 2, 3]), 0)
    with pytest.raises(InvalidInputError, match="3 and 2 values"):
        _ = x + seal(np.array([1, 2]), 0)
    with pytest.raises(InvalidInputError, match="twice"):
        x.select([0, 0])
    with pytest.raises(InvalidInputError, match="distinct and from 0 to 3"):
        x.walsh(np.array([1, 1]))
    with pytest.raises(InvalidInputError, match="groups"):
        x.sums(np.array([0, 1, 5]), 2)


@given(
    counts=st.lists(st.sampled_from([0, 1, 5, 2**32, 2**33 - 1, 2**33, 2**40, 2**61]), min_size=1, max_size=30),
    places=st.lists(st.integers(0, 29), min_size=1, max_size=3),
)
@settings(max_examples=300, deadline=None)
def test_fourier_takes_any_counts_and_keeps_its_bound(counts: list[int], places: list[int]) -> None:
    """No error depends on the data: beyond a public norm a vector is shrunk, which brings neighbours no further."""
    one = np.array(counts, dtype=np.int64)
    other = one.copy()
    for place in places:
        other[place % one.size] += 1
    a, b = (seal(x, 0, max_contribution=3).fourier() for x in (one, other))
    moved = np.linalg.norm((open_counts(a) - open_counts(b)) / 2.0**20)
    assert a.l2 == b.l2 < 3 + Fraction(1, 100)
    assert moved <= a.l2
    assert np.linalg.norm(open_counts(a) / 2.0**20) <= 2.0**33 + 1


def test_a_histogram_has_bins() -> None:
    with pytest.raises(InvalidInputError, match="0 bins"):
        seal(np.zeros(0, dtype=np.int64), 0)


def test_fourier_shrinks_large_counts_in_proportion_and_leaves_others_alone() -> None:
    large = seal(np.array([2**40, 2**39, 0, 0, 2**38]), 0).fourier()
    smaller = seal(np.array([2**30, 2**29, 0, 0, 2**28]), 0).fourier()
    ratio = open_counts(large) / open_counts(smaller)
    assert ratio == pytest.approx(np.full(5, 2.0**3 / np.sqrt(1 + 1 / 4 + 1 / 16)), rel=1e-9)
    exact = np.array([2**33, 0, 0, 0])
    assert open_counts(seal(exact, 0).fourier())[0] == 2**32 * 2**20


def test_sums_over_time_take_the_maximum_only_when_apart() -> None:
    a, b = seal(np.array([1, 1]), 0, max_contribution=2), seal(np.array([1, 1]), 1, max_contribution=3)
    assert (a + b).l1 == 3
    assert ((a + b) + b).l1 == 6
    assert a.total().l1 == Fraction(2)


@pytest.mark.parametrize("size", [1, PIECE - 1, PIECE, 2 * PIECE + 7])
@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_distances_add_up_piece_by_piece(size: int, kind: type[Any]) -> None:
    """Long vectors are compared in pieces; a public real at the very end still moves all to the finer grid."""
    counts = np.arange(size, dtype=np.int64) % 97
    public = (counts[::-1] * 3).astype(kind)
    if kind is np.float64:
        public[-1] += 0.25
    exact = float(np.abs(counts - public).sum())
    x = seal(counts, 0)
    for sealed in (x.distance(public), x.distances(public, np.array([0]))):
        assert open_counts(sealed).tolist() == [exact * 2**sealed.grid]
        assert sealed.grid == (8 if kind is np.float64 else 0)
    runs = np.arange(0, size, 1 + size // 5)
    assert open_counts(x.distances(public, runs)).sum() == open_counts(x.distance(public))[0]


def test_distances_to_the_releases_of_many_runs_are_those_of_each() -> None:
    x, starts = seal(np.array([4, 0, 9, 2, 7]), 0), np.array([0, 2])
    for public in (np.arange(15).reshape(3, 5), np.arange(15).reshape(3, 5) / 4):
        together = x.distances(public, starts)
        assert len(public) > 0
        for row, exact in zip(public, open_counts(together), strict=True):
            alone = x.distances(row, starts)
            assert (open_counts(alone) << (together.grid - alone.grid)).tolist() == exact.tolist()


@pytest.mark.parametrize("starts", [[], [1], [0, 2, 2], [0, 3, 1], [0, 9]], ids=str)
def test_runs_that_do_not_cover_the_values_once_are_refused(starts: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="runs"):
        seal(np.arange(5), 0).distances(np.zeros(5), np.array(starts, dtype=np.int64))


def test_a_value_that_reads_many_bins_is_charged_to_all_of_them() -> None:
    """At event level a charge may name bins; picking a sum or a coordinate must not shrink the list of names."""
    x = seal(np.arange(6), 0)
    assert x.sums(np.array([0, 0, 0, 1, 1, 1]), 2).select([0]).bins is None
    for derived in (x.fourier(), x.haar(), x.walsh(np.array([0, 3])), x.distances(np.zeros(6), np.array([0, 2]))):
        assert derived.select([1]).bins is None
    part = x.select([2, 4])
    for derived in (part.fourier(), part.sums(np.array([1, 0]), 2), part.total(), part.haar()):
        assert _names(derived.select([0])) == [2, 4]
    assert _names(part.minus(np.array([1, 1])).select([1])) == [4]
    assert _names((x + seal(np.arange(6), 1)).with_starts().select([5])) == [5]
    assert (part + x.select([3, 5])).select([0]).bins is None


def _names(x: Sealed) -> list[int] | None:
    positions = Charge(Fraction(1), x.span, "any", bins=x.bins).positions
    return None if positions is None else positions.tolist()


def test_bins_are_restarted_by_mask_or_by_position() -> None:
    x = seal(np.arange(6), 0).with_starts() + seal(np.arange(6), 1)
    by_mask, by_position = x.restarted(np.arange(6) % 2 == 1), x.restarted(np.array([5, 1, 3]))
    assert by_mask.starts is not None
    assert by_position.starts is not None
    assert by_mask.starts.tolist() == by_position.starts.tolist() == [0, 2, 0, 2, 0, 2]
    later = seal(np.ones(6, dtype=np.int64), 2)
    both = [(cleared + later).starts for cleared in (by_mask, by_position)]
    assert [since.tolist() for since in both if since is not None] == [[0, 2, 0, 2, 0, 2]] * 2
    assert open_counts(by_mask).tolist() == open_counts(by_position).tolist() == [0, 0, 4, 0, 8, 0]


def test_split_values_know_their_bins_and_where_each_begins() -> None:
    waiting = (seal(np.arange(1, 6), 0).with_starts() + seal(np.arange(10, 60, 10), 1)).restarted(np.array([3]))
    groups, alone, rest = waiting.split_pending(
        seal(np.arange(100, 600, 100), 2), summed=[0, 3], separate=[2], single=[4]
    )
    assert [open_counts(x).tolist() for x in (groups, alone, rest)] == [
        [33, 111, 400, 300],
        [555],
        [0, 222, 0, 0, 0],
    ]
    assert [_names(x) for x in (groups, alone, rest)] == [[2, 0, 3], [4], None]
    begins = [x.starts.tolist() for x in (groups, alone, rest) if x.starts is not None]
    assert begins == [[0, 0, 2], [0], [3, 0, 3, 3, 3]]
    assert {int(x.l1) for x in (groups, alone, rest)} == {1}
    assert open_counts(waiting).tolist() == [11, 22, 33, 0, 55]


def test_split_values_of_many_runs_go_together() -> None:
    """In a simulation a vector holds a row for every run."""
    rows = np.arange(8).reshape(2, 4)
    waiting = Sealed(rows, Span(0, 0), Fraction(1), aligned=True)
    later = Sealed(10 * rows, Span(1, 1), Fraction(1), aligned=True)
    groups, alone, rest = waiting.split_pending(later, [1], [0], [3])
    assert open_counts(groups).tolist() == [[0, 11, 0], [4, 55, 40]]
    assert open_counts(alone).tolist() == [[33], [77]]
    assert open_counts(rest).tolist() == [[0, 0, 22, 0], [0, 0, 66, 0]]
    assert open_counts(waiting.without([1])).tolist() == [[0, 0, 2, 3], [4, 0, 6, 7]]


@pytest.mark.parametrize(
    ("later", "positions"),
    [
        (seal(np.full(4, 1), 1), ([0], [1], [2])),
        (seal(np.full(4, 1), 2), ([0, 1], [1], [])),
        (seal(np.full(4, 1), 2), ([0], [1], [1])),
        (seal(np.full(4, 1), 2).total(), ([0], [], [])),
        (seal(np.full(4, 1), 2).select([0, 1, 2, 3]), ([0], [], [])),
    ],
    ids=["spans touch", "two groups", "in a group and alone", "a sum", "a part"],
)
def test_what_would_be_split_twice_is_refused(later: Sealed, positions: tuple[list[int], list[int], list[int]]) -> None:
    waiting = seal(np.arange(4), 0).with_starts() + seal(np.arange(4), 1)
    with pytest.raises(InvalidInputError, match=r"split_pending: .*nothing was released"):
        waiting.split_pending(later, *positions)
    with pytest.raises(InvalidInputError, match="occurs twice"):
        waiting.split_pending(seal(np.full(4, 1), 2), [0, 0], [1], [])


@pytest.mark.parametrize("t", [0, (1 << 31) - 3, 1 << 40, -(1 << 40)])
def test_spans_begin_where_they_do_at_any_time(t: int) -> None:
    x = seal(np.array([1, 2]), t).with_starts()
    for step in range(1, 4):
        x = (x + seal(np.array([1, 2]), t + step)).restarted(np.array([0]))
        assert x.starts is not None
        assert x.starts.tolist() == [t + step + 1, t]


def test_values_without_some_name_the_bins_that_were_read() -> None:
    x = seal(np.array([1, 2, 3]), 0)
    rest = x.without([1])
    assert open_counts(rest).tolist() == [1, 0, 3]
    assert _names(rest) == [0, 2]
    assert _names(x.select([0, 2]).without([0])) == [2]
    assert x.total().without([0]).bins is None
    with pytest.raises(InvalidInputError, match="occurs twice"):
        x.without([1, 1])


@settings(max_examples=200, deadline=None)
@given(
    labels=st.lists(st.integers(0, 3), min_size=4, max_size=12),
    contribution=st.integers(1, 4),
    data=st.data(),
)
def test_answers_about_several_parts_lose_no_more_than_one_about_all(
    labels: list[int], contribution: int, data: st.DataObject
) -> None:
    """Named parts are charged in parallel: what a unit can move in each, slack included, is shared among them."""
    groups = np.array(labels)
    counts = np.array(data.draw(st.lists(st.integers(0, 50), min_size=groups.size, max_size=groups.size)))
    moved = np.zeros(groups.size, dtype=np.int64)
    for place in data.draw(st.lists(st.integers(0, groups.size - 1), max_size=contribution)):
        moved[place] += 1
    lost, bound = 0.0, Fraction(0)
    for label in np.unique(groups).tolist():
        bins = np.flatnonzero(groups == label)
        one, other = (
            seal(x, 0, max_contribution=contribution).select(bins).fourier() for x in (counts, counts + moved)
        )
        change = open_counts(one) - open_counts(other)
        lost += float(np.linalg.norm(change / 2.0**20)) / float(one.l2)
        touched = int(moved[bins].sum())
        # What the proof allows each part: its counts and, if it is touched at all, all of the slack.
        bound += (touched + (touched > 0) * fourier_slack(bins.size)) / one.l2
        kept = np.arange(1, bins.size + 1)
        scores = [cutoff_scores(x, kept, Fraction(1)) for x in (one, other)]
        assert scores[0].sensitivity == one.l2 * (1 << 20) + contribution
    assert bound <= 1
    assert lost <= 1


def test_a_norm_near_the_limit_is_known_to_four_units() -> None:
    """By whole numbers: in 2²⁰ bins a sum of squares in floating point may be off by 2²⁰ units of itself."""
    rng = np.random.default_rng(1)  # noqa: TID251 (data)
    for values in (np.full(1 << 20, (1 << 23) + 1), rng.integers(1, 1 << 24, 1 << 18), np.arange(1, 1 << 18) << 7):
        squared = int(sum(v * v for v in values.tolist()))
        exact = Fraction(math.isqrt(squared << 200), 1 << 100)
        found = Fraction(reliable_norm(values.astype(np.float64)))
        if exact >= 2**33:
            assert abs(found / exact - 1) <= Fraction(4, 1 << 53)
        else:
            assert found < 2**33
    assert reliable_norm(np.full(1 << 20, float((1 << 23) - 1))) < 2**33
