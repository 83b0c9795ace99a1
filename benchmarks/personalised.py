"""Personal budgets: partitioning against the textbook recursion, and what the ledger adds to a release."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.report import Table, best_seconds
from veilstream.personalised import (
    LedgerAccounts,
    PeopleCounts,
    PersonalAccounts,
    PersonalMeter,
    Roster,
    Stretching,
    count_levels,
    privacy_aware,
    utility_based,
)
from veilstream.personalised.partition import count_loss, wasted

PEOPLE: Final = 10**6
LEVELS: Final = 10**4
# Budgets are public inputs of the measurement, not noise.
DRAW: Final = np.random.default_rng  # noqa: TID251


def run() -> Sequence[Table]:
    """All tables of the suite; utility is measured by ``python -m research reproduce personalised``."""
    return [_partitioning(), _recording()]


def _partitioning() -> Table:
    draw = DRAW(0)
    budgets = (draw.permutation(np.arange(PEOPLE)) % LEVELS + 1) / LEVELS
    ids = np.arange(PEOPLE)
    roster = Roster(ids, budgets)
    small = Roster.of_budgets(np.arange(1, 2001) / 2000)
    quick = best_seconds(lambda: privacy_aware(small, k=10), 3)
    textbook = best_seconds(lambda: _textbook(small, 10), 1)
    assert abs(wasted(small, privacy_aware(small, k=10)) - _textbook(small, 10)) < 1e-9
    calls: list[tuple[str, Callable[[], object]]] = [
        ("reading the roster (10⁶ people, 10⁴ budgets)", partial(Roster, ids, budgets)),
        ("privacy-aware, k = 10", partial(privacy_aware, roster, 10, 1000)),
        ("privacy-aware, best of k = 1..64", partial(privacy_aware, roster, None, 1000)),
        ("utility-based, any k", partial(utility_based, roster, count_loss(0.1), 1000)),
    ]
    rows = [[name, f"{best_seconds(call, 3):.2f} s", ""] for name, call in calls]
    rows.append(["privacy-aware, k = 10, 2,000 budgets", f"{quick * 1e3:.1f} ms", f"{textbook / quick:,.0f}×"])
    return Table(
        title="Partitioning",
        notes=(
            "10⁶ people with 10⁴ different budgets, groups of at least 1,000. The peer of the last row is the "
            "recursion over all pairs of cuts, vectorised over one of them, on the same budgets; the waste found is "
            "equal."
        ),
        columns=["what", "time", "faster than all pairs"],
        rows=rows,
    )


def _textbook(roster: Roster, k: int) -> float:
    """Least waste by the dynamic programme over all pairs of cuts."""
    budgets, sizes = roster.units / 2.0**24, roster.sizes.astype(np.float64)
    sums = [np.concatenate([[0.0], np.cumsum(sizes * budgets**power)]) for power in range(3)]
    best = np.full(roster.levels + 1, np.inf)
    best[0] = 0.0
    for _ in range(k):
        following = np.full_like(best, np.inf)
        for end in range(1, roster.levels + 1):
            low = budgets[:end]
            n, s, q = (part[end] - part[:end] for part in sums)
            following[end] = (best[:end] + q - 2 * low * s + low * low * n).min()
        best = following
    return float(best[-1])


def _people(levels: int) -> PeopleCounts:
    roster = Roster.of_budgets((np.arange(100_000) % levels + 1) / levels)
    return count_levels(roster, roster.level_of(np.arange(100_000)), np.arange(100_000) % 10, bins=10)


def _recording() -> Table:
    rows: list[list[str]] = []
    for levels in (10, 100, LEVELS):
        x = _people(levels)
        memory = best_seconds(partial(_in_memory, x), 5)
        with tempfile.TemporaryDirectory() as folder, LedgerAccounts(x.roster, Path(folder) / "budget.db") as accounts:
            # Every question is asked with a thousandth of the budgets, so that many can be paid.
            numbers = iter(range(1000))
            asked = best_seconds(lambda x=x, on=accounts, at=numbers: _asked(x, on, next(at)), 5)  # type: ignore[misc]
            charges = sum(1 for _ in accounts.ledger.charges(accounts.stream)) // next(numbers)
        rows.append([f"{levels:,}", f"{memory * 1e3:.1f} ms", f"{asked * 1e3:.1f} ms", f"{charges}"])
    return Table(
        title="A release on personal accounts",
        notes=(
            "Stretched counts of 100,000 people in 10 bins: accounts in memory, and accounts on an SQLite ledger with "
            "one durable commit. The last column: how many charges it takes to write everybody's own cost, exactly."
        ),
        columns=["different budgets", "in memory", "on a ledger", "charges written"],
        rows=rows,
    )


def _in_memory(x: PeopleCounts) -> None:
    Stretching(spread=0).estimate(x, PersonalMeter(PersonalAccounts(x.roster)))


def _asked(x: PeopleCounts, accounts: LedgerAccounts, number: int) -> None:
    accounts.release(f"question {number}", lambda meter: meter.stretched(x, Fraction(1, 1000), "stretched counts"))
