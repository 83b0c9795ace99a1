"""Who has which budget: public, exact, and sorted into levels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilstream.data.bounding.people import canonical_ids
from veilstream.data.readers import as_series
from veilstream.errors import InvalidBudgetError, InvalidInputError
from veilstream.privacy.rationals import Exact, rational

UNIT: Final = 1 << 24
"""Personal budgets are whole multiples of 1/UNIT: sums over people stay exact in 64 bits."""
MAX_BUDGET: Final = 1 << 10
MAX_PEOPLE: Final = 1 << 22
MAX_LEVELS: Final = 1 << 14


class Levels:
    """Distinct budgets ``units``/2²⁴, rising, and how many people have each."""

    __slots__ = ("sizes", "units")

    def __init__(self, units: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        self.units = units
        self.sizes = sizes

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.sizes.sum())

    @property
    def levels(self) -> int:
        """How many different budgets there are."""
        return int(self.units.size)

    @property
    def budgets(self) -> list[Fraction]:
        """The distinct budgets, rising."""
        return [Fraction(unit, UNIT) for unit in self.units.tolist()]

    @property
    def lowest(self) -> Fraction:
        """The lowest budget."""
        return Fraction(int(self.units[0]), UNIT)

    @property
    def highest(self) -> Fraction:
        """The highest budget."""
        return Fraction(int(self.units[-1]), UNIT)


class Roster(Levels):
    """The people that a release is about and the epsilon of each; all of it is public.

    What is protected is the *record* of a person on the roster: whether there is one, and what it says. Whether a
    person is on the roster, with which budget, and how many have the same, everybody may know: sorting people by
    budget would give it away anyhow. A budget must therefore not depend on what it protects.

    Budgets are rounded down to multiples of 2⁻²⁴ (or of ``step``); people of equal budgets form a *level*.

    >>> roster = Roster(["ann", "bob", "eve"], ["0.5", "0.1", "0.5"])
    >>> roster
    Roster(people=3, levels=2, epsilon=0.1..0.5)
    >>> roster.sizes.tolist(), roster.level_of(["eve", "bob"]).tolist()
    ([1, 2], [1, 0])
    """

    __slots__ = ("_ids", "_level")

    def __init__(
        self, ids: ArrayLike | Sequence[Any], budgets: ArrayLike | Sequence[Any], step: Exact | None = None
    ) -> None:
        people = _checked_ids(ids)
        distinct, which = _units(budgets, step)
        if which.size != people.size:
            raise InvalidInputError(f"roster of {people.size} people and {which.size} budgets")
        rising = bool((people[1:] > people[:-1]).all())
        order = np.arange(people.size) if rising else np.argsort(people, kind="stable")
        self._ids = people[order]
        twice = np.flatnonzero(self._ids[1:] == self._ids[:-1])
        if twice.size:
            raise InvalidInputError(
                "roster: a person is there twice, each may be there once",
                operator_note=f"the second time in row {int(order[twice[0] + 1]) + 1}",
            )
        units, merged = np.unique(distinct, return_inverse=True)
        level: NDArray[np.int64] = merged.reshape(-1)[which].astype(np.int64)
        super().__init__(units, np.bincount(level, minlength=units.size))
        self._level: NDArray[np.int64] = level[order]
        if self.units.size > MAX_LEVELS:
            raise InvalidBudgetError(
                f"roster with {self.units.size} different budgets: at most {MAX_LEVELS}; round them down with "
                "a step such as 0.001"
            )

    @classmethod
    def of_budgets(cls, budgets: ArrayLike | Sequence[Any], step: Exact | None = None) -> Self:
        """A roster of people who are known by their position 0, 1, 2, ...; budgets are multiples of ``step``."""
        return cls(np.arange(len(np.asarray(budgets))), budgets, step)

    def level_of(self, ids: ArrayLike | Sequence[Any]) -> NDArray[np.int64]:
        """The level of each of some people; everybody must be on the roster, and be named once."""
        wanted = _checked_ids(ids)
        if self._ids.dtype.kind != wanted.dtype.kind:
            wanted = wanted.astype(str) if self._ids.dtype.kind == "U" else wanted
        rows = np.minimum(np.searchsorted(self._ids, wanted), self._ids.size - 1)
        missing = np.flatnonzero(self._ids[rows] != wanted)
        if missing.size:
            raise InvalidInputError(
                "records: a person is not on the roster", operator_note=f"the first such row is {int(missing[0]) + 1}"
            )
        if np.unique(rows).size != rows.size:
            raise InvalidInputError("records: a person is there twice, each may have one record")
        return self._level[rows]

    def fingerprint(self) -> str:
        """A short text by which a ledger knows the same people with the same budgets again.

        Ids count as texts, in whatever order they were given: 7 and "7" are the same person.
        """
        names = self._ids.astype(np.str_)
        order = np.argsort(names, kind="stable")
        texts = "\0".join(names[order].tolist()).encode(errors="surrogatepass")
        digest = hashlib.sha256(texts)
        digest.update(self.units.astype("<i8").tobytes())
        digest.update(self._level[order].astype("<i8").tobytes())
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        ends = f"{float(self.lowest):.4g}..{float(self.highest):.4g}"
        return f"Roster(people={self.people}, levels={self.levels}, epsilon={ends})"


def _checked_ids(ids: ArrayLike | Sequence[Any]) -> NDArray[Any]:
    people: NDArray[Any] = np.asarray(ids)
    if people.dtype.kind in "OU" and people.ndim == 1:
        canonical = canonical_ids(as_series("person", ids if isinstance(ids, list) else people))
        if canonical.null_count():
            raise InvalidInputError("roster: a person has no id")
        people = np.asarray(canonical.to_list(), dtype=np.str_)
    if people.ndim != 1 or people.dtype.kind not in "iuU":
        raise InvalidInputError(
            f"ids of type {people.dtype} in {people.ndim} dimensions: one column of texts or whole numbers is needed"
        )
    if not 1 <= people.size <= MAX_PEOPLE:
        raise InvalidInputError(f"roster of {people.size} people: from 1 to {MAX_PEOPLE}")
    return people


def _units(budgets: ArrayLike | Sequence[Any], step: Exact | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Whole multiples of 1/UNIT, rounded down, of each different value, read exactly and once; and who has which."""
    given: NDArray[Any] = np.asarray(budgets)
    if given.dtype.kind not in "fiu":
        given = given.astype(object)
        texts = np.asarray([str(one) for one in given.tolist()], dtype=np.str_)
        _, first, inverse = np.unique(texts, return_index=True, return_inverse=True)
        distinct: list[Any] = [given[at] for at in first.tolist()]
    else:
        if given.dtype.kind == "f" and np.isnan(given).any():
            raise _bad_budget("a budget is missing", int(np.flatnonzero(np.isnan(given))[0]) + 1)
        values, first, inverse = np.unique(given, return_index=True, return_inverse=True)
        distinct = values.tolist()
    grain = None if step is None else rational(step, "step", InvalidBudgetError)
    if grain is not None and grain <= 0:
        raise InvalidBudgetError(name="step", value=step, limit="it must be above 0")
    units = [_one(value, int(at) + 1, grain) for value, at in zip(distinct, first.tolist(), strict=True)]
    return np.asarray(units, dtype=np.int64), inverse.reshape(-1).astype(np.int64)


def _one(value: Any, row: int, grain: Fraction | None) -> int:
    if value is None or value == "":
        raise _bad_budget("a budget is missing", row)
    try:
        exact = rational(value, "budget", InvalidBudgetError)
    except InvalidBudgetError:
        raise _bad_budget("a budget is not a number", row) from None
    if not 0 < exact <= MAX_BUDGET:
        raise _bad_budget(f"a budget must be above 0 and at most {MAX_BUDGET}", row)
    rounded = exact if grain is None else exact // grain * grain
    units = int(rounded * UNIT)
    if units == 0:
        least = Fraction(1, UNIT) if grain is None else grain
        raise _bad_budget(f"a budget rounded down to a multiple of {least} is 0", row)
    return units


def _bad_budget(problem: str, row: int) -> InvalidBudgetError:
    """What stands there is not told: it may be of another column."""
    return InvalidBudgetError(
        f"roster: {problem}", name="budget", operator_note=f"the budget of row {row}", next_step="correct the row"
    )
