"""Releases with the new values that later releases gave their steps: the vintages of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from veilstream.storage.ledger import Ledger
from veilstream.values.choices import Vintages
from veilstream.values.release import Release
from veilstream.values.revision import Revision


def with_versions(
    ledger: Ledger, stream: str, releases: Sequence[Release], vintages: Vintages
) -> list[tuple[Release, int]]:
    """Successive releases with the number of their version: 0 as released, n as revised n steps later.

    >>> import numpy as np, veilstream as vs
    >>> publisher = vs.Publisher(1, vs.Guarantee(1, w=8), vs.ModelBased(revise=2))
    >>> made = [publisher.feed(np.array([count])) for count in (40, 42, 47)]
    >>> [(release.t, version) for release, version in with_versions(publisher.ledger, "default", made, "latest")]
    [(0, 2), (1, 1), (2, 0)]
    >>> [(release.t, version) for release, version in with_versions(publisher.ledger, "default", made, "all")]
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    """
    if vintages == "first" or not releases:
        return [(release, 0) for release in releases]
    revised = ledger.revisions(stream, first=releases[0].t, last=releases[-1].t)
    if vintages == "latest":
        newest = latest_versions(revised)
        return [_newest(release, newest.get(release.t)) for release in releases]
    by_step: dict[int, list[Revision]] = {}
    for revision in revised:
        by_step.setdefault(revision.step, []).append(revision)
    return [
        version
        for release in releases
        for version in [(release, 0), *[_newest(release, revision) for revision in by_step.get(release.t, [])]]
    ]


def latest_versions(revisions: Iterable[Revision]) -> dict[int, Revision]:
    """The last of some revisions of each step, which come in the order in which they were published."""
    return {revision.step: revision for revision in revisions}


def _newest(release: Release, revision: Revision | None) -> tuple[Release, int]:
    if revision is None:
        return release, 0
    return replace(release, payload=revision.values), revision.version
