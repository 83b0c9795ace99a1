"""Tables whose attributes have many values: margins in cells, and models that began as copulas."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from tests.cli.support import veilstream
from veilstream import Guarantee
from veilstream.data import Calendar, Grid
from veilstream.data.bounding.keyed import Key
from veilstream.errors import LedgerMismatchError
from veilstream.mechanisms.session import Session
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.storage.ledger import Ledger
from veilstream.synthesis import DPCopula, MarginalGraph, TableDomain, fit, fit_over_time, refreshed
from veilstream.synthesis.fitting import recorded_mechanism
from veilstream.synthesis.graph_budget import Budget
from veilstream.synthesis.graph_layout import GraphLayout
from veilstream.synthesis.graph_model import GraphModel
from veilstream.synthesis.kinds import for_domain, model_of
from veilstream.synthesis.model import CopulaModel
from veilstream.synthesis.resolution import variation_of_margins
from veilstream.synthesis.rows import content_hashes
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.meter import Meter
from veilstream.trusted.rows import ordered_rows

FINE = TableDomain({name: Grid(0, 1000, 1000) for name in ("age", "income", "hours")})
Codes = NDArray[np.int64]


def people(count: int = 3000) -> Codes:
    """Three correlated attributes."""
    rng = np.random.default_rng(5)  # noqa: TID251 (test data)
    common = rng.normal(size=count)
    columns = [500 + 120 * (0.8 * common + 0.6 * rng.normal(size=count)) for _ in FINE.names]
    return np.clip(np.stack(columns, axis=1), 0, 999).astype(np.int64)


def drawn(mechanism: DPCopula | MarginalGraph, epsilon: str, seed: int) -> tuple[Codes, Meter]:
    mechanism = for_domain(mechanism, FINE)
    layout = mechanism.layout(FINE.shape)
    columns = [np.ascontiguousarray(column) for column in people().T]
    rows = ordered_rows(columns, content_hashes(columns, Key(bytes(16))), FINE.shape, 0)
    guarantee = Guarantee(epsilon, w=1)
    meter = Session(Accountant(guarantee, layout.size), ExactSampler(SeededSource(seed))).at(0)
    values = mechanism.estimate(layout.seal(rows), guarantee.epsilon, meter)
    model = model_of(FINE, layout, np.asarray(values.numbers, dtype=np.float64), guarantee.epsilon)
    return np.stack(model.sample_codes(3000, seed=seed), axis=1), meter


def variation(codes: Codes) -> float:
    """Mean total variation of the pairs' tables from the true ones, in cells of 50 x 50."""
    tables: list[NDArray[np.float64]] = []
    for rows in (people(), codes):
        cells = rows // 50
        pairs = [np.bincount(cells[:, j] * 20 + cells[:, k], minlength=400) for j, k in ((0, 1), (0, 2), (1, 2))]
        tables.append(np.stack(pairs) / len(rows))
    return float(np.abs(tables[0] - tables[1]).sum()) / 6


@pytest.mark.parametrize("epsilon", ["1/10", "1"])
def test_fine_attributes_are_modelled_better_than_by_a_copula(epsilon: str) -> None:
    """Seeded. The law is a normal copula's own; at ε = 1/10 most that it publishes of margins is noise."""
    errors = {
        kind: np.mean([variation(drawn(mechanism, epsilon, seed)[0]) for seed in range(4)])
        for kind, mechanism in (("graph", MarginalGraph()), ("copula", DPCopula()))
    }
    assert errors["graph"] < (0.8 if epsilon == "1/10" else 1.1) * errors["copula"]


def test_margins_in_cells_spend_what_single_values_would() -> None:
    _, meter = drawn(MarginalGraph(), "1/10", 1)
    assert meter.left == 0
    assert "fine cells" in {charge.purpose for charge in meter.charges}


def test_margins_are_measured_in_cells_where_single_values_say_little() -> None:
    budget = Budget("laplace", Fraction(1), Fraction(1))
    shape, ordered = (1000, 1000, 10), (True, False, True)
    assert budget.thin(shape, ordered, 500.0, Fraction(1)) == [0]
    assert budget.thin(shape, ordered, 1e6, Fraction(1)) == []
    assert Budget("gaussian", Fraction(1), Fraction(1)).thin(shape, ordered, 500.0, Fraction(1)) == []


def test_cells_bound_the_noise_of_margins_by_the_number_of_rows() -> None:
    layout, budget = GraphLayout((1000, 1000), (True, True)), Budget("laplace", Fraction(1, 10), Fraction(1))
    plain = variation_of_margins(layout, [0, 1], budget)
    few, many = (variation_of_margins(layout, [0, 1], budget, rows) for rows in (1000.0, 1e9))
    assert few < plain
    assert many == plain
    categories = GraphLayout((1000, 1000), (False, False))
    assert variation_of_margins(categories, [0, 1], budget, 1000.0) == plain


def frame() -> dict[str, NDArray[np.int64]]:
    return dict(zip(FINE.names, people(400).T, strict=True))


def test_a_model_that_began_as_a_copula_is_drawn_from_again(tmp_path: Path) -> None:
    path = tmp_path / "book.db"
    assert recorded_mechanism(path, "table") is None
    assert not path.exists()
    before = fit(frame(), FINE, 1, DPCopula(), path)
    again = fit(frame(), FINE, 1, ledger=path)
    assert isinstance(again, CopulaModel)
    assert again.rows == before.rows
    with Ledger.open(path) as book:
        assert isinstance(fit(frame(), FINE, 1, ledger=book), CopulaModel)
        assert isinstance(fit(frame(), FINE, 1, ledger=book, name="another"), GraphModel)
    with pytest.raises(LedgerMismatchError):
        fit(frame(), FINE, 1, MarginalGraph(), path)


def test_tables_over_time_that_began_as_copulas_go_on(tmp_path: Path) -> None:
    visits = {"week": np.arange(400) % 2, **frame()}
    guarantee, calendar = Guarantee(2, w=2), Calendar(0, 2, 1)
    began = fit_over_time(visits, FINE, guarantee, calendar, "week", DPCopula(), tmp_path / "book.db")
    again = fit_over_time(visits, FINE, guarantee, calendar, "week", ledger=tmp_path / "book.db")
    assert [type(model) for model in again] == [CopulaModel, CopulaModel]
    assert [model.rows for model in again] == [model.rows for model in began]
    assert type(refreshed(DPCopula())).__name__ == "Uniform"


def test_the_command_goes_on_with_a_copula(tmp_path: Path) -> None:
    domain = {name: {"low": 0, "high": 1000, "cells": 1000} for name in FINE.names}
    (tmp_path / "domain.json").write_text(json.dumps(domain))
    pl.DataFrame(people(300), list(FINE.names)).write_csv(tmp_path / "in.csv")
    files = [tmp_path / "in.csv", "--domain", tmp_path / "domain.json", "--out", tmp_path / "out.csv"]
    command = ["synthesize", *files, "--epsilon", "1", "--json"]
    assert veilstream(*command, "--method", "kendall").json["spent_now"] == "1"
    assert veilstream(*command).json["spent_now"] == "0"
