"""Models of tables: what they cost, what their samples look like, and what happens at the edges."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from veilstream.data import Categories, Grid
from veilstream.errors import InvalidBudgetError, InvalidDomainError, InvalidInputError
from veilstream.mechanisms.histograms import HISTOGRAMS, Geometric
from veilstream.mechanisms.streams import DSAT, FixedRate
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.guarantee import Guarantee
from veilstream.storage.ledger import Ledger
from veilstream.synthesis import (
    BlockMLE,
    Choice,
    CopulaModel,
    DPCopula,
    Kendall,
    TableDomain,
    TablePublisher,
    fit,
    read_rows,
)
from veilstream.testing.recording import Recording, RecordingMeter, ReplayingMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter

ROWS = 20_000


def correlated(rho: float, rows: int = ROWS, values: int = 200, seed: int = 1) -> dict[str, NDArray[np.int64]]:
    """Two attributes with a normal copula and unequal margins."""
    rng = np.random.default_rng(seed)  # noqa: TID251 (test data)
    x = rng.standard_normal(rows)
    y = rho * x + np.sqrt(1 - rho**2) * rng.standard_normal(rows)
    place = [np.clip((x + 4) / 8, 0, 0.999), np.clip(np.exp(y) / 30, 0, 0.999)]
    return {name: (values * p).astype(np.int64) for name, p in zip("xy", place, strict=True)}


def domain_of(names: str = "xy", values: int = 200) -> TableDomain:
    return TableDomain({name: Grid(0, values, values) for name in names})


def simulated(
    table: Any, domain: TableDomain, epsilon: int | str, copula: DPCopula, seed: int = 1
) -> tuple[CopulaModel, Meter]:
    """A fit with repeatable noise, and the meter that paid for it."""
    layout = copula.layout(domain.shape)
    meter = Meter(Accountant(Guarantee(epsilon, w=1), layout.size), ExactSampler(SeededSource(seed)), 0)
    values = copula.estimate(layout.seal(read_rows(table, domain)), meter.guarantee.epsilon, meter)
    return CopulaModel(domain, layout, np.asarray(values.numbers), meter.guarantee.epsilon - meter.left), meter


@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.8])
def test_kendall_finds_the_correlation_of_a_normal_copula(rho: float) -> None:
    """The noise of τ has scale 2/(n̂·ε₂)·... < 1e-3 here; 0.05 is beyond 1e-6 for it and for sampling (std < 0.008)."""
    model, _ = simulated(correlated(rho), domain_of(), 2, DPCopula())
    assert model.correlation[0, 1] == pytest.approx(rho, abs=0.05)


def test_block_estimates_find_it_too() -> None:
    model, _ = simulated(correlated(0.8), domain_of(), 8, DPCopula(dependence=BlockMLE(blocks=200)))
    assert model.correlation[0, 1] == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize("copula", [DPCopula(), DPCopula(copula=Choice()), DPCopula(dependence=BlockMLE())], ids=str)
def test_a_fit_costs_no_more_than_epsilon_and_all_of_it_is_spoken_for(copula: DPCopula) -> None:
    _, meter = simulated(correlated(0.5, rows=2000), domain_of(), "3/7", copula)
    spent = sum((charge.epsilon for charge in meter.charges), Fraction(0))
    unmeasured = Fraction(3, 7) * Fraction(19, 20) / 9 * (copula.copula.measure if copula.copula else 0)
    assert spent in (Fraction(3, 7), Fraction(3, 7) - unmeasured)


@pytest.mark.parametrize("name", [name for name in HISTOGRAMS if name not in ("gaussian", "barak")])
def test_any_histogram_gives_margins(name: str) -> None:
    copula = DPCopula(margins=HISTOGRAMS[name]())
    model, _ = simulated(correlated(0.5, rows=3000, values=64), domain_of(values=64), 1, copula)
    assert model.margin("x").sum() == pytest.approx(model.margin("y").sum())
    assert (model.margin("x") >= 0).all()


@pytest.mark.parametrize("copula", [DPCopula(), DPCopula(copula=Choice()), DPCopula(split_below=5)], ids=str)
def test_margins_of_a_sample_are_the_published_ones(copula: DPCopula) -> None:
    """Total variation of 2·10⁵ draws over 200 bins has mean < 0.013 and exceeds it by 0.01 with probability e^{−40}."""
    table = {**correlated(0.6), "g": np.arange(ROWS) % 3}
    domain = TableDomain({**domain_of().axes, "g": Categories([0, 1, 2])})
    model, _ = simulated(table, domain, 1, copula)
    codes = model.sample_codes(200_000, seed=3)
    for name, column in zip(domain.names, codes, strict=True):
        published = model.margin(name) / model.margin(name).sum()
        drawn = np.bincount(column, minlength=published.size) / column.size
        assert np.abs(drawn - published).sum() / 2 < 0.03


def test_samples_repeat_with_a_seed_and_come_as_any_table() -> None:
    model = fit(correlated(0.5, rows=500), domain_of(), 1)
    assert model.sample(50, seed=4).equals(model.sample(50, seed=4))
    assert isinstance(model.sample(5, kind="pandas"), pd.DataFrame)
    assert isinstance(model.sample(5, kind="arrow"), pa.Table)
    assert model.sample(0).shape == (0, 2)
    with pytest.raises(InvalidInputError, match="rows -1"):
        model.sample(-1)


def test_fitting_again_gives_the_stored_model_and_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    first = fit(correlated(0.5, rows=500), domain_of(), 1, ledger=path)
    again = fit(correlated(-0.9, rows=700), domain_of(), 1, ledger=path)
    assert np.array_equal(first.numbers, again.numbers)
    with Ledger.open(path) as ledger:
        assert sum((row.charge.epsilon for row in ledger.charges("table")), Fraction(0)) == 1


def test_another_domain_under_the_same_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    fit({"x": [1], "y": [2]}, domain_of(), 1, ledger=path)
    other = TableDomain({"x": Grid(0, 2, 200), "y": Grid(0, 200, 200)})
    with pytest.raises(Exception, match="mechanism is recorded"):
        fit({"x": [1], "y": [2]}, other, 1, ledger=path)


EDGES: dict[str, dict[str, Any]] = {
    "no rows": {"x": np.zeros(0, dtype=np.int64), "y": np.zeros(0, dtype=np.int64)},
    "one row": {"x": [3], "y": [4]},
    "constant column": {"x": [3] * 50, "y": list(range(50))},
    "equal rows": {"x": [7] * 400, "y": [9] * 400},
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("copula", [DPCopula(), DPCopula(dependence=BlockMLE()), DPCopula(copula=Choice())], ids=str)
@pytest.mark.parametrize("epsilon", ["1/1000", "100"])
def test_models_of_hardly_anything_still_draw_rows(name: str, copula: DPCopula, epsilon: str) -> None:
    model, _ = simulated(EDGES[name], domain_of(), epsilon, copula)
    sample = model.sample(100, seed=1)
    assert sample.shape == (100, 2)
    assert sample["x"].is_between(0, 200).all()
    assert np.linalg.eigvalsh(model.correlation).min() > 0


def test_an_epsilon_too_small_to_draw_noise_for_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(InvalidBudgetError, match="nothing was released"):
        fit({"x": [1], "y": [2]}, domain_of(), "1e-30")


def test_single_attributes_and_split_ones_alone_have_models() -> None:
    one = fit({"x": [1, 2, 3]}, domain_of("x"), 1)
    assert one.correlation.tolist() == [[1.0]]
    assert one.sample(3).columns == ["x"]
    flags = TableDomain({"a": Categories([True, False]), "b": Categories(["u", "v"])})
    both = {"a": [True] * 60 + [False] * 40, "b": ["u"] * 60 + ["v"] * 40}
    model, meter = simulated(both, flags, 4, DPCopula(split_below=10))
    assert meter.left == 0
    assert model.margin("a").sum() == pytest.approx(100, abs=60)
    assert set(model.sample(50, seed=1)["b"].to_list()) <= {"u", "v"}


def test_hybrid_parts_cost_one_budget_and_empty_parts_stay_nearly_empty() -> None:
    """Six parts, of which four have no rows; noise of a size is Lap(20/ε) = Lap(5): beyond 100 with 6·e^{−20}."""
    table = correlated(0.5) | {"g": np.where(np.arange(ROWS) % 4 == 0, 5, 2)}
    domain = TableDomain({**domain_of().axes, "g": Categories(range(6))})
    model, meter = simulated(table, domain, 4, DPCopula(split_below=10))
    assert model.layout.parts == 6
    assert meter.left == 0
    assert np.abs(model.margin("g") - np.bincount(table["g"], minlength=6)).max() < 100
    assert model.sample_codes(1000, seed=1)[2].max() < 6


def test_parts_that_are_paid_for_together_are_not_added_up_in_what_was_spent() -> None:
    table = correlated(0.5, rows=500) | {"g": np.arange(500) % 6}
    domain = TableDomain({**domain_of().axes, "g": Categories(range(6))})
    assert fit(table, domain, 1, DPCopula(split_below=10)).spent == 1


def test_hybrid_keeps_the_total_and_small_parts_where_noise_is_large() -> None:
    """The noise of the total is Lap(200): 19 of 20 totals within 800 with probability 1 − C(20,2)·e^{−8} and more."""
    rng = np.random.default_rng(7)  # noqa: TID251 (test data)
    flags = {f"f{i}": rng.integers(0, 2, 800) for i in range(6)}
    table = correlated(0.5, rows=800, values=50) | flags
    domain = TableDomain({**domain_of(values=50).axes, **{name: Categories([0, 1]) for name in flags}})
    models = [simulated(table, domain, "1/10", DPCopula(split_below=3), seed)[0] for seed in range(20)]
    assert sum(0 < model.rows < 1600 for model in models) >= 18
    filled = [int((model.layout.unpack(model.numbers)[0] > 0).sum()) for model in models if model.rows]
    assert np.mean(filled) > 20


def test_a_spike_is_drawn_as_itself_and_only_where_it_was() -> None:
    """Half of all rows are 0, the others even over 1..999 in bins of 100; 20,000 draws, ε = 4."""
    income = np.where(np.arange(ROWS) % 2 == 0, 0, 1 + np.arange(ROWS) % 999)
    domain = TableDomain({"income": Grid(0, 1000, 10)}, spikes={"income": [0]})
    drawn = simulated({"income": income}, domain, 4, DPCopula())[0].sample(20_000, seed=1)["income"]
    assert (drawn == 0).mean() == pytest.approx(0.5, abs=0.03)
    assert drawn.is_between(1, 99).mean() == pytest.approx(0.05, abs=0.02)
    again = TableDomain.from_json({name: axis.to_json() for name, axis in domain.axes.items()})
    assert again.fingerprint() == domain.fingerprint()
    smeared = simulated({"income": income}, TableDomain({"income": Grid(0, 1000, 10)}), 4, DPCopula())[0]
    assert (smeared.sample(20_000, seed=1)["income"] == 0).mean() < 0.02


@pytest.mark.parametrize("spikes", [[], [5, 5], [9, 3], [2000]])
def test_spikes_that_cannot_be_are_refused(spikes: list[float]) -> None:
    with pytest.raises(InvalidDomainError, match="spikes"):
        TableDomain({"income": Grid(0, 1000, 10)}, spikes={"income": spikes})
    with pytest.raises(InvalidDomainError, match="belong to"):
        TableDomain({"sex": Categories(["f", "m"])}, spikes={"sex": [0]})


@pytest.mark.parametrize(
    "person", [{"x": None, "z": 0.5, "c": 1}, {"x": 3.5, "z": 1, "c": None}, {"x": "?", "z": [], "c": "1"}]
)
def test_types_of_drawn_rows_come_from_the_domain(person: dict[str, Any]) -> None:
    """One person without an age makes a column of floating-point numbers: that must not show in what is drawn."""
    rows = [{"x": 3, "z": 1, "c": 1}, {"x": 7, "z": 0, "c": 2}]
    domain = TableDomain({"x": Grid(0, 200, 200), "z": Grid(0.0, 1.5, 4), "c": Categories([1, 2])})
    for table in (rows, [*rows, person]):
        for source in (pd.DataFrame(table), pd.DataFrame(table, dtype=object)):
            drawn = fit(source, domain, 1, unknown="drop").sample(9, seed=1)
            assert dict(drawn.schema) == {"x": pl.Int64, "z": pl.Float64, "c": pl.Int64}


def test_hybrid_keeps_what_differs_between_categories() -> None:
    """Two groups of opposite dependence: a single copula sees none, parts see both."""
    up, down = correlated(0.9, seed=2), correlated(-0.9, seed=3)
    table = {name: np.concatenate([up[name], down[name]]) for name in "xy"} | {"g": np.repeat([0, 1], ROWS)}
    domain = TableDomain({**domain_of().axes, "g": Categories([0, 1])})
    model, _ = simulated(table, domain, 2, DPCopula(split_below=10))
    sizes, parts = model.layout.unpack(model.numbers)
    assert parts[0].correlations[0] > 0.8
    assert parts[1].correlations[0] < -0.8
    assert np.allclose(sizes, ROWS, atol=1000)


def test_hybrid_is_refused_where_parts_cannot_be_paid_for_together() -> None:
    domain = TableDomain({"x": Grid(0, 20, 20), "g": Categories([0, 1])})
    publisher = TablePublisher(domain, Guarantee(1, w=3), copula=DPCopula(split_below=10))
    with pytest.raises(InvalidBudgetError, match="w=1 only"):
        publisher.feed({"x": [1], "g": [0]}, 0)


def test_the_choice_finds_heavy_tails_and_what_no_ellipse_can_say() -> None:
    rng = np.random.default_rng(5)  # noqa: TID251 (test data)
    domain = domain_of()
    rows = 60_000

    def ranks(columns: NDArray[np.float64]) -> dict[str, NDArray[np.int64]]:
        places = np.argsort(np.argsort(columns, axis=0), axis=0) * 200 // rows
        return {"x": places[:, 0], "y": places[:, 1]}

    normal = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], rows)
    heavy = normal / np.sqrt(rng.chisquare(3, rows) / 3)[:, None]
    x = rng.uniform(-1, 1, rows)
    arch = np.stack([x, x * x + rng.normal(0, 0.1, rows)], axis=1)
    kinds = {
        name: simulated(ranks(columns), domain, 4, DPCopula(copula=Choice()))[0].copulas[0]
        for name, columns in {"normal": normal, "heavy": heavy, "arch": arch}.items()
    }
    assert kinds["normal"] in ("normal", "t12")
    assert kinds["heavy"] in ("t3", "t6")
    assert kinds["arch"] == "empirical"


def test_an_empirical_copula_draws_the_shape_it_measured() -> None:
    rng = np.random.default_rng(6)  # noqa: TID251 (test data)
    x = rng.uniform(-1, 1, ROWS)
    table = {"x": (100 * (x + 1)).astype(np.int64), "y": (150 * x * x).astype(np.int64)}
    model, _ = simulated(table, domain_of(), 8, DPCopula(copula=Choice(), ratio=Fraction(1)))
    assert model.copulas == ("empirical",)
    codes = model.sample_codes(20_000, seed=1)
    ends = np.abs(codes[0] - 100) > 75
    assert codes[1][ends].mean() > 2 * codes[1][~ends].mean()


@pytest.mark.parametrize("mechanism", ["fixed-rate", "dsat"])
def test_a_changing_table_is_modelled_within_one_guarantee(tmp_path: Path, mechanism: str) -> None:
    def stream(copula: Any) -> Any:
        return FixedRate(interval=4, histogram=copula) if mechanism == "fixed-rate" else DSAT(2, histogram=copula)

    path = tmp_path / "budget.db"
    domain = domain_of(values=50)
    still, moved = correlated(0.8, 4000, 50), correlated(-0.8, 12000, 50)
    models = []
    for t in range(8):
        with TablePublisher(domain, Guarantee(8, w=8), stream, DPCopula(), path) as publisher:
            models.append(publisher.feed(still if t < 4 else moved, t))
    with Ledger.open(path) as ledger:
        releases = list(ledger.releases("table"))
        spent = sum((release.spent for release in releases), Fraction(0))
    fresh = [release.t for release in releases if release.fresh]
    assert spent <= 8
    assert fresh == [0, 4]
    assert models[3].correlation[0, 1] > 0.5
    assert models[7].correlation[0, 1] < -0.5


def test_a_public_sample_size_is_kept_and_scaled_back() -> None:
    """Twice as many rows promised as there are: three quarters of the pairs are missing and are divided out."""
    model, _ = simulated(correlated(0.8), domain_of(), 4, DPCopula(dependence=Kendall(sample_size=2 * ROWS)))
    assert model.correlation[0, 1] == pytest.approx(0.8, abs=0.05)
    smaller, _ = simulated(correlated(0.8), domain_of(), 4, DPCopula(dependence=Kendall(sample_size=4000)))
    assert smaller.correlation[0, 1] == pytest.approx(0.8, abs=0.1)


def test_bad_parameters_and_histograms_are_refused() -> None:
    wrong: list[dict[str, Any]] = [{"ratio": 0}, {"size_share": 1}, {"split_below": -1}, {"most_parts": 0}]
    for bad in wrong:
        with pytest.raises(InvalidInputError, match="nothing was released"):
            DPCopula(**bad)
    meter = Meter(Accountant(Guarantee(1, w=1), 3), ExactSampler(SeededSource(1)), 0)
    with pytest.raises(InvalidInputError, match="publishes tables"):
        DPCopula(margins=Geometric()).estimate(seal(np.arange(3), 0), Fraction(1), meter)
    assert not meter.charges


@pytest.mark.parametrize(
    "copula",
    [
        DPCopula(),
        DPCopula(margins=Geometric(), dependence=BlockMLE()),
        DPCopula(copula=Choice()),
        DPCopula(split_below=10, copula=Choice()),
    ],
    ids=str,
)
def test_a_model_is_made_of_the_meters_answers_and_nothing_else(copula: DPCopula) -> None:
    """Given the same answers, quite another table brings the same questions and the very same numbers."""
    domain = TableDomain({**domain_of(values=50).axes, "g": Categories(range(3))})
    layout = copula.layout(domain.shape)
    recording = Recording()
    numbers = []
    for rows, seed, kind in ((3000, 1, RecordingMeter), (40, 9, ReplayingMeter)):
        table = {**correlated(0.4, rows, 50, seed), "g": np.arange(rows) % (seed % 3 + 1)}
        accountant = Accountant(Guarantee(1, w=1), layout.size)
        meter = kind(accountant, ExactSampler(SeededSource(seed)), 0, recording)
        numbers.append(copula.estimate(layout.seal(read_rows(table, domain)), Fraction(1), meter).numbers)
    assert np.array_equal(numbers[0], numbers[1])
    assert not recording.entries
