"""What the values of a release lean on, read again from the ledger."""

from __future__ import annotations

from collections.abc import Iterator

from veilstream.release.smoothing import first_step_needed
from veilstream.storage.ledger import Ledger
from veilstream.values.release import Release


def releases_before(ledger: Ledger, release: Release) -> Iterator[Release]:
    """The earlier releases of the same stream that its smoothed values depend on, in order."""
    needed = first_step_needed(release.t)
    first = ledger.release_at(release.stream, needed)
    for earlier in ledger.releases(release.stream, after=0 if first is None else first.seq - 1):
        if earlier.t >= release.t:
            return
        if earlier.t >= needed:
            yield earlier
