"""Models of tables on a ledger: once, or of a table that changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from veilstream.data import Calendar, Domain
from veilstream.data.bounding.keyed import Key
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams.uniform import Uniform
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Membership, Population
from veilstream.privacy.rationals import Exact
from veilstream.release.publisher import Publisher
from veilstream.storage.ledger import Ledger
from veilstream.storage.location import locate
from veilstream.synthesis.domain import TableDomain, table_domain
from veilstream.synthesis.graph import MarginalGraph
from veilstream.synthesis.kinds import TableMechanism, TableModel, aimed_at, as_begun, automatic, for_domain, model_of
from veilstream.synthesis.rows import read_rows
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.rows import SealedRows
from veilstream.values.release import Release


class TablePublisher:
    """Publishes a model of a changing table within one guarantee, on a ledger.

    ``copula`` says how the table is modelled, as for ``fit``.

    ``stream`` makes a stream mechanism from the histogram mechanism for tables, such as
    ``lambda copula: DSAT(histogram=copula)``: the table is then modelled anew only when it has moved far
    enough from the last model, and the last model stands in between. What is compared are the margins: a change of
    dependence that leaves every margin as it was goes unnoticed until the next release. ``refreshed`` makes a model at
    every step on the ground of the last one. With ``calendar`` the ledger records which time a step is.

    >>> from veilstream.data import Grid
    >>> from veilstream.mechanisms.streams import FixedRate
    >>> domain = TableDomain({n: Grid(0, 50, 50) for n in "xy"})
    >>> publisher = TablePublisher(domain, Guarantee(1, w=4), lambda copula: FixedRate(interval=2, histogram=copula))
    >>> month = {"x": np.arange(900) % 50, "y": np.arange(900) % 49}
    >>> [publisher.feed(month, t).spent for t in range(3)]
    [Fraction(1, 2), Fraction(0, 1), Fraction(1, 2)]
    """

    def __init__(
        self,
        domain: Domain,
        guarantee: Guarantee,
        stream: Callable[[TableMechanism], StreamMechanism[Any]] = Uniform,
        copula: TableMechanism | None = None,
        ledger: str | Path | Ledger | None = None,
        *,
        name: str = "table",
        rows_per_user: int = 1,
        population: str | Population | Membership | None = None,
        calendar: Calendar | None = None,
    ) -> None:
        self.domain: TableDomain = table_domain(domain)
        if copula is None:
            copula = as_begun(automatic(self.domain), self.domain, recorded_mechanism(ledger, name), stream)
        self.copula = for_domain(copula, self.domain)
        self.layout = self.copula.layout(self.domain.shape)
        self.rows_per_user = rows_per_user
        moved = rows_per_user * (1 + len(self.layout.modelled))
        self.publisher: Publisher[Any] = Publisher(
            self.layout.size,
            guarantee,
            stream(self.copula),
            ledger,
            stream=name,
            max_contribution=moved,
            population=population,
            calendar=calendar,
        )

    @hide_frames
    def feed(
        self,
        table: Any,
        t: int,
        *,
        user: str | None = None,
        unknown: Literal["error", "drop"] = "error",
        key: Key | None = None,
    ) -> TableModel:
        """Publish (or republish) the model of the table at step ``t``; a step fed again gives the stored one."""
        if not isinstance(table, SealedRows):
            table = read_rows(
                table, self.domain, user=user, rows_per_user=self.rows_per_user, unknown=unknown, t=t, key=key
            )
        return self.model(self.publisher.feed(self.layout.seal(table), t))

    def model(self, release: Release) -> TableModel:
        """The model that a release holds."""
        numbers = np.asarray(release.values, dtype=np.float64)
        return model_of(self.domain, self.layout, numbers, release.spent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.publisher.close()


def recorded_mechanism(ledger: str | Path | Ledger | None, name: str) -> str | None:
    """What a ledger says of the mechanism of a stream, if both exist; a ledger that does not is not made."""
    if ledger is None:
        return None
    if not isinstance(ledger, Ledger):
        file = locate(ledger).file
        if file is not None and not file.is_file():
            return None
        with Ledger.open(ledger) as book:
            return recorded_mechanism(book, name)
    return next((spec.mechanism for spec in ledger.streams() if spec.name == name), None)


def guarantee_of(epsilon: Exact, delta: Exact, mechanism: TableMechanism) -> Guarantee:
    """The guarantee of one table; for Gaussian noise, a fifth of ε is for what is chosen and the rest for the noise.

    Other mechanisms need no delta: what they promise holds with any.
    """
    if delta == 0 or not (isinstance(mechanism, MarginalGraph) and mechanism.noise == "gaussian"):
        return Guarantee(epsilon, w=1)
    return Guarantee(epsilon, w=1, delta=delta, pure_share="1/5")


@hide_frames
def fit(
    table: Any,
    domain: Domain,
    epsilon: Exact,
    copula: TableMechanism | None = None,
    ledger: str | Path | Ledger | None = None,
    *,
    name: str = "table",
    user: str | None = None,
    rows_per_user: int = 1,
    unknown: Literal["error", "drop"] = "error",
    delta: Exact = 0,
    target: str | None = None,
    population: str | Population | Membership | None = None,
) -> TableModel:
    """A private model of one table for ``epsilon``, and ``delta`` where Gaussian noise makes use of it.

    ``table`` is a CSV or Parquet file, or a Polars, pandas or Arrow table; ``domain`` the public bins of its
    attributes. ``copula`` says how the table is modelled: ``DPCopula``, or ``MarginalGraph``, which is the default.
    ``target`` names an attribute that classifiers will predict from the others: its dependence on each of them is
    measured first. The charge and the model are committed together to ``ledger`` (in memory by default): fitting again
    under the same ``name`` gives the stored model and costs nothing. Nobody may have more than ``rows_per_user`` rows:
    with ``user``, the column of ids, that is enforced, without it it is the caller's promise. With ``population`` the
    model draws on one; a ``Membership`` says from when the table is, else it counts for ever.

    >>> from veilstream.data import Categories, Grid
    >>> ages = TableDomain({"age": Grid(0, 100, 100), "member": Categories([False, True])})
    >>> people = {"age": np.arange(2000) % 80, "member": np.arange(2000) % 80 > 30}
    >>> model = fit(people, ages, "1/2")
    >>> model.spent, model.sample(5, seed=1).shape
    (Fraction(1, 2), (5, 2))
    """
    if copula is None:
        known = table_domain(domain)
        mechanism = as_begun(automatic(known, delta, target), known, recorded_mechanism(ledger, name), Uniform)
    else:
        mechanism = aimed_at(copula, target)
    with TablePublisher(
        domain,
        guarantee_of(epsilon, delta, mechanism),
        Uniform,
        mechanism,
        ledger,
        name=name,
        rows_per_user=rows_per_user,
        population=population,
    ) as publisher:
        return publisher.feed(table, 0, user=user, unknown=unknown)
