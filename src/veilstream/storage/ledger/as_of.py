"""Of which step a released value is: a repeated one, and its interval, are those of its last fresh step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from veilstream.storage.ledger import Ledger
from veilstream.values.release import Release


def speaks_of_its_step(release: Release) -> bool:
    """Whether a release is of its own step: made of its data, or by a model that says how far they may have moved."""
    return release.fresh or release.law.believed


def with_as_of(releases: Iterable[Release], ledger: Ledger | None = None) -> Iterator[tuple[Release, int]]:
    """Each release with the step that its value is of; those of a stream come in order.

    Where the first ones of a stream are repeated, ``ledger`` is asked which step they repeat.

    >>> import numpy as np
    >>> from veilstream import Guarantee, Publisher, STREAMS
    >>> publisher = Publisher(1, Guarantee(1, w=4), STREAMS["fixed-rate"](interval=3))
    >>> [step for _, step in with_as_of([publisher.feed(np.array([100])) for _ in range(5)])]
    [0, 0, 0, 3, 3]
    """
    known: dict[str, int] = {}
    for release in releases:
        if speaks_of_its_step(release):
            known[release.stream] = release.t
        elif release.stream not in known:
            known[release.stream] = _found_before(release, ledger)
        yield release, known[release.stream]


def _found_before(release: Release, ledger: Ledger | None) -> int:
    """The step that a repeated release repeats; its own where nothing before it is known."""
    for t in range(release.t - 1, -1, -1):
        earlier = None if ledger is None else ledger.release_at(release.stream, t)
        if earlier is None:
            break
        if speaks_of_its_step(earlier):
            return t
    return release.t
