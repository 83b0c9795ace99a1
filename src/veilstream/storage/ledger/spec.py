"""What a stream is: recorded once in its row, compared whenever it is opened again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from veilstream.data import Domain
from veilstream.errors import LedgerMismatchError
from veilstream.storage.ledger.anchor import Anchor

UNRECORDED: Final = "unrecorded"
"""Of a calendar or a key that a ledger of schema 0001 did not keep: the next run that gives one records it."""
VALUES: Final = json.dumps({"kind": "values"})


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """What a stream is.

    ``domain`` and ``calendar`` are JSON, ``key`` is the id of the bounding key, ``per_timestamp`` says how charges add
    up, and ``payload`` what kind of thing is released.
    """

    name: str
    guarantee: str
    mechanism: str
    bins: int
    domain: str | None
    max_contribution: int
    calendar: str | None = None
    key: str | None = None
    per_timestamp: bool = False
    payload: str = VALUES

    @property
    def anchor(self) -> Anchor | None:
        """Which time each step is, where that is recorded."""
        return None if self.calendar in (None, UNRECORDED) else Anchor.from_json(self.calendar)

    def recorded_domain(self) -> Domain | None:
        """The public bins, where they are recorded."""
        if self.domain is None or not self.domain.startswith("{"):
            return None
        loaded: dict[str, Any] = json.loads(self.domain)
        return Domain.from_json(loaded)


def domain_text(domain: Domain) -> str:
    """A domain as a ledger records it: attributes in their order.

    >>> from veilstream.data import Categories
    >>> domain_text(Domain({"place": Categories(["a", "b"])}))
    '{"place":["a","b"]}'
    """
    return json.dumps(domain.to_json(), separators=(",", ":"))


def boxes_of(shape: tuple[int, ...]) -> str:
    """The payload of boxes on a grid of ``shape``."""
    return json.dumps({"kind": "boxes", "shape": list(shape)})


@dataclass(frozen=True, slots=True)
class Given:
    """A stream as it is opened, and how to know what an earlier schema recorded of it."""

    spec: StreamSpec
    recognises: Callable[[str], bool]
    fingerprint: str | None = None

    def completed(self, recorded: StreamSpec) -> StreamSpec:
        """The recorded stream with what an earlier schema left out, as far as it is given and fits."""
        given = self.spec
        if recorded.mechanism != given.mechanism and self.recognises(recorded.mechanism):
            recorded = replace(recorded, mechanism=given.mechanism)
        if recorded.domain is not None and recorded.domain == self.fingerprint:
            recorded = replace(recorded, domain=given.domain)
        if recorded.calendar == UNRECORDED and given.calendar is not None:
            recorded = replace(recorded, calendar=given.calendar)
        if recorded.key == UNRECORDED and given.key is not None:
            recorded = replace(recorded, key=given.key)
        return recorded

    def check(self, recorded: StreamSpec, label: str) -> None:
        """Refuse a stream that is not the recorded one."""
        for f in fields(StreamSpec):
            given, known = getattr(self.spec, f.name), getattr(recorded, f.name)
            undated = given is None and (known == UNRECORDED or f.name == "calendar")
            if given != known and not undated:
                raise LedgerMismatchError(
                    f"stream {self.spec.name!r} in ledger {label}: {f.name} is recorded as {known!r}, given {given!r}"
                    f"{WHY.get(f.name, '')}",
                    name=f.name,
                    value=given,
                    limit=f"recorded as {known!r}",
                    outcome="nothing was changed, nothing was released",
                )


WHY: Final = {
    "calendar": "; steps would mean other times, and people would be charged twice",
    "key": "; other rows of a person would count than before",
}
