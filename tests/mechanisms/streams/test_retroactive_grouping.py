"""Each (bin, unit) is spent once for monitoring and once for publication, and the windows are what they claim to be."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import veilstream as vs
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.protocols import accountant_for
from veilstream.mechanisms.streams import RetroactiveGrouping
from veilstream.mechanisms.streams.window_sums import WindowSums
from veilstream.noise import ExactSampler
from veilstream.noise.spread import laplace_std
from veilstream.privacy.charge import Charge
from veilstream.privacy.windows import fullest_window
from veilstream.storage.codec import encode
from veilstream.testing.checks import check_stream
from veilstream.testing.fakes import NoNoise
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

PRINTED = RetroactiveGrouping(revise=False, monitor="1/10", factor=2, tail=1)
EVENT = vs.Guarantee("1/10", w=1)


def walk(
    mechanism: RetroactiveGrouping, guarantee: vs.Guarantee, counts: NDArray[np.int64], noise: Any
) -> tuple[NDArray[np.float64], list[Charge], Any]:
    accountant, state = (
        accountant_for(mechanism, guarantee, counts.shape[1]),
        mechanism.start(guarantee, counts.shape[1]),
    )
    released: list[NDArray[Any]] = []
    charges: list[Charge] = []
    for t, now in enumerate(counts):
        meter = Meter(accountant, noise, t)
        state, values = mechanism.step(state, seal(now, t), meter)
        released.append(values.numbers)
        charges.extend(meter.charges)
    return np.array(released), charges, state


def times_read(charges: Iterable[Charge], shape: tuple[int, int], purposes: set[str]) -> NDArray[np.int64]:
    """How often each (unit, bin) was read for one of ``purposes``."""
    reads = np.zeros(shape, dtype=np.int64)
    for charge in charges:
        if charge.purpose in purposes:
            bins = np.arange(shape[1]) if charge.positions is None else charge.positions
            first = np.full(bins.size, charge.span.first) if charge.starts is None else charge.starts
            for b, begin in zip(bins, first, strict=True):
                reads[begin : charge.span.last + 1, b] += 1
    return reads


def test_example_2_of_the_paper_step_by_step() -> None:
    """5 and 75 alone; 74 waits; 73 with it, as 73.5; three units wait; the fourth with them, as 74.5."""
    counts = np.array([5, 75, 74, 73, 74, 75, 74, 75])[:, None]
    units = RetroactiveGrouping(window=1, revise=False, monitor="1/10", factor=2, tail=1)
    released, charges, _ = walk(units, EVENT, counts, NoNoise())
    assert released[:, 0].tolist() == [5, 75, 75, 73.5, 73.5, 73.5, 73.5, 74.5]
    published = [(c.span.first, c.span.last, c.epsilon) for c in charges if c.purpose != "monitor"]
    assert [(first, last) for first, last, _ in published] == [(0, 0), (1, 1), (2, 3), (4, 7)]
    watched = [c.span.first for c in charges if c.purpose == "monitor"]
    assert watched == [1, 2, 3, 4, 5, 6, 7]
    assert all(c.epsilon == published[0][2] for c in charges if c.purpose != "monitor")
    windows, _, _ = walk(
        RetroactiveGrouping(window=4, revise=False, monitor="1/10", factor=2, tail=1), EVENT, counts, NoNoise()
    )
    assert windows[:, 0].tolist() == [5, 80, 155, 228.5, 297, 295.5, 294, 295]


def test_a_published_sum_corrects_the_guesses_in_later_windows() -> None:
    """Without noise: a slow climb is guessed while units wait and exact once their group is published."""
    counts = (np.arange(60) // 4)[:, None] + 100
    released, charges, _ = walk(RetroactiveGrouping(window=60), vs.Guarantee("1/10", w=1), counts, NoNoise())
    exact = np.cumsum(counts[:, 0])
    groups = [c for c in charges if c.purpose == "group"]
    assert groups[0].span.steps == 2
    assert max(c.span.steps for c in groups) > 4
    for charge in groups:
        assert released[charge.span.last, 0] == exact[charge.span.last]


@pytest.mark.parametrize("sampling", [1, "3/4"])
@pytest.mark.parametrize("revise", [True, False])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 30), jump=st.sampled_from([0, 3, 30, 1000]))
def test_groups_never_overlap(revise: bool, sampling: str | int, seed: int, jump: int) -> None:
    mechanism = RetroactiveGrouping(window=4, revise=revise, sampling=sampling, tail="1/10")
    noise = ExactSampler(SeededSource(seed))
    shape = (45, 6)
    level = np.arange(shape[0])[:, None] // (7 + np.arange(shape[1]) * 3) * jump
    _, charges, state = walk(mechanism, vs.Guarantee(1, w=1), level + 20, noise)
    watched, published = (times_read(charges, shape, p) for p in ({"monitor"}, {"group", "unit"}))
    assert watched.max() <= 1
    assert published.max() == 1
    if revise:
        waiting = np.arange(shape[0])[:, None] >= state.pending.starts
        assert (published == ~waiting).all()


def corrected_error(units: int, window: int, epsilon_2: float) -> float:
    """Mean squared error per bin of the printed algorithm on a constant stream on which its monitor never fires.

    A release of a group of m has variance 2/(m·ε₂)² (a little less on whole numbers) and stands for all units until the
    next, so that the k of them inside a window contribute k² of it.
    """
    at, size = [0], [1]
    while at[-1] + 2 * size[-1] < units:
        at.append(at[-1] + 2 * size[-1])
        size.append(2 * size[-1])
    ends = [*at[1:], units]
    variance = laplace_std(1 / epsilon_2) ** 2
    total = 0.0
    for t in range(units):
        for begin, end, m in zip(at, ends, size, strict=True):
            inside = max(0, min(end, t + 1) - max(begin, t + 1 - window))
            total += inside**2 * variance / m**2
    return total / units


@pytest.mark.parametrize(("units", "known"), [(63, 869), (500, 122)])
def test_error_on_a_constant_stream_is_the_corrected_formula(units: int, known: int) -> None:
    """Means over independent bins within 5.5 of their deviations: false alarm below 1e-6."""
    expected = corrected_error(units, 15, 0.09)
    assert expected == pytest.approx(known, rel=0.01)
    never = RetroactiveGrouping(revise=False, monitor="1/10", factor=2, tail="1e-30")
    bins = 4000 if units == 63 else 1500
    y = np.asarray(vs.simulate(never, EVENT, np.full((units, bins), 30), seed=5))
    truth = 30 * np.minimum(np.arange(units) + 1, 15)[:, None]
    each = ((y - truth) ** 2).mean(axis=0)
    assert abs(each.mean() - expected) < 5.5 * each.std() / math.sqrt(bins)


CLOSING = st.sampled_from(["not", "now", "before"])


@settings(max_examples=100, deadline=None)
@given(
    window=st.integers(1, 6),
    history=st.lists(st.tuples(CLOSING, CLOSING, st.integers(-9, 9)), min_size=1, max_size=40),
)
def test_window_sums_equal_those_of_a_list_of_units(window: int, history: list[tuple[str, str, int]]) -> None:
    sums = WindowSums.start(window, 2)
    units: list[list[float]] = [[], []]
    noises: list[list[dict[int, float]]] = [[], []]
    last: list[tuple[int, int]] = [(0, 1), (0, 1)]
    blocks = 0
    for row in history:
        sums = sums.copy()
        sums.extend()
        for b in (0, 1):
            units[b].append(float("nan"))
            noises[b].append({})
            closing = "now" if len(units[b]) == 1 else row[b]
            if closing == "now" or (closing == "before" and sums.open_units[b] > 1):
                blocks += 1
                total, newest = np.array([float(row[2])]), closing == "now"
                size = int(sums.close(np.array([b]), total, float(blocks), newest)[0])
                sums.believe(np.array([b]), total / size, size, blocks / size**2)
                end = len(units[b]) - (0 if newest else 1)
                units[b][end - size : end] = [row[2] / size] * size
                noises[b][end - size : end] = [{blocks: 1 / size}] * size
                last[b] = blocks, size
        numbers, std = sums.total()
        for b in (0, 1):
            number, size = last[b]
            shares: dict[int, float] = {}
            expected = 0.0
            for value, noise in zip(units[b][-window:], noises[b][-window:], strict=True):
                expected += float(sums.guess[b]) if math.isnan(value) else value
                for block, share in (noise or {number: 1 / size}).items():
                    shares[block] = shares.get(block, 0.0) + share
            assert numbers[b] == pytest.approx(expected, abs=window / 512)
            exact = sum(block * s**2 for block, s in shares.items())
            assert exact * (1 - 1e-6) <= std[b] ** 2 <= exact * 1.04


def test_long_blocks_and_long_waits_have_their_variance() -> None:
    """Squares of lengths that two bytes do not hold."""
    sums, bin_0 = WindowSums.start(400, 1), np.array([0])

    def after(units: int, total: int | None = None, variance: float = 0.0) -> tuple[float, float]:
        nonlocal sums
        for unit in range(1, units + 1):
            sums = sums.copy()
            sums.extend()
            if total is not None and unit == units:
                size = sums.close(bin_0, np.array([total]), variance)
                sums.believe(bin_0, total / size, size, variance / float(size[0]) ** 2)
            numbers, std = sums.total()
        return float(numbers[0]), float(std[0] ** 2)

    assert after(350, total=700, variance=8) == pytest.approx((700, 8), rel=0.03)
    assert after(40) == pytest.approx((700 + 40 * 2, 8 * (390 / 350) ** 2), rel=0.03)
    assert after(159) == pytest.approx((400 * 2, 8 * (400 / 350) ** 2), rel=0.03)
    assert after(1, total=1000, variance=2) == pytest.approx((200 * 2 + 1000, 8 * (200 / 350) ** 2 + 2), rel=0.03)


@pytest.mark.parametrize("mechanism", [RetroactiveGrouping(window=5), PRINTED], ids=["revised", "printed"])
def test_the_state_does_not_grow_with_the_stream(mechanism: RetroactiveGrouping) -> None:
    sizes: list[int] = []
    for steps in (30, 90):
        noise = ExactSampler(SeededSource(1))
        _, _, state = walk(mechanism, EVENT, np.full((steps, 40), 9), noise)
        sizes.append(sum(x.nbytes for x in encode(state).arrays))
    assert sizes[0] == sizes[1]
    assert sizes[0] <= (11 * mechanism.window + 90) * 40


@pytest.mark.parametrize(
    "mechanism",
    [
        RetroactiveGrouping(window=3),
        RetroactiveGrouping(window=3, revise=False),
        PRINTED,
        RetroactiveGrouping(sampling="1/2"),
    ],
    ids=repr,
)
def test_every_form_conforms(mechanism: RetroactiveGrouping) -> None:
    check_stream(mechanism)


@pytest.mark.parametrize("mechanism", [RetroactiveGrouping(window=4), PRINTED], ids=["revised", "printed"])
def test_under_a_window_every_timestamp_has_its_share_of_the_budget(mechanism: RetroactiveGrouping) -> None:
    """Under (ε, w) all is as under (ε/w, 1); the ledger's charges say so from the first one on."""
    counts = np.abs(30 + ExactSampler(SeededSource(4)).laplace(3, (40, 5)))
    runs = [
        walk(mechanism, guarantee, counts, ExactSampler(SeededSource(3)))
        for guarantee in (vs.Guarantee(1, w=8), vs.Guarantee("1/8", w=1))
    ]
    (released, charges, _), (alone, same, _) = runs
    assert np.array_equal(released, alone)
    assert charges == same
    assert charges[0].bins is not None
    pure, _ = fullest_window(charges, 8, 5, per_timestamp=True)
    assert Fraction(9, 10) < pure <= 1


def test_at_user_level_it_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="user level"):
        RetroactiveGrouping().start(vs.Guarantee(1, w=None), 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window", 0),
        ("largest_group", 30_001),
        ("monitor", 1),
        ("monitor", 0),
        ("tail", 0),
        ("factor", 1),
        ("sampling", "1/3"),
        ("sampling", 2),
    ],
)
def test_parameters_outside_their_limits_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} .*nothing was released"):
        RetroactiveGrouping(**{name: value})


def test_slow_bins_gain_and_fast_ones_lose_little() -> None:
    """Against the known error 2ω/ε² of unit-by-unit publication: limits are six standard errors away, P < 1e-6."""
    rng = np.random.default_rng(3)  # noqa: TID251 (data, not noise)
    shape = steps, bins = 528, 200
    t = np.arange(steps)[:, None]
    streams = {
        "constant": (np.full(shape, 50), 0.0, 0.6),
        "rare": (rng.poisson(0.2, shape), 0.0, 0.6),
        "alternating": (np.where((t + np.arange(bins)) % 2, 1000, 0), 0.88, 1.12),
        "random walk": (20_000 + np.rint(np.cumsum(rng.normal(0, 100, shape), 0)).astype(int), 0.88, 1.12),
        "up and down by 15/ε": (np.broadcast_to(t // 30 % 2 * 150, shape), 0.88, 1.2),
    }
    assert len(streams) > 0
    for name, (counts, low, high) in streams.items():
        y = np.asarray(vs.simulate(RetroactiveGrouping(), EVENT, counts, seed=9))
        total = np.cumsum(counts, axis=0)
        truth = total - np.vstack([np.zeros((15, bins)), total[:-15]])
        ratio = ((y - truth)[15:] ** 2).mean() / (2 * 15 / 0.1**2)
        assert low <= ratio <= high, (name, ratio)


@pytest.mark.parametrize("w", [1, 6])
def test_a_killed_stream_goes_on_with_its_groups(tmp_path: Path, w: int) -> None:
    """Units that waited when the process was killed are published afterwards, once; also under a window."""
    path = tmp_path / "budget.db"
    program = textwrap.dedent(
        f"""
        import os, signal
        import numpy as np, veilstream as vs
        from veilstream.mechanisms.streams import RetroactiveGrouping
        p = vs.Publisher(30, vs.Guarantee({w}, w={w}), RetroactiveGrouping(window=4, largest_group=9), {str(path)!r})
        for _ in range(17):
            p.feed(np.full(30, 25))
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    with vs.Publisher(30, vs.Guarantee(w, w=w), RetroactiveGrouping(window=4, largest_group=9), path) as p:
        for t in range(17, 40):
            assert p.feed(np.full(30, 25)).t == t
        charges = [row.charge for row in p.ledger.charges("default")]
    published = times_read(charges, (40, 30), {"group", "unit"})
    assert published.max() == 1
    assert published[:20].all()
    assert times_read(charges, (40, 30), {"monitor"}).max() == 1
    across = [c for c in charges if c.starts is not None and c.span.last >= 17 and (c.starts < 17).any()]
    assert across
    assert fullest_window(charges, w, 30, per_timestamp=True)[0] <= w


def test_rows_of_the_ring_are_narrow_and_hold_any_sum() -> None:
    """Seven bytes a bin and unit; sums that do not fit into four bytes are kept as they are."""
    for top, width in ((1000, 4), (1 << 35, 8)):
        counts = np.full((12, 3), top)
        released, _, state = walk(RetroactiveGrouping(window=4), EVENT, counts, NoNoise())
        assert {row.itemsize for row in state.window.sums} == {width}
        assert released[-1].tolist() == [4 * top] * 3
        old = [row for i, row in enumerate(state.window.sums) if i != (len(counts) - 1) % 4]
        assert not any(row.flags.writeable for row in old)
