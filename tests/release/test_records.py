"""Records on a ledger: one release, one charge, the same boxes ever after."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from veilstream.data import Categories, Domain, Edges, Grid
from veilstream.errors import BudgetExceededError, InvalidInputError, LedgerMismatchError
from veilstream.mechanisms.histograms import PSD, FilterPriority
from veilstream.release.records import RecordMechanism, release_records
from veilstream.storage.ledger import Ledger
from veilstream.synthesis import TableDomain
from veilstream.trusted.meter import Meter
from veilstream.trusted.opening import open_records
from veilstream.trusted.records import SealedRecords, seal_records
from veilstream.trusted.rows import ordered_rows
from veilstream.values.boxes import Boxes
from veilstream.values.postprocess import ConsistentTotal, Whole

SHAPE = (1000,) * 8


def records(people: int = 3000, shape: tuple[int, ...] = SHAPE) -> SealedRecords:
    rows = np.arange(people)[:, None] * np.arange(1, len(shape) + 1) % np.array(shape)
    return seal_records(rows, shape, 0)


@pytest.mark.parametrize("method", [PSD(), FilterPriority()], ids=["psd", "fp"])
def test_a_release_outlives_the_process_and_costs_once(method: RecordMechanism, tmp_path: Path) -> None:
    book = tmp_path / "budget.db"
    first = release_records(records(), "1/2", method, book)
    again = release_records(records(), "1/2", method, book)
    assert again.release.seq == first.release.seq
    assert again.spent == first.spent == Fraction(1, 2)
    for one, other in zip(_parts(first.boxes), _parts(again.boxes), strict=True):
        assert np.array_equal(one, other)
    with Ledger.open(book) as ledger:
        charges = list(ledger.charges("records"))
        assert sum(row.charge.epsilon for row in charges) == Fraction(1, 2)
        (release,) = ledger.releases("records")
        assert release.left == 0


def _parts(boxes: Boxes) -> list[Any]:
    return [boxes.low, boxes.high, boxes.values, boxes.std]


def test_what_comes_out_is_what_the_method_gives() -> None:
    """At a huge epsilon there is no noise: the leaves of a tree over a small domain are the counts."""
    counts = np.array([[5, 0], [2, 9], [0, 0]])
    rows = np.repeat(np.argwhere(counts >= 0), counts.ravel(), axis=0)
    done = release_records(seal_records(rows, (3, 2), 0), 10**6, PSD(prune=0.0))
    assert done.boxes.dense() == pytest.approx(counts)
    assert np.asarray(done.boxes.std) == pytest.approx(np.zeros(done.boxes.size), abs=1e-6)


def test_nothing_listed_is_a_release_too() -> None:
    done = release_records(seal_records(np.zeros((0, 8), dtype=np.int64), SHAPE, 0), 1, FilterPriority(levels=1))
    assert done.boxes.total >= 0
    assert done.spent == 1
    tidy = release_records(
        seal_records(np.zeros((0, 8), dtype=np.int64), SHAPE, 0), 1, FilterPriority(levels=1), steps=(Whole(),)
    )
    assert tidy.boxes.size >= 0


def test_post_processing_is_part_of_what_was_released() -> None:
    with Ledger.open(None) as book:
        done = release_records(records(), "1/10", PSD(height=6), book, steps=(ConsistentTotal(), Whole()))
        assert done.boxes.values.min() >= 0
        assert np.array_equal(done.boxes.values, np.rint(done.boxes.values))
        with pytest.raises(LedgerMismatchError, match="mechanism"):
            release_records(records(), "1/10", PSD(height=6), book)


def test_another_question_under_the_same_name_is_refused() -> None:
    attributes = TableDomain({f"x{i}": Grid(0, 1000, 1000) for i in range(8)})
    with Ledger.open(None) as book:
        release_records(records(), 1, PSD(height=4), book, domain=attributes)
        with pytest.raises(LedgerMismatchError, match="guarantee"):
            release_records(records(), 2, PSD(height=4), book, domain=attributes)
        with pytest.raises(LedgerMismatchError, match="mechanism"):
            release_records(records(), 1, PSD(height=5), book, domain=attributes)
        with pytest.raises(LedgerMismatchError, match="domain"):
            release_records(records(), 1, PSD(height=4), book)
        with pytest.raises(LedgerMismatchError, match="mechanism"):
            release_records(records(shape=(1000,) * 7), 1, PSD(height=4), book)


@dataclass(frozen=True)
class Fails:
    """Charges half of epsilon and then fails."""

    def estimate_records(self, records: SealedRecords, epsilon: Fraction, meter: Meter) -> Boxes:
        meter.laplace(records.counts(), epsilon / 2, "count")
        raise RuntimeError


def test_charges_of_a_failed_attempt_stay() -> None:
    with Ledger.open(None) as book:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                release_records(records(), 1, Fails(), book)
        with pytest.raises(BudgetExceededError):
            release_records(records(), 1, Fails(), book)
        assert [row.charge.epsilon for row in book.charges("records")] == [Fraction(1, 2)] * 2
        assert list(book.releases("records")) == []


def test_records_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="step 0"):
        release_records(seal_records(np.zeros((1, 2), dtype=np.int64), (3, 3), 4), 1, PSD())
    with pytest.raises(InvalidInputError, match="the domain has shape"):
        release_records(records(), 1, PSD(), domain=Domain({"x": Grid(0, 1, 4)}))


def test_a_table_names_the_ends_of_every_box() -> None:
    domain = Domain({"place": Categories(["a", "b", "c"]), "age": Edges([0, 18, 65]), "x": Grid(0, 1, 4)})
    done = release_records(records(shape=domain.shape), 10, PSD(height=1), domain=domain)
    table = done.table(domain)
    assert table.columns == [
        "place_first",
        "place_last",
        "age_from",
        "age_to",
        "x_from",
        "x_to",
        "value",
        "noise_low",
        "noise_high",
    ]
    assert table.select(table.columns[:6]).rows() == [("a", "b", 0, 65, 0, 1), ("c", "c", 0, 65, 0, 1)]
    assert (table["noise_low"] <= table["value"]).all()
    assert (table["value"] <= table["noise_high"]).all()


def test_rows_become_records_whose_bound_is_theirs() -> None:
    columns = [np.array([3, 1, 3, 0]), np.array([0, 1, 0, 1])]
    rows = ordered_rows(columns, np.arange(4, dtype=np.uint64), (4, 2), t=0, max_contribution=2)
    cells, counts = open_records(rows.records())
    assert (cells.tolist(), counts.tolist()) == ([[0, 1], [1, 1], [3, 0]], [1, 1, 2])
    assert rows.records().l1 == 2
    empty = ordered_rows([np.zeros(0, dtype=np.int64)] * 2, np.zeros(0, dtype=np.uint64), (4, 2), t=0)
    assert open_records(empty.records())[1].size == 0
