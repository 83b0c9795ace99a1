"""One release of records on a ledger: boxes of a domain too large to list, charged once and given again for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl

from veilstream.data import Axis, Categories, Domain, Edges
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.identity import describe, recognises
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population import Membership, Population
from veilstream.privacy.rationals import Exact
from veilstream.release.once import release_once
from veilstream.storage.ledger import Ledger, StreamSpec
from veilstream.storage.ledger.spec import boxes_of, domain_text
from veilstream.trusted.meter import Meter
from veilstream.trusted.records import SealedRecords
from veilstream.values.boxes import Boxes
from veilstream.values.postprocess import Step, post_process
from veilstream.values.release import Release
from veilstream.values.values import NoiseLaw, Values, half_width


@runtime_checkable
class RecordMechanism(Protocol):
    """A histogram method that takes records: ``PSD`` and ``FilterPriority``."""

    def estimate_records(self, records: SealedRecords, epsilon: Fraction, meter: Meter) -> Boxes: ...


@dataclass(frozen=True, slots=True)
class OnRecords:
    """What is recorded of a release: the method, the domain's shape and the steps of post-processing."""

    mechanism: RecordMechanism
    shape: tuple[int, ...]
    steps: tuple[Step, ...] = ()

    def estimate(self, records: SealedRecords, epsilon: Fraction, meter: Meter) -> Boxes:
        boxes = self.mechanism.estimate_records(records, epsilon, meter)
        if not self.steps or not boxes.size:
            return boxes
        values = post_process(Values(boxes.values, boxes.std, NoiseLaw.MIXED), self.steps)
        return Boxes(boxes.shape, boxes.low, boxes.high, values.numbers.astype(np.float64), values.std)


@dataclass(frozen=True, slots=True, eq=False)
class BoxRelease:
    """Committed boxes, with the release that holds them."""

    boxes: Boxes
    release: Release

    @property
    def spent(self) -> Fraction:
        return self.release.spent

    def table(self, domain: Domain, level: float = 0.95) -> pl.DataFrame:
        """One row per box: of each attribute the first and last category or its edges, then the count and its interval.

        ``noise_low`` and ``noise_high`` hold the box's value before noise with probability at least ``level`` if the noise is
        symmetric (that of listed cells is skewed, as they passed a filter). They do not tell how uneven the data are
        inside a box.
        """
        columns: dict[str, pl.Series] = {}
        for position, (name, axis) in enumerate(domain.axes.items()):
            begin, end = _ends(name, axis)
            first, last = self.boxes.low[:, position], self.boxes.high[:, position] - 1
            if isinstance(axis, Categories):
                columns[begin], columns[end] = axis.labels()[first], axis.labels()[last]
            else:
                edges = np.array(axis.edges) if isinstance(axis, Edges) else axis.bounds()
                columns[begin], columns[end] = pl.Series(edges[first]), pl.Series(edges[last + 1])
        width = half_width(level, self.boxes.std, NoiseLaw.MIXED, integer=False)
        values = self.boxes.values
        ends = {"noise_low": pl.Series(values - width), "noise_high": pl.Series(values + width)}
        columns |= {"value": pl.Series(values), **ends}
        return pl.DataFrame(columns)


def _ends(name: str, axis: Axis) -> tuple[str, str]:
    """What the columns of an attribute are called: categories are named from first to last, numbers by their edges."""
    return (f"{name}_first", f"{name}_last") if isinstance(axis, Categories) else (f"{name}_from", f"{name}_to")


def release_records(
    records: SealedRecords,
    epsilon: Exact,
    mechanism: RecordMechanism,
    ledger: str | Path | Ledger | None = None,
    *,
    name: str = "records",
    domain: Domain | None = None,
    steps: tuple[Step, ...] = (),
    population: str | Population | Membership | None = None,
) -> BoxRelease:
    """Publish the records of step 0 once, for ``epsilon`` over all that a person ever does.

    Charges and boxes are committed to ``ledger`` (in memory by default) in one transaction, and the boxes exist only
    afterwards. Under the same ``name`` the stored boxes come back and nothing is spent; another method, shape,
    ``domain``, epsilon or other ``steps`` are refused. If the method raises after it was charged, the charges stay.
    With ``population`` it draws on one, see ``Publisher``.

    >>> from veilstream.mechanisms.histograms import FilterPriority
    >>> from veilstream.trusted.records import seal_records
    >>> rows = np.tile([[3, 5, 7, 11, 13, 17, 19, 23]], (5000, 1))
    >>> with Ledger.open(None) as book:
    ...     first = release_records(seal_records(rows, (1000,) * 8, t=0), 1, FilterPriority(), book)
    ...     again = release_records(seal_records(rows, (1000,) * 8, t=0), 1, FilterPriority(), book)
    >>> first.release.seq == again.release.seq, bool(abs(again.boxes.total - 5000) < 400), again.spent
    (True, True, Fraction(1, 1))
    """
    if (records.span.first, records.span.last) != (0, 0):
        raise InvalidInputError(f"records of steps {records.span.first}..{records.span.last}: they must be of step 0")
    if domain is not None and domain.shape != records.shape:
        raise InvalidInputError(f"records of shape {records.shape}: the domain has shape {domain.shape}")
    guarantee = Guarantee(epsilon, w=None)
    method = OnRecords(mechanism, records.shape, steps)
    spec = StreamSpec(
        name=name,
        guarantee=guarantee.to_json(),
        mechanism=describe(method),
        bins=2 * len(records.shape) + 1,
        domain=None if domain is None else domain_text(domain),
        max_contribution=int(records.l1),
        payload=boxes_of(records.shape),
    )
    release = release_once(
        ledger,
        spec,
        lambda meter: method.estimate(records, guarantee.epsilon, meter),
        recognises=lambda recorded: recognises(recorded, method),
        fingerprint=None if domain is None else domain.fingerprint(),
        population=population,
    )
    assert isinstance(release.payload, Boxes)
    return BoxRelease(release.payload, release)
