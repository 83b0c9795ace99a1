"""Steps of many streams in one commit: a server that closes a hundred streams waits for the disk once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from veilstream.errors import VeilstreamError
from veilstream.storage.ledger import Ledger
from veilstream.values.release import Release


def feed_together(
    ledger: Ledger, feeds: Sequence[Callable[[], Release]], streams: Sequence[str] = ()
) -> list[Release | VeilstreamError]:
    """Make the releases of ``feeds``, which are calls of publishers on ``ledger``, and commit them with one another.

    The releases are given after the commit. A feed that is refused has its error in the place of its release: its own
    charges stay, as always, and the others go on. If the commit fails nothing was released, and publishers derive
    anew from the ledger what they know. No other thread may use these publishers meanwhile.

    ``streams`` names all streams that are fed. Where other processes publish to the same PostgreSQL ledger, that lets
    a group take its locks in the order of all others; unnamed, groups can wait for each other until one is refused.

    >>> import numpy as np, veilstream as vs
    >>> with vs.Ledger.open(None) as ledger:
    ...     uniform, daily = vs.STREAMS["uniform"], vs.Guarantee(1, w=24)
    ...     a, b = (vs.Publisher(2, daily, uniform(), ledger, stream=name) for name in "ab")
    ...     made = feed_together(ledger, [lambda: a.feed(np.array([7, 9])), lambda: b.feed(np.array([1, 2]))])
    >>> [release.stream for release in made]
    ['a', 'b']
    """
    made: list[Release | VeilstreamError] = []
    broken: BaseException | None = None
    with ledger.commit_together(streams):
        for feed in feeds:
            try:
                made.append(feed())
            except VeilstreamError as error:
                made.append(error)
            except BaseException as error:
                # Raised below: what the feed was charged is committed first.
                broken = error
                break
    if broken is not None:
        raise broken
    return made
