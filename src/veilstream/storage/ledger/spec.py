"""What a stream is: recorded once in its row, compared whenever it is opened again."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Final, cast

from veilstream.arguments import is_a
from veilstream.data import Domain
from veilstream.documents import read_json
from veilstream.errors import LedgerError, LedgerMismatchError
from veilstream.storage.ledger.anchor import Anchor
from veilstream.values.differences import differing

UNRECORDED: Final = "unrecorded"
"""Of a calendar or a key that a ledger of schema 0001 did not keep: the next run that gives one records it."""
VALUES: Final = json.dumps({"kind": "values"})
ALLOW_EMPTY: Final = "allow_empty"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """What a stream is.

    ``domain`` and ``calendar`` are JSON, ``key`` is the id of the bounding key, ``per_timestamp`` says how charges add
    up, ``payload`` what kind of thing is released, and ``membership`` (JSON) on which population it draws.
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
    membership: str | None = None

    def __post_init__(self) -> None:
        texts = (self.name, self.guarantee, self.mechanism, self.payload)
        maybe = (self.domain, self.calendar, self.key, self.membership)
        with rows_of_stream(str(self.name)):
            if not all(is_a(text, str) for text in (*texts, *(text for text in maybe if text is not None))):
                raise TypeError
            if not all(is_a(number, int) for number in (self.bins, self.max_contribution)):
                raise TypeError

    @property
    def anchor(self) -> Anchor | None:
        """Which time each step is, where that is recorded."""
        if self.calendar is None or self.calendar == UNRECORDED:
            return None
        with rows_of_stream(self.name):
            return Anchor.from_json(self.calendar)

    @property
    def allow_empty(self) -> bool | None:
        """Whether steps after the last row are released, where that is recorded."""
        with rows_of_stream(self.name):
            recorded: bool | None = read_json(self.payload).get(ALLOW_EMPTY)
            return recorded

    def recorded_mechanism(self) -> dict[str, Any]:
        """Name and settings of the mechanism; schema 0001 gave the class and all settings side by side."""
        with rows_of_stream(self.name):
            match read_json(self.mechanism):
                case {"class": str()} as known:
                    return cast("dict[str, Any]", known)
                case {"name": str(), "set": dict()} as known:
                    return cast("dict[str, Any]", known)
                case _:
                    raise ValueError(self.name)

    def recorded_domain(self) -> Domain | None:
        """The public bins, where they are recorded."""
        if self.domain is None or not str(self.domain).startswith("{"):
            return None
        with rows_of_stream(self.name):
            loaded: dict[str, Any] = read_json(self.domain)
            return Domain.from_json(loaded)


@contextmanager
def rows_of_stream(stream: str) -> Generator[None]:
    """Turns what a damaged row of a stream raises into an error of the ledger."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError):
        raise LedgerError(
            name="stream",
            value=stream,
            limit="what the ledger records of it is damaged; `veilstream ledger verify` says more",
            outcome="nothing was read",
        ) from None


def domain_text(domain: Domain) -> str:
    """A domain as a ledger records it: attributes in their order.

    >>> from veilstream.data import Categories
    >>> domain_text(Domain({"place": Categories(["a", "b"])}))
    '{"place":["a","b"]}'
    """
    return json.dumps(domain.to_json(), separators=(",", ":"))


def recording_silence(payload: str, allow_empty: bool | None) -> str:
    """A payload that says whether silence after the last row is data, where that is known.

    >>> recording_silence(VALUES, None), recording_silence(VALUES, True)
    ('{"kind": "values"}', '{"kind": "values", "allow_empty": true}')
    """
    return payload if allow_empty is None else json.dumps({**read_json(payload), ALLOW_EMPTY: allow_empty})


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
        if recorded.allow_empty is None and given.allow_empty is not None:
            recorded = replace(recorded, payload=recording_silence(recorded.payload, given.allow_empty))
        return recorded

    def check(self, recorded: StreamSpec, label: str) -> None:
        """Refuse a stream that is not the recorded one."""
        spec = self.spec
        if spec.allow_empty is None:
            # Who does not say whether silence is data follows what the stream records.
            spec = replace(spec, payload=recording_silence(spec.payload, recorded.allow_empty))
        for f in fields(StreamSpec):
            given, known = getattr(spec, f.name), getattr(recorded, f.name)
            undated = given is None and (known == UNRECORDED or f.name == "calendar")
            if given != known and not undated:
                on_record, other = differing(known, given)
                raise LedgerMismatchError(
                    f"stream {self.spec.name!r} in ledger {label}: {f.name} is recorded as {on_record}, given {other}"
                    f"{WHY.get(f.name, '')}",
                    name=f.name,
                    value=given,
                    limit=f"recorded as {on_record}",
                    outcome="nothing was changed, nothing was released",
                )


WHY: Final = {
    "calendar": "; steps would mean other times, and people would be charged twice",
    "key": "; other rows of a person would count than before",
    "membership": "; a stream draws on one population, in one way, from its first step on",
}
