"""Every mechanism that can publish, with the claims that the auditor attacks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from types import ModuleType
from typing import Any, Final

import veilstream.metric
import veilstream.personalised
import veilstream.series.fourier
import veilstream.synthesis
from veilstream.audit.attack import Claim
from veilstream.audit.grouping_entries import GROUPING_CLAIMS
from veilstream.audit.histogram_entries import HISTOGRAM_CLAIMS, SERIES_CLAIMS
from veilstream.audit.measure_entries import MEASURE_CLAIMS
from veilstream.audit.metric_entries import METRIC_CLAIMS
from veilstream.audit.model_entries import MODEL_CLAIMS
from veilstream.audit.personal_entries import PERSONAL_CLAIMS
from veilstream.audit.presence_entries import PRESENCE_CLAIMS
from veilstream.audit.renewal_entries import RENEWAL_CLAIMS
from veilstream.audit.stream_entries import STREAM_CLAIMS
from veilstream.audit.table_entries import TABLE_CLAIMS
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS
from veilstream.privacy.presence_renewal import Renewal


def _with_bounding(name: str, entry: Callable[[], list[Claim]]) -> Callable[[], list[Claim]]:
    """The claims of a stream with those about what bounding makes of rows: people in few steps, people, and values."""
    more = [claims[name] for claims in (PRESENCE_CLAIMS, MEASURE_CLAIMS) if name in claims]
    return lambda: [claim for of in (entry, *more) for claim in of()]


AUDITS: Final[dict[str, Callable[[], list[Claim]]]] = {
    **{name: _with_bounding(name, entry) for name, entry in (STREAM_CLAIMS | MODEL_CLAIMS | GROUPING_CLAIMS).items()},
    **HISTOGRAM_CLAIMS,
    **SERIES_CLAIMS,
    **TABLE_CLAIMS,
    **PERSONAL_CLAIMS,
    **METRIC_CLAIMS,
    **RENEWAL_CLAIMS,
}
"""Name -> the claims of a mechanism: names of the catalogues, classes where there is none."""

METHODS: Final = ("estimate", "fit", "correlations", "pick", "step")
"""What a class has that publishes from sealed data."""


def claims_of(name: str) -> list[Claim]:
    """The claims of the mechanism called ``name``.

    >>> [claim.name for claim in claims_of("sample")][0]
    'constant history, epsilon 1 within any 3 successive steps'
    """
    if name not in AUDITS:
        near = get_close_matches(name, AUDITS, n=2, cutoff=0.5)
        hint = f", did you mean {' or '.join(map(repr, near))}?" if near else "."
        raise InvalidInputError(name="mechanism", value=name, limit=f"unknown{hint} Audited are {', '.join(AUDITS)}")
    return AUDITS[name]()


def publishing() -> Iterator[str]:
    """The names of all mechanisms that can publish, read from the catalogues and the public classes themselves."""
    yield from STREAMS
    yield from HISTOGRAMS
    yield Renewal.__name__
    for module in (veilstream.series.fourier, veilstream.synthesis, veilstream.personalised, veilstream.metric):
        yield from (name for name, kind in _classes(module).items() if _publishes(kind))


def _classes(module: ModuleType) -> Mapping[str, type[Any]]:
    return {
        name: kind
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and not name.startswith("_") and kind.__module__.startswith(module.__name__)
    }


def _publishes(kind: type[Any]) -> bool:
    return any(hasattr(kind, method) for method in METHODS) and not getattr(kind, "_is_protocol", False)
