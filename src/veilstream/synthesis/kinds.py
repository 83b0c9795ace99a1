"""The kinds of models of tables, and which of them suits a domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.data import Categories
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.identity import recognises
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams.uniform import Uniform
from veilstream.privacy.rationals import Exact
from veilstream.synthesis.copula import DPCopula
from veilstream.synthesis.domain import TableDomain
from veilstream.synthesis.graph import MarginalGraph
from veilstream.synthesis.graph_layout import GraphLayout
from veilstream.synthesis.graph_model import GraphModel
from veilstream.synthesis.graph_stream import MarginalStream
from veilstream.synthesis.layout import Layout
from veilstream.synthesis.model import CopulaModel

TableMechanism: TypeAlias = DPCopula | MarginalGraph
TableModel: TypeAlias = CopulaModel | GraphModel
MANY_ATTRIBUTES: Final = 14
"""Attributes from which on Gaussian noise for delta = 1e-9 is below Laplace noise at ε = 1."""


def automatic(domain: TableDomain, delta: Exact = 0, target: str | None = None) -> MarginalGraph:
    """The mechanism for a domain: ``MarginalGraph``, which decides by noisy answers what is worth measuring.

    Gaussian noise, where ``delta`` allows it, is the smaller one only if many tables share the budget. A ``target`` is
    an attribute that others will be used to predict.

    >>> from veilstream.data import Grid
    >>> automatic(TableDomain({n: Grid(0, 1000, 1000) for n in "xy"})).noise
    'laplace'
    >>> automatic(TableDomain({f"x{i}": Categories(["a", "b"]) for i in range(20)}), "1e-9").noise
    'gaussian'
    """
    many = len(domain.axes) >= MANY_ATTRIBUTES
    return MarginalGraph(noise="gaussian" if delta and many else "laplace", target=target)


def as_begun(
    mechanism: TableMechanism,
    domain: TableDomain,
    recorded: str | None,
    stream: Callable[[TableMechanism], StreamMechanism[Any]],
    former: TableMechanism | None = None,
) -> TableMechanism:
    """What the automatic choice means for a stream that a ledger records: a copula, if it began with one.

    Former versions took copulas for domains whose attributes have many values; such a stream goes on with them.
    """
    former = former or DPCopula()
    if recorded is None or recognises(recorded, stream(for_domain(mechanism, domain))):
        return mechanism
    return former if recognises(recorded, stream(for_domain(former, domain))) else mechanism


def aimed_at(mechanism: TableMechanism, target: str | None) -> TableMechanism:
    """The mechanism with a target, if there is one.

    >>> aimed_at(MarginalGraph(), "member").target
    'member'
    """
    if target is None:
        return mechanism
    if isinstance(mechanism, DPCopula):
        raise InvalidInputError(
            name="target",
            value=target,
            limit="a copula measures all dependence alike",
            outcome="nothing was released",
            next_step="give MarginalGraph (--method pairs), or no target",
        )
    return replace(mechanism, target=target)


def refreshed(mechanism: TableMechanism) -> StreamMechanism[Any]:
    """A model of a changing table at every step, on the ground of the last one where its mechanism has a structure.

    >>> type(refreshed(MarginalGraph())).__name__, type(refreshed(DPCopula())).__name__
    ('MarginalStream', 'Uniform')
    """
    return MarginalStream(mechanism) if isinstance(mechanism, MarginalGraph) else Uniform(mechanism)


def for_domain(mechanism: TableMechanism, domain: TableDomain) -> TableMechanism:
    """The mechanism as a ledger records it, and what it may know of the attributes beyond their sizes."""
    schema = domain.fingerprint()
    if isinstance(mechanism, DPCopula):
        return replace(mechanism, schema=schema)
    ordered = tuple(not isinstance(axis, Categories) for axis in domain.axes.values())
    target = mechanism.target
    if isinstance(target, str):
        if target not in domain.names:
            raise InvalidInputError(
                name="target",
                value=target,
                limit=f"the attributes are {', '.join(domain.names)}",
                outcome="nothing was released",
            )
        target = domain.names.index(target)
    return replace(
        mechanism, schema=schema, target=target, ordered=ordered if mechanism.ordered is None else mechanism.ordered
    )


def model_of(
    domain: TableDomain,
    layout: Layout | GraphLayout,
    numbers: NDArray[np.float64],
    spent: Fraction,
) -> TableModel:
    """The model that released numbers are."""
    if isinstance(layout, GraphLayout):
        return GraphModel(domain, layout, numbers, spent)
    return CopulaModel(domain, layout, numbers, spent)
