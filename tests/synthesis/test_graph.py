"""Graphs of marginals: what they cost, what they keep, and that they do no harm where there is nothing to keep."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from veilstream.data import Categories, Grid
from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.mechanisms.session import Session
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.synthesis import DPCopula, GraphModel, MarginalGraph, TableDomain, TablePublisher, fit, read_rows
from veilstream.synthesis.fitting import guarantee_of
from veilstream.synthesis.graph_worth import Dependence
from veilstream.synthesis.junction import MOST_CELLS
from veilstream.synthesis.kinds import automatic, for_domain
from veilstream.testing.recording import Recording, RecordingMeter, ReplayingMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.meter import Meter
from veilstream.trusted.opening import open_counts, open_scores
from veilstream.trusted.rows import SealedRows
from veilstream.trusted.statistics.marginal_counts import marginal_counts, misfit_scores

ROWS = 20_000


def simulated(
    table: Any, domain: TableDomain, epsilon: int | str, graph: MarginalGraph, seed: int = 1
) -> tuple[GraphModel, Meter]:
    mechanism = for_domain(graph, domain)
    assert isinstance(mechanism, MarginalGraph)
    layout = mechanism.layout(domain.shape)
    meter = Meter(Accountant(Guarantee(epsilon, w=1), layout.size), ExactSampler(SeededSource(seed)), 0)
    values = mechanism.estimate(layout.seal(read_rows(table, domain)), meter.guarantee.epsilon, meter)
    return GraphModel(domain, layout, np.asarray(values.numbers), Fraction(1)), meter


def ring(rows: int = ROWS, values: int = 5) -> dict[str, NDArray[np.int64]]:
    """Four categories round a ring: each depends on the next, in no order, the last on the first too."""
    rng = np.random.default_rng(4)  # noqa: TID251 (test data)
    scrambled = rng.permutation(values)
    columns = [rng.integers(0, values, rows)]
    for _ in range(3):
        kept = rng.random(rows) < 0.7
        columns.append(np.where(kept, scrambled[columns[-1]], rng.integers(0, values, rows)))
    return dict(zip("abcd", columns, strict=True))


def categories(names: str = "abcd", values: int = 5) -> TableDomain:
    return TableDomain({name: Categories(range(values)) for name in names})


def distance(one: list[NDArray[np.int64]], two: list[NDArray[np.int64]], pair: tuple[int, int], values: int) -> float:
    counts = [
        np.bincount(rows[pair[0]] * values + rows[pair[1]], minlength=values**2) / rows[0].size for rows in (one, two)
    ]
    return float(np.abs(counts[0] - counts[1]).sum()) / 2


def test_dependence_without_an_order_is_kept_where_a_copula_loses_it() -> None:
    """Noise of a table's cell is below 0.1% of the rows at ε = 4; 0.1 is far beyond it and beyond sampling."""
    table, domain = ring(), categories()
    truth = list(table.values())
    graph, meter = simulated(table, domain, 4, MarginalGraph())
    drawn = graph.sample_codes(ROWS, seed=1)
    copula = fit(table, domain, 4, DPCopula()).sample_codes(ROWS, seed=1)
    for pair in ((0, 1), (1, 2), (2, 3), (0, 2)):
        assert distance(truth, drawn, pair, 5) < 0.1
    assert distance(truth, copula, (0, 1), 5) > 0.3
    assert meter.left == 0
    held = {frozenset(pair) for names in graph.measured for pair in itertools.combinations(names, 2)}
    assert held == {frozenset(pair) for pair in itertools.combinations("abcd", 2)}


@pytest.mark.parametrize("epsilon", ["1/20", "1"])
def test_a_table_without_dependence_is_no_worse_than_its_margins(epsilon: str) -> None:
    """Against rows drawn from the same published margins independently: more by 0.02 is beyond chance here."""
    rng = np.random.default_rng(5)  # noqa: TID251 (test data)
    table = {name: rng.integers(0, 5, 4000) for name in "abcd"}
    truth = list(table.values())
    more: list[float] = []
    for seed in range(6):
        model, _ = simulated(table, categories(), epsilon, MarginalGraph(), seed)
        drawn = model.sample_codes(40_000, seed=1)
        apart = [rng.permutation(column) for column in drawn]
        more.append(
            float(np.mean([distance(truth, drawn, p, 5) - distance(truth, apart, p, 5) for p in ((0, 1), (2, 3))]))
        )
    assert np.mean(more) < 0.02


def test_fine_attributes_keep_their_margins_and_their_dependence() -> None:
    rng = np.random.default_rng(6)  # noqa: TID251 (test data)
    x = rng.standard_normal(ROWS)
    y = 0.8 * x + 0.6 * rng.standard_normal(ROWS)
    table = {n: np.clip((v + 4) / 8 * 500, 0, 499).astype(np.int64) for n, v in (("x", x), ("y", y))}
    table["g"] = (x > 0).astype(np.int64)
    domain = TableDomain({"x": Grid(0, 500, 500), "y": Grid(0, 500, 500), "g": Categories([0, 1])})
    model, _ = simulated(table, domain, 4, MarginalGraph())
    codes = model.sample_codes(ROWS, seed=2)
    assert np.corrcoef(codes[0], codes[1])[0, 1] == pytest.approx(0.8, abs=0.06)
    assert codes[0][codes[2] == 1].mean() - codes[0][codes[2] == 0].mean() > 70
    published = model.margin("x") / model.margin("x").sum()
    drawn = np.bincount(codes[0], minlength=500) / ROWS
    assert np.abs(drawn - published).sum() / 2 < 0.1


def test_an_attribute_of_very_many_values_keeps_its_dependence_on_a_small_one() -> None:
    """Noise hides every value of it and no half of them: without dependence both means would be alike."""
    rng = np.random.default_rng(13)  # noqa: TID251 (test data)
    amount = np.clip(rng.gamma(3, 10_000, ROWS), 0, 99_999)
    table = {"amount": amount.astype(np.int64), "large": (amount > 25_000).astype(np.int64)}
    domain = TableDomain({"amount": Grid(0, 100_000, 100_000), "large": Categories([0, 1])})
    model, _ = simulated(table, domain, 1, MarginalGraph())
    drawn = dict(zip(table, model.sample_codes(ROWS, seed=1), strict=True))
    for value in (0, 1):
        true = float(amount[table["large"] == value].mean())
        assert float(drawn["amount"][drawn["large"] == value].mean()) == pytest.approx(true, rel=0.15)


def test_small_attributes_have_every_pair_measured_if_rows_allow_it() -> None:
    many, few = (simulated(ring(), categories(), epsilon, MarginalGraph())[0] for epsilon in ("1", "1/1000"))
    held = {pair for names in many.measured for pair in itertools.combinations(names, 2)}
    assert len(held) == 6
    assert few.measured == ()


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_pairs_are_measured_only_if_a_private_answer_says_that_they_depend(noise: Any) -> None:
    """Noise would leave all pairs readable; of independent ones there is nothing to read. The noise is simulated."""
    rng = np.random.default_rng(12)  # noqa: TID251 (test data)
    names = "abcdefghijkl"
    apart = {name: rng.integers(0, 2, ROWS) for name in names}
    alike = {name: np.where(rng.random(ROWS) < 0.5, apart["a"], column) for name, column in apart.items()}
    domain = categories(names, 2)
    measured: list[int] = []
    for table, ask in ((apart, True), (apart, False), (alike, True)):
        graph = for_domain(MarginalGraph(noise=noise, ask=ask), domain)
        assert isinstance(graph, MarginalGraph)
        layout, guarantee = (
            graph.layout(domain.shape),
            guarantee_of("1/10", "1e-6" if noise == "gaussian" else 0, graph),
        )
        session = Session(Accountant(guarantee, layout.size), ExactSampler(SeededSource(14)))
        values = graph.estimate(layout.seal(read_rows(table, domain)), guarantee.pure, session.at(0))
        assert session.left == 0
        measured.append(len(GraphModel(domain, layout, np.asarray(values.numbers), Fraction(1)).measured))
    assert measured[0] == 0
    assert measured[1] > 0
    assert measured[2] > 0


def test_the_question_costs_what_it_may_at_most_and_less_where_that_is_enough() -> None:
    rows = read_rows(ring(1000), categories())
    meter = Meter(Accountant(Guarantee(1, w=1), 1), ExactSampler(SeededSource(1)), 0)
    sharp = Dependence.asked(rows, 1000.0, 1e5, Fraction(1, 24), meter)
    assert 0 < sharp.epsilon < Fraction(1, 24)
    assert sharp.noise <= 1e5 / 2
    blunt = Dependence.asked(rows, 1e-6, 1e-3, Fraction(1, 24), meter)
    assert blunt.epsilon == Fraction(1, 24)
    many = Dependence.asked(rows, 1e6, 1e-3, Fraction(1, 24), meter)
    assert 0 < many.epsilon < Fraction(1, 24)
    assert meter.left == 1 - sharp.epsilon - blunt.epsilon - many.epsilon
    assert Dependence(300.0, 1.0, Fraction(1)).likely(1000.0) == pytest.approx(300, abs=1)
    assert Dependence(10.0, 10.0, Fraction(1)).likely(1000.0) == 0
    assert not Dependence(10.0, 5.0, Fraction(1)).beats(6.0)
    assert Dependence(12.0, 5.0, Fraction(1)).beats(6.0)


def test_the_law_of_many_small_attributes_stays_within_its_memory() -> None:
    rng = np.random.default_rng(8)  # noqa: TID251 (test data)
    common = rng.standard_normal((3000, 1))
    codes = (rng.standard_normal((3000, 20)) + common > 0).astype(np.int64)
    names = [f"q{axis}" for axis in range(20)]
    domain = TableDomain({name: Categories([0, 1]) for name in names})
    model, _ = simulated(dict(zip(names, codes.T, strict=True)), domain, 2, MarginalGraph())
    assert len(model.measured) > 1
    assert sum(2 ** len(clique) for clique in model.graph().law.cliques) <= MOST_CELLS


def test_dependence_of_three_that_no_pair_shows_is_kept_where_nothing_is_asked() -> None:
    """The question is about pairs, of which none depends here. A mean of 1/2 would be chance, noise moves it by less
    than 0.01."""
    rng = np.random.default_rng(9)  # noqa: TID251 (test data)
    table = {n: rng.integers(0, 33 if n in "de" else 2, ROWS) for n in "deab"}
    table["c"] = table["a"] ^ table["b"]
    domain = TableDomain({n: Categories(range(33 if n in "de" else 2)) for n in table})
    model, _ = simulated(table, domain, 2, MarginalGraph(ask=False))
    rows = dict(zip(table, model.sample_codes(ROWS, seed=1), strict=True))
    assert any({"a", "b", "c"} <= set(names) for names in model.measured)
    assert float(np.mean((rows["a"] ^ rows["b"]) == rows["c"])) > 0.95


@pytest.mark.parametrize("epsilon", ["1/10", "1"])
def test_a_model_of_weak_dependence_is_no_worse_than_independence(epsilon: str) -> None:
    """Against its own margins drawn apart, means of four noises; 0.01 more is beyond what they vary by."""
    rng = np.random.default_rng(10)  # noqa: TID251 (test data)
    x = rng.standard_normal((3000, 6)) + 0.3 * rng.standard_normal((3000, 1))
    table = {n: np.clip((column + 4) * 5, 0, 39).astype(np.int64) for n, column in zip("abcdef", x.T, strict=True)}
    domain = TableDomain({n: Grid(0, 40, 40) for n in table})
    truth, more = list(table.values()), list[float]()
    for seed in range(4):
        model, _ = simulated(table, domain, epsilon, MarginalGraph(), seed)
        drawn = model.sample_codes(30_000, seed=1)
        apart = [rng.permutation(column) for column in drawn]
        pairs = itertools.combinations(range(6), 2)
        more.append(float(np.mean([distance(truth, drawn, p, 40) - distance(truth, apart, p, 40) for p in pairs])))
    assert np.mean(more) < 0.01


@pytest.mark.parametrize("epsilon", ["1/1000", "100"])
@pytest.mark.parametrize("rows", [0, 1, 40])
def test_models_of_hardly_anything_still_draw_rows(rows: int, epsilon: str) -> None:
    table = {name: [3] * rows for name in "abcd"}
    model, _ = simulated(
        {n: np.array(v, dtype=np.int64) for n, v in table.items()}, categories(), epsilon, MarginalGraph()
    )
    assert model.sample(100, seed=1).shape == (100, 4)
    assert model.correlation.shape == (4, 4)
    assert model.sample(0).shape == (0, 4)


def test_one_attribute_is_its_margin() -> None:
    model, meter = simulated({"a": np.arange(500) % 5}, categories("a"), 1, MarginalGraph())
    assert meter.left == 0
    assert model.measured == ()
    assert model.sample(50, seed=1).columns == ["a"]


@pytest.mark.parametrize("every_pair", [False, True])
def test_questions_depend_on_answers_alone(every_pair: bool) -> None:
    mechanism = for_domain(MarginalGraph(every_pair=every_pair), categories())
    layout = mechanism.layout(categories().shape)
    source, recording = ExactSampler(SeededSource(3)), Recording()
    recorder = RecordingMeter(Accountant(Guarantee(1, w=1), layout.size), source, 0, recording)
    first = mechanism.estimate(layout.seal(read_rows(ring(3000), categories())), Fraction(1), recorder)
    other = {name: np.full(50, 2) for name in "abcd"}
    replayer = ReplayingMeter(Accountant(Guarantee(1, w=1), layout.size), source, 0, recording)
    again = mechanism.estimate(layout.seal(read_rows(other, categories())), Fraction(1), replayer)
    assert np.array_equal(first.numbers, again.numbers)


def test_a_changing_table_is_modelled_under_a_window() -> None:
    publisher = TablePublisher(categories(), Guarantee(4, w=2), copula=MarginalGraph())
    models = [publisher.feed(ring(2000), t) for t in range(3)]
    assert [model.spent for model in models] == [2, 2, 2]


def test_the_default_suits_the_domain() -> None:
    assert automatic(categories()) == MarginalGraph()
    assert automatic(TableDomain({n: Grid(0, 999, 999) for n in "xy"}), "1e-9") == MarginalGraph()
    many = TableDomain({f"x{i}": Grid(0, 9, 9) for i in range(14)})
    assert automatic(many, "1e-9").noise == "gaussian"
    assert isinstance(fit(ring(500), categories(), 1), GraphModel)


@pytest.mark.parametrize(("margin", "select"), [("1/4", "0"), ("1", "1/10"), ("1/2", "19/20")])
def test_shares_that_leave_nothing_are_refused(margin: str, select: str) -> None:
    with pytest.raises(InvalidInputError, match="above 0"):
        MarginalGraph(margin_share=Fraction(margin), select_share=Fraction(select))


def test_gaussian_tables_are_less_noisy_for_the_same_epsilon_and_need_delta() -> None:
    model = fit(ring(4000), categories(), 1, MarginalGraph(noise="gaussian"), delta="1e-9")
    assert model.spent <= 1
    assert isinstance(model, GraphModel)
    assert distance(list(ring(4000).values()), model.sample_codes(20_000, seed=1), (0, 1), 5) < 0.2
    with pytest.raises(InvalidBudgetError, match="delta"):
        fit(ring(500), categories(), 1, MarginalGraph(noise="gaussian"))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("depends", [False, True])
@pytest.mark.parametrize("values", [5, 40])
@pytest.mark.parametrize("every_pair", [False, True])
def test_all_of_the_budget_is_spent_whatever_is_chosen(
    noise: Any, depends: bool, values: int, every_pair: bool
) -> None:
    """Of independent attributes no table is worth its noise; with 40 values they are too large to measure all pairs."""
    rng = np.random.default_rng(11)  # noqa: TID251 (test data)
    rows = 1000
    first = rng.integers(0, values, rows)
    table = {n: first if depends and n in "ab" else rng.integers(0, values, rows) for n in "abcd"}
    domain = categories(values=values)
    graph = for_domain(MarginalGraph(noise=noise, every_pair=every_pair), domain)
    layout = graph.layout(domain.shape)
    guarantee = guarantee_of(1, "1e-6" if noise == "gaussian" else 0, graph)
    session = Session(Accountant(guarantee, layout.size), ExactSampler(SeededSource(12)))
    graph.estimate(layout.seal(read_rows(table, domain)), guarantee.pure, session.at(0))
    assert session.spent == 1
    assert session.left == 0


rows_of_three = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)), max_size=12)


@given(rows_of_three, st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)))
@settings(max_examples=60, deadline=None)
def test_a_row_moves_tables_and_misfits_by_no_more_than_one(
    rows: list[tuple[int, int, int]], extra: tuple[int, int, int]
) -> None:
    groups, pairs = [np.array([0, 1, 1]), np.arange(4), np.arange(2)], [(0, 1), (0, 2), (1, 2)]

    def tables(listed: list[tuple[int, int, int]]) -> Any:
        columns = np.array(listed, dtype=np.int64).reshape(-1, 3).T
        hashes = np.arange(len(listed), dtype=np.uint64)
        return marginal_counts(SealedRows(list(columns), hashes, (3, 4, 2), Span(0, 0), 1), groups, pairs)

    one, two = tables(rows), tables([*rows, extra])
    for a, b in zip(one, two, strict=True):
        assert int(np.abs(open_counts(a) - open_counts(b)).sum()) == 1 == a.l1
    predictions = [np.linspace(0, 3, table.size) for table in one]
    scores = [misfit_scores(each, predictions, [0.5, 0.0, 2.0]) for each in (one, two)]
    moved = np.abs(open_scores(scores[0]) - open_scores(scores[1]))
    assert moved.max() <= scores[0].sensitivity


def hidden_target(rows: int = 4000) -> dict[str, NDArray[np.int64]]:
    """Three pairs of alike attributes, and a yes or no that depends on all six a little."""
    rng = np.random.default_rng(5)  # noqa: TID251 (test data)
    columns: list[NDArray[np.int64]] = []
    for _ in range(3):
        first = rng.integers(0, 40, rows)
        columns += [first, (first + rng.integers(0, 8, rows)) % 40]
    chance = np.mean([column / 40 for column in columns], axis=0)
    return {**dict(zip("abcdef", columns, strict=True)), "t": (rng.random(rows) < chance).astype(np.int64)}


@pytest.mark.parametrize("epsilon", ["1/20", "1"])
def test_a_declared_target_is_measured_beside_every_attribute(epsilon: str) -> None:
    """Nothing is chosen or asked, so that no chance is in what is measured."""
    domain = TableDomain({**{name: Grid(0, 40, 40) for name in "abcdef"}, "t": Categories(range(2))})
    table = hidden_target()
    model, meter = simulated(table, domain, epsilon, MarginalGraph(target="t"))
    star = {frozenset((name, "t")) for name in "abcdef"}
    assert star <= set(map(frozenset, model.measured))
    assert meter.left == 0
    plain, _ = simulated(table, domain, epsilon, MarginalGraph())
    assert not star <= set(map(frozenset, plain.measured))


@pytest.mark.parametrize("every_pair", [False, True])
def test_questions_about_a_target_depend_on_answers_alone(every_pair: bool) -> None:
    domain = TableDomain({**{name: Grid(0, 40, 40) for name in "abcdef"}, "t": Categories(range(2))})
    mechanism = for_domain(MarginalGraph(target="t", every_pair=every_pair), domain)
    layout = mechanism.layout(domain.shape)
    for epsilon in ("1/20", "1"):
        source, recording = ExactSampler(SeededSource(3)), Recording()
        recorder = RecordingMeter(Accountant(Guarantee(epsilon, w=1), layout.size), source, 0, recording)
        first = mechanism.estimate(layout.seal(read_rows(hidden_target(), domain)), Fraction(epsilon), recorder)
        other = {**{name: np.full(50, 2) for name in "abcdef"}, "t": np.ones(50, dtype=np.int64)}
        replayer = ReplayingMeter(Accountant(Guarantee(epsilon, w=1), layout.size), source, 0, recording)
        again = mechanism.estimate(layout.seal(read_rows(other, domain)), Fraction(epsilon), replayer)
        assert np.array_equal(first.numbers, again.numbers)


def test_a_target_must_be_an_attribute_of_marginals() -> None:
    domain = categories()
    with pytest.raises(InvalidInputError) as caught:
        fit(ring(50), domain, 1, target="nothing")
    assert (caught.value.name, caught.value.value) == ("target", "nothing")
    with pytest.raises(InvalidInputError) as caught:
        fit(ring(50), domain, 1, DPCopula(), target="a")
    assert caught.value.name == "target"
    fine = TableDomain({name: Grid(0, 1000, 1000) for name in "xyz"})
    assert automatic(fine, target="x").target == "x"


def test_dependence_of_three_is_kept_by_chosen_tables() -> None:
    """Of 20,000 rows at ε = 2: a mean of 1/2 would be chance, noise moves it by less than 0.01."""
    rng = np.random.default_rng(9)  # noqa: TID251 (test data)
    table = {n: rng.integers(0, 33 if n in "de" else 2, ROWS) for n in "deab"}
    table["c"] = table["a"] ^ table["b"]
    domain = TableDomain({n: Categories(range(33 if n in "de" else 2)) for n in table})
    model, _ = simulated(table, domain, 2, MarginalGraph(every_pair=False, ask=False))
    rows = dict(zip(table, model.sample_codes(ROWS, seed=1), strict=True))
    assert ("a", "b", "c") in model.measured
    assert float(np.mean((rows["a"] ^ rows["b"]) == rows["c"])) > 0.95


def test_chosen_tables_are_those_of_a_declared_target_first() -> None:
    """Nothing is chosen among its pairs, so that no chance is in what is measured."""
    domain = TableDomain({**{name: Grid(0, 40, 40) for name in "abcdef"}, "t": Categories(range(2))})
    table = hidden_target()
    model, meter = simulated(table, domain, 1, MarginalGraph(target="t", every_pair=False))
    star = {frozenset((name, "t")) for name in "abcdef"}
    assert star <= set(map(frozenset, model.measured))
    assert meter.left == 0
    plain, _ = simulated(table, domain, 1, MarginalGraph(every_pair=False))
    assert not star <= set(map(frozenset, plain.measured))
    few, meter = simulated(table, domain, "1/20", MarginalGraph(target="t", every_pair=False))
    assert len(star & set(map(frozenset, few.measured))) < len(star)
    assert meter.left == 0


@given(st.lists(st.integers(1, 40), min_size=3, max_size=9), st.sampled_from([1, 100, 10_000]))
@settings(max_examples=40, deadline=None)
def test_a_model_has_room_for_all_that_is_measured_around_a_target(sizes: list[int], epsilon: int) -> None:
    domain = TableDomain({f"x{axis}": Categories(range(size)) for axis, size in enumerate(sizes)})
    rng = np.random.default_rng(len(sizes))  # noqa: TID251 (test data)
    table = {name: rng.integers(0, size, 200) for name, size in zip(domain.names, sizes, strict=True)}
    model, meter = simulated(table, domain, epsilon, MarginalGraph(target="x0"))
    assert meter.left == 0
    assert len(model.sample(10, seed=1)) == 10
