"""What may leave the house: releases, revisions and charges with the names of bins and times; never state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from veilstream.documents import read_json
from veilstream.storage.ledger import ChargeRow, Ledger, StreamSpec
from veilstream.storage.ledger.as_of import with_as_of
from veilstream.storage.ledger.records import Mark
from veilstream.values.boxes import Boxes
from veilstream.values.release import Release
from veilstream.values.revision import Revision


def export(ledger: Ledger, stream: str) -> list[dict[str, Any]]:
    """Releases, their revisions and charges of a stream as plain dicts in the order of time.

    Everything in it is public under the stream's guarantee: it can be given away, unlike the ledger itself. Where the
    stream's calendar is recorded each row says when its step begins, as ``time``; :func:`header` names the bins. A
    repeated release and its interval are those of the step ``as_of``.
    """
    rows = [_charge(row) for row in ledger.charges(stream)]
    rows += [_release(release, as_of) for release, as_of in with_as_of(ledger.releases(stream))]
    rows += [revision_row(revision) for revision in ledger.revisions(stream)]
    anchor = ledger.spec(stream).anchor
    if anchor is not None:
        calendar = anchor.calendar(max([row["t"] for row in rows], default=0) + 1)
        for row in rows:
            row["time"] = calendar.label(row["t"]) if row["t"] >= 0 else None
    return sorted(rows, key=lambda row: (row["t"], row["kind"], row.get("version", 0)))


def header(ledger: Ledger, spec: StreamSpec) -> dict[str, Any]:
    """What a stream is, and the label of every bin in order, where its domain is recorded.

    ``mark`` is the end of its chain: whoever keeps it can tell later whether the ledger was rolled back.
    """
    domain, anchor, mark = spec.recorded_domain(), spec.anchor, ledger.mark(spec.name)
    return {
        "kind": "stream",
        "mark": shown_mark(mark),
        "guarantee": spec.guarantee,
        "mechanism": spec.mechanism,
        "bins": spec.bins,
        "max_contribution": spec.max_contribution,
        "calendar": None if anchor is None else {"start": anchor.start, "every": anchor.every, "zone": anchor.zone},
        **({} if spec.membership is None else {"population": read_json(spec.membership)}),
        "labels": None if domain is None else domain.labels().rows(named=True),
    }


def shown_mark(mark: Mark) -> dict[str, Any]:
    """A mark as outputs give it."""
    return {"number": mark.number, "digest": mark.digest, "t": mark.t}


def _charge(row: ChargeRow) -> dict[str, Any]:
    charge = row.charge
    return {
        "kind": "charge",
        "t": row.t,
        "id": row.id,
        "purpose": charge.purpose,
        "epsilon": str(charge.epsilon),
        "mu_squared": str(charge.mu_squared),
        "first": charge.span.first,
        "last": charge.span.last,
        "block": charge.block,
        "bins": None if charge.positions is None else charge.positions.tolist(),
        "starts": None if charge.starts is None else charge.starts.tolist(),
        "outcome": row.outcome,
    }


def _release(release: Release, as_of: int) -> dict[str, Any]:
    return {
        "kind": "release",
        "t": release.t,
        "seq": release.seq,
        "values": release.values.tolist(),
        "std": np.asarray(release.std).tolist(),
        "law": release.law.value,
        "fresh": release.fresh,
        "as_of": as_of,
        "spent": str(release.spent),
        "left": str(release.left),
        **dict(_corners(release)),
    }


def revision_row(revision: Revision) -> dict[str, Any]:
    """A revision as exports give it: ``t`` is the step that got new values, ``made`` the one that they came with."""
    return {
        "kind": "revision",
        "t": revision.step,
        "version": revision.version,
        "made": revision.made,
        "values": np.asarray(revision.values.numbers).tolist(),
        "std": np.asarray(revision.values.std).tolist(),
        "law": revision.values.law.value,
    }


def _corners(release: Release) -> Iterator[tuple[str, Any]]:
    if isinstance(release.payload, Boxes):
        yield "low_corners", release.payload.low.tolist()
        yield "high_corners", release.payload.high.tolist()
