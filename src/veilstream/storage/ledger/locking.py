"""The one order in which locks are taken: streams by their numbers, then populations by theirs, then the counter.

A step locks one stream, the population whose pool it shares, and at its commit the counter of all steps. Steps of a
group are committed together, so that the locks of the first are held while the next one waits for its own: taken one
after another, two groups, or a group and a step, could wait for each other for ever. A group therefore takes the locks
of its streams and of their populations at once, before anything else. Since everybody goes up in one order, whoever
holds the last lock of all waits for nobody. SQLite has one lock for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy import Connection

from veilstream.privacy.population import Membership
from veilstream.storage.ledger.schema import populations, streams


def lock_together(connection: Connection, names: Sequence[str]) -> None:
    """Lock some streams, and the populations whose pools they share."""
    if not names or connection.dialect.name != "postgresql":
        return
    found = connection.execute(LOCK_STREAMS, {"names": list(names)}).scalars()
    joined = [Membership.from_json(text) for text in found if text is not None]
    pools = sorted({one.population for one in joined if one.draw == "shared"})
    if pools:
        connection.execute(LOCK_POPULATIONS, {"names": pools}).all()


_names: sa.BindParameter[Sequence[str]] = sa.bindparam("names", expanding=True)
LOCK_STREAMS: Final = (
    sa.select(streams.c.membership)
    .where(streams.c.name.in_(_names))
    .order_by(streams.c.id)
    .with_for_update(key_share=True)
)
LOCK_POPULATIONS: Final = (
    sa.select(populations.c.id).where(populations.c.name.in_(_names)).order_by(populations.c.id).with_for_update()
)
