"""Models of tables that change: what a window costs, what is kept, what is noticed, and that a stream goes on."""

from __future__ import annotations

import itertools
import math
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.data import Calendar, Categories, Grid
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.mechanisms.session import StreamSession
from veilstream.noise import ExactSampler
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.codec import decode, encode
from veilstream.synthesis import (
    DPCopula,
    GraphModel,
    MarginalGraph,
    MarginalStream,
    TableDomain,
    TablePublisher,
    fit_over_time,
    read_rows,
    refreshed,
)
from veilstream.synthesis.following import followed
from veilstream.synthesis.graph_stream import State
from veilstream.synthesis.kinds import for_domain
from veilstream.testing.simulation import SeededSource

ROWS = 6000
VALUES = 4
DOMAIN = TableDomain({name: Categories(range(VALUES)) for name in "abcdef"} | {"g": Categories(range(40))})
GRAPH = for_domain(MarginalGraph(), DOMAIN)
CHOSEN = for_domain(MarginalGraph(every_pair=False), DOMAIN)


def month(pairs: str, seed: int, values: int = VALUES) -> dict[str, NDArray[np.int64]]:
    """Rows of which the second attribute of every pair follows the first, and nothing else depends on anything."""
    rng = np.random.default_rng(seed)  # noqa: TID251 (test data)
    table = {name: rng.integers(0, values, ROWS) for name in "abcdef"}
    for pair in pairs.split():
        first, second = pair[0], pair[1]
        follows = rng.random(ROWS) < 0.9
        table[second] = np.where(follows, (table[first] + 1) % values, table[second])
    return table | {"g": rng.integers(0, 40, ROWS)}


class Simulated:
    """A stream of models with repeatable noise."""

    def __init__(self, guarantee: Guarantee, seed: int, graph: Any = GRAPH, domain: TableDomain = DOMAIN) -> None:
        self.domain, self.layout = domain, graph.layout(domain.shape)
        noise = ExactSampler(SeededSource(seed))
        self.session: StreamSession[State] = StreamSession(MarginalStream(graph), guarantee, self.layout.size, noise)

    def feed(self, table: dict[str, NDArray[np.int64]], t: int) -> GraphModel:
        values = self.session.step(self.layout.seal(read_rows(table, self.domain, t=t)), t)
        return GraphModel(self.domain, self.layout, np.asarray(values.numbers), self.session.spent)


def test_every_step_costs_its_share_and_a_window_all_of_it() -> None:
    stream = Simulated(Guarantee(3, w=3), seed=1)
    spent = [stream.feed(month("ab cd", t), t).spent for t in range(5)]
    assert spent == [Fraction(1)] * 5
    assert stream.session.left == 0


@pytest.mark.parametrize("rows", [0, 3])
def test_next_to_no_rows_cost_the_same_and_give_a_model(rows: int) -> None:
    stream = Simulated(Guarantee(1, w=2), seed=2)
    few = {name: column[:rows] for name, column in month("ab", 0).items()}
    models = [stream.feed(few, t) for t in range(3)]
    assert [model.spent for model in models] == [Fraction(1, 2)] * 3
    assert models[-1].sample(20, seed=1).shape == (20, 7)


def test_gaussian_noise_spends_both_budgets() -> None:
    graph = for_domain(MarginalGraph(noise="gaussian"), DOMAIN)
    stream = Simulated(Guarantee(2, w=2, delta="1e-6", pure_share="1/5"), 3, graph)
    spent = [stream.feed(month("ab", t), t).spent for t in range(3)]
    assert spent == [Fraction(1)] * 3


def test_the_structure_is_kept_while_nothing_changes() -> None:
    """Tables that hold every pair hold them at every step."""
    stream = Simulated(Guarantee(8, w=4), seed=4)
    structures = [stream.feed(month("ab cd", t), t).measured for t in range(9)]
    held = {pair for names in structures[0] for pair in itertools.combinations(names, 2)}
    assert len(held) == math.comb(7, 2)
    assert all(structure == structures[0] for structure in structures)


def test_a_dependence_that_begins_is_drawn_and_one_that_ends_is_not() -> None:
    stream = Simulated(Guarantee(8, w=4), seed=5)
    models = [stream.feed(month("ab" if t < 3 else "ef", t), t) for t in range(9)]
    for model, begun, over in ((models[2], "ab", "ef"), (models[-1], "ef", "ab")):
        drawn = dict(zip(DOMAIN.names, model.sample_codes(ROWS, seed=1), strict=True))
        assert np.mean((drawn[begun[0]] + 1) % VALUES == drawn[begun[1]]) > 0.7
        assert np.mean((drawn[over[0]] + 1) % VALUES == drawn[over[1]]) < 0.4


def test_a_pair_joins_margins_alone_when_it_begins_to_depend_and_leaves_after() -> None:
    """At this budget, margins alone are what independent attributes get. The seed of the noise is fixed."""
    stream = Simulated(Guarantee(1, w=4), seed=5)
    structures = [set(stream.feed(month("" if t in (0, 1) else "ef", t), t).measured) for t in range(8)]
    assert structures[0] == structures[1] == set()
    assert structures[-1] == {("e", "f")}
    structures = [set(stream.feed(month("", t), t).measured) for t in range(8, 20)]
    assert structures[-1] == set()


def test_chosen_tables_are_kept_while_nothing_changes() -> None:
    """Of 8 further steps, each raises a false alarm with a chance of at most 1 %: more than 2 do in 6e-5 of all
    streams, and these seeds are fixed."""
    stream = Simulated(Guarantee(8, w=4), seed=4, graph=CHOSEN)
    structures = [set(stream.feed(month("ab cd", t), t).measured) for t in range(9)]
    assert {("a", "b"), ("c", "d")} <= structures[0]
    changes = sum(bool(later - earlier) for earlier, later in itertools.pairwise(structures))
    assert changes == 0
    assert {("a", "b"), ("c", "d")} <= structures[-1]


def test_a_dependence_that_begins_joins_chosen_tables_and_one_that_ends_leaves() -> None:
    stream = Simulated(Guarantee(8, w=4), seed=5, graph=CHOSEN)
    before = [stream.feed(month("ab", t), t) for t in range(3)]
    after = [stream.feed(month("ef", t), t) for t in range(3, 9)]
    assert ("a", "b") in before[-1].measured
    assert ("e", "f") not in before[-1].measured
    assert ("e", "f") in after[-1].measured
    assert ("a", "b") not in after[-1].measured
    drawn = dict(zip(DOMAIN.names, after[-1].sample_codes(ROWS, seed=1), strict=True))
    assert np.mean((drawn["e"] + 1) % VALUES == drawn["f"]) > 0.7
    assert np.mean((drawn["a"] + 1) % VALUES == drawn["b"]) < 0.4


def test_noise_falls_while_nothing_changes_and_a_jump_is_followed_at_once() -> None:
    """A margin's noise at these steps has a standard deviation of some tens of rows; the jump is of thousands.

    The first step knows how far attributes depend on one another and gives margins more than later ones do.
    """
    stream = Simulated(Guarantee(1, w=5), seed=6)
    models = [stream.feed(month("ab", t), t) for t in range(8)]
    deviations = [model.layout.unpack(model.numbers).margins.std for model in models]
    assert np.mean(deviations[-1]) < 0.7 * np.mean(deviations[0])
    moved = month("ab", 8)
    moved["c"] = np.zeros(ROWS, dtype=np.int64)
    assert stream.feed(moved, 8).margin("c")[0] > 0.8 * ROWS


def test_where_every_pair_is_measured_none_leaves_though_it_shows_nothing() -> None:
    """Of three attributes the third depends on none; a table less would not hold every pair any more."""
    small = TableDomain({name: Categories(range(12)) for name in "abc"})
    stream = Simulated(Guarantee(2, w=1), 8, for_domain(MarginalGraph(), small), small)
    tables = [{name: column for name, column in month("ab", t, 12).items() if name in "abc"} for t in range(3)]
    measured = [stream.feed(table, t).measured for t, table in enumerate(tables)]
    assert measured == [(("a", "b"), ("a", "c"), ("b", "c"))] * 3


def test_a_stream_goes_on_from_its_stored_state_as_if_it_had_never_stopped() -> None:
    whole, first = (Simulated(Guarantee(4, w=2), seed=7) for _ in range(2))
    expected = [whole.feed(month("ab cd", t), t).numbers for t in range(4)]
    for t in range(2):
        first.feed(month("ab cd", t), t)
    stored = encode(first.session.state)
    first.session.state = decode(stored.header, stored.arrays, State)
    for t in range(2, 4):
        assert np.array_equal(first.feed(month("ab cd", t), t).numbers, expected[t])


@pytest.mark.parametrize("began", [(3, 1), (MarginalGraph.version, MarginalStream.version)])
def test_a_ledger_gives_back_what_was_released_and_charges_nothing_again(
    began: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "budget.db"
    guarantee = Guarantee(2, w=2)
    with monkeypatch.context() as patch:
        patch.setattr(MarginalGraph, "version", began[0])
        patch.setattr(MarginalStream, "version", began[1])
        publisher = TablePublisher(DOMAIN, guarantee, refreshed, ledger=ledger)
    with publisher:
        first = [publisher.feed(month("ab", t), t) for t in range(2)]
    with TablePublisher(DOMAIN, guarantee, refreshed, ledger=ledger) as publisher:
        again = [publisher.feed(month("cd", 99), t) for t in range(2)]
        third = publisher.feed(month("ab", 2), 2)
    for one, other in zip(first, again, strict=True):
        assert isinstance(one, GraphModel)
        assert isinstance(other, GraphModel)
        assert np.array_equal(one.numbers, other.numbers)
    assert third.spent == 1


def test_tables_around_a_target_are_kept_and_charged_once_a_step() -> None:
    graph = for_domain(MarginalGraph(target="c"), DOMAIN)
    stream = Simulated(Guarantee(4, w=2), 10, graph)
    models = [stream.feed(month("cd", t), t) for t in range(4)]
    assert [model.spent for model in models] == [Fraction(2)] * 4
    assert all(model.measured == models[0].measured for model in models)
    drawn = dict(zip(DOMAIN.names, models[-1].sample_codes(ROWS, seed=1), strict=True))
    assert np.mean((drawn["c"] + 1) % VALUES == drawn["d"]) > 0.7


def test_large_counts_follow_a_measurement_and_small_ones_are_averaged() -> None:
    """Both counts are measured 30 apart from what was known; rows are expected in the first."""
    last, now = np.array([1000.0] + [0.0] * 99), np.array([1030.0] + [30.0] * 99)
    estimate, variance, drift = followed(last, 100.0, now, 500.0, 300.0, expected=last)
    assert estimate[0] > 1029
    assert estimate[1] < 10
    assert 0 < variance < 500
    assert drift == pytest.approx(0.8 * 300 + 0.2 * (900 - 600))


def test_where_no_drift_is_known_what_changed_tells_it() -> None:
    estimate, _, drift = followed(np.zeros(50), 0.0, np.full(50, 10.0), 25.0, math.nan)
    assert drift == pytest.approx(75)
    assert estimate == pytest.approx(np.full(50, 7.5))


def test_twice_the_rows_are_twice_the_rows_at_once() -> None:
    """The noise of the number of rows has a standard deviation of 60; margins are what is known, in proportion."""
    stream = Simulated(Guarantee(1, w=2), seed=9)
    for t in range(4):
        stream.feed(month("ab", t), t)
    twice = {name: np.concatenate([month("ab", 4)[name], month("ab", 5)[name]]) for name in DOMAIN.names}
    model = stream.feed(twice, 4)
    assert abs(model.rows - 2 * ROWS) < 600
    assert abs(model.margin("a") - ROWS / 2).max() < 800


def test_groups_follow_the_margin_of_an_attribute_where_every_pair_is_measured() -> None:
    """Rows of the second half lie where those of the first had one group; the seed of the noise is fixed."""
    wide = TableDomain({"x": Grid(0, 400, 400), "y": Categories(range(4)), "z": Categories(range(4))})
    stream = Simulated(Guarantee(4, w=1), 3, for_domain(MarginalGraph(), wide), wide)
    rng = np.random.default_rng(1)  # noqa: TID251 (test data)
    models: list[GraphModel] = []
    for t in range(6):
        x = rng.integers(0, 100, ROWS) + (0 if t < 3 else 300)
        rows = {"x": x, "y": x % 100 // 25, "z": rng.integers(0, 4, ROWS)}
        models.append(stream.feed(rows, t))
        labels = models[-1].layout.unpack(models[-1].numbers).labels[0]
        assert np.unique(labels[x]).size >= 4
    drawn = models[-1].sample_codes(ROWS, seed=1)
    assert np.mean(drawn[0] % 100 // 25 == drawn[1]) > 0.8


def visits(months: int) -> dict[str, NDArray[Any]]:
    parts = [month("ab", t) for t in range(months)]
    rows = {name: np.concatenate([part[name][:800] for part in parts]) for name in DOMAIN.names}
    return rows | {"day": np.repeat([f"2024-{1 + t:02}-15" for t in range(months)], 800)}


def test_rows_are_divided_by_a_calendar_and_a_later_end_goes_on(tmp_path: Path) -> None:
    def models(months: int) -> list[Any]:
        calendar = Calendar("2024-01-01", f"2024-{1 + months:02}-01", "1mo")
        return fit_over_time(visits(months), DOMAIN, Guarantee(2, w=2), calendar, "day", ledger=tmp_path / "b.db")

    first, longer = models(2), models(3)
    assert [model.spent for model in longer] == [1, 1, 1]
    for one, other in zip(first, longer, strict=False):
        assert np.array_equal(one.numbers, other.numbers)
    assert all(abs(model.rows - 800) < 400 for model in longer)


def test_times_outside_the_range_and_silence_at_its_end_are_refused(tmp_path: Path) -> None:
    short, long = (Calendar("2024-01-01", end, "1mo") for end in ("2024-02-01", "2024-05-01"))
    for calendar, about in ((short, "outside"), (long, "last step")):
        with pytest.raises(InvalidInputError, match=about):
            fit_over_time(visits(2), DOMAIN, Guarantee(1, w=2), calendar, "day", ledger=tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()


def test_a_calendar_that_would_count_a_month_as_another_step_is_refused(tmp_path: Path) -> None:
    for start, refused in (("2024-01-01", False), ("2023-12-01", True)):
        calendar = Calendar(start, "2024-03-01", "1mo")
        with pytest.raises(LedgerMismatchError) if refused else nullcontext():
            fit_over_time(visits(2), DOMAIN, Guarantee(1, w=2), calendar, "day", ledger=tmp_path / "b.db")


def test_a_copula_has_no_structure_to_keep() -> None:
    with pytest.raises(InvalidInputError, match="MarginalGraph"):
        MarginalStream(DPCopula())  # type: ignore[arg-type]
