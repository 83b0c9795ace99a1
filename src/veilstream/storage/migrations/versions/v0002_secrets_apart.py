"""What a stream is in its row; secret state in tables of its own; blocks that are opened once.

Arrays of releases and charges get new numbers in the order of their first public use: the old ones also counted arrays
of states, and so told when a state had changed. Calendars and keys of older streams are ``unrecorded`` until their
next run; their domains are known by fingerprint until then. Boxes leave the vector in which they travelled.
"""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np
import sqlalchemy as sa
from alembic import op

from veilstream.documents import read_json
from veilstream.storage.ledger.packing import content_of, digest_of, pack, restored

revision = "0002"
down_revision = "0001"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
RENAMED = ("steps", "charges", "failures", "states", "state_blobs", "blobs")
OLD_INDEXES = {
    "steps": ("steps_by_values_blob", "steps_by_std_blob"),
    "charges": ("charges_by_stream", "charges_by_bins_blob", "charges_by_since_blob"),
    "failures": ("failures_by_stream",),
    "state_blobs": ("state_blobs_by_blob",),
}
HISTORY = """
CREATE VIEW history AS
SELECT s.name AS stream, c.t AS t, c.id AS charge, c.first AS span_first, c.last AS span_last,
       c.purpose AS purpose, c.epsilon AS epsilon, c.epsilon_decimal AS epsilon_decimal,
       c.block AS block,
       c.outcome AS outcome, p.seq AS seq, p.fresh AS fresh, p.spent AS spent, p."left" AS "left"
FROM charges c
JOIN streams s ON s.id = c.stream_id
LEFT JOIN steps p ON p.stream_id = c.stream_id AND p.t = c.t
"""
# Charges first, then releases, each in their own public order.
NUMBERS = """
CREATE TABLE array_numbers AS
SELECT old, row_number() OVER (ORDER BY place) AS new FROM (
  SELECT old, min(place) AS place FROM (
    SELECT bins_blob AS old, id * 2 AS place FROM charges_0001 WHERE bins_blob IS NOT NULL
    UNION ALL SELECT since_blob, id * 2 + 1 FROM charges_0001 WHERE since_blob IS NOT NULL
    UNION ALL SELECT values_blob, 1152921504606846976 + seq * 2 FROM steps_0001
    UNION ALL SELECT std_blob, 1152921504606846977 + seq * 2 FROM steps_0001 WHERE std_blob IS NOT NULL
  ) AS uses GROUP BY old
) AS places
"""
COPIES = (
    """
    INSERT INTO arrays (id, stream_id, digest, dtype, shape, packing, bytes)
    SELECT n.new, b.stream_id, b.digest, b.dtype, b.shape, b.packing, b.bytes
    FROM blobs_0001 b JOIN array_numbers n ON n.old = b.id ORDER BY n.new
    """,
    """
    INSERT INTO steps (seq, format, stream_id, t, fresh, law, spent, "left", spent_decimal, left_decimal, std,
                       values_array, std_array, recorded)
    SELECT s.seq, s.format, s.stream_id, s.t, s.fresh, s.law, s.spent, s."left", s.spent_decimal, s.left_decimal, s.std,
           v.new, d.new, s.recorded
    FROM steps_0001 s JOIN array_numbers v ON v.old = s.values_blob
    LEFT JOIN array_numbers d ON d.old = s.std_blob ORDER BY s.seq
    """,
    """
    INSERT INTO charges (id, stream_id, t, first, last, purpose, epsilon, mu_squared, epsilon_decimal, block, outcome,
                         bins_array, starts_array)
    SELECT c.id, c.stream_id, c.t, c.first, c.last, c.purpose, c.epsilon, c.mu_squared, c.epsilon_decimal, c.block,
           c.outcome, b.new, a.new
    FROM charges_0001 c LEFT JOIN array_numbers b ON b.old = c.bins_blob
    LEFT JOIN array_numbers a ON a.old = c.since_blob ORDER BY c.id
    """,
    """
    INSERT INTO blocks (stream_id, block, t)
    SELECT stream_id, block, min(t) FROM charges_0001 WHERE block IS NOT NULL GROUP BY stream_id, block
    """,
    """
    INSERT INTO failures (id, stream_id, t, reason, recorded)
    SELECT id, stream_id, t, reason, recorded FROM failures_0001 ORDER BY id
    """,
    """
    INSERT INTO secret_arrays (stream_id, slot, digest, dtype, shape, packing, bytes)
    SELECT p.stream_id, p.position, b.digest, b.dtype, b.shape, b.packing, b.bytes
    FROM state_blobs_0001 p JOIN blobs_0001 b ON b.id = p.blob_id
    """,
)


def upgrade() -> None:
    op.execute("DROP VIEW history")
    for table, names in OLD_INDEXES.items():
        for name in names:
            op.drop_index(name, table)
    for name in RENAMED:
        op.rename_table(name, f"{name}_0001")
    _describe_streams()
    _create_public()
    _create_secret()
    op.execute(NUMBERS)
    for copy in COPIES:
        op.execute(copy)
    _copy_states()
    for name in ("array_numbers", "state_blobs_0001", "states_0001", "steps_0001", "charges_0001", "failures_0001"):
        op.drop_table(name)
    op.drop_table("blobs_0001")
    _unpack_boxes()
    if op.get_bind().dialect.name == "postgresql":
        for name in ("arrays", "charges", "failures"):
            op.execute(
                f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM {name}), "
                "false)"
            )
    op.execute(HISTORY)


def _describe_streams() -> None:
    for column in (sa.Column("calendar", sa.Text), sa.Column("key_id", sa.Text)):
        op.add_column("streams", column)
    op.add_column("streams", sa.Column("per_timestamp", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("streams", sa.Column("payload", sa.Text, nullable=False, server_default='{"kind": "values"}'))
    connection = op.get_bind()
    rows = connection.execute(sa.text("SELECT id, guarantee, mechanism FROM streams")).all()
    for row in rows:
        mechanism: dict[str, Any] = _loaded(row.mechanism)
        connection.execute(
            sa.text(
                "UPDATE streams SET calendar = 'unrecorded', key_id = 'unrecorded', per_timestamp = :each, "
                "payload = :payload WHERE id = :id"
            ),
            {"id": row.id, "each": _per_timestamp(row, mechanism), "payload": json.dumps(_payload(mechanism))},
        )


def _loaded(text: str) -> dict[str, Any]:
    try:
        loaded: Any = read_json(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", loaded) if isinstance(loaded, dict) else {}


def _per_timestamp(row: Any, mechanism: dict[str, Any]) -> bool:
    """Such a stream names bins under a window; accounts of people name levels instead."""
    window = _loaded(row.guarantee).get("w")
    if window in (None, 1) or mechanism.get("class") == "LedgerAccounts":
        return False
    named = sa.text("SELECT 1 FROM charges_0001 WHERE stream_id = :id AND bins_blob IS NOT NULL LIMIT 1")
    return mechanism.get("class") == "RetroactiveGrouping" or (
        op.get_bind().execute(named, {"id": row.id}).first() is not None
    )


def _payload(mechanism: dict[str, Any]) -> dict[str, Any]:
    if mechanism.get("class") == "OnRecords":
        return {"kind": "boxes", "shape": mechanism["shape"]}
    return {"kind": "values"}


def _create_public() -> None:
    op.create_table(
        "arrays",
        sa.Column("id", ID, primary_key=True),
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), nullable=False),
        *_array_columns(),
        sa.UniqueConstraint("stream_id", "digest", name="arrays_once"),
    )
    op.create_table(
        "steps",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), nullable=False),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("fresh", sa.Boolean, nullable=False),
        sa.Column("law", sa.Text, nullable=False),
        sa.Column("spent", sa.Text, nullable=False),
        sa.Column("left", sa.Text, nullable=False),
        sa.Column("spent_decimal", sa.Float(53), nullable=False),
        sa.Column("left_decimal", sa.Float(53), nullable=False),
        sa.Column("std", sa.Float(53)),
        sa.Column("values_array", ID, sa.ForeignKey("arrays.id"), nullable=False),
        sa.Column("std_array", ID, sa.ForeignKey("arrays.id")),
        sa.Column("corners_array", ID, sa.ForeignKey("arrays.id")),
        sa.Column("recorded", sa.Text, nullable=False),
        sa.UniqueConstraint("stream_id", "t", name="steps_once"),
    )
    op.create_index("steps_in_order", "steps", ["stream_id", "seq"])
    op.create_table(
        "charges",
        sa.Column("id", ID, primary_key=True),
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), nullable=False),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("epsilon", sa.Text, nullable=False),
        sa.Column("mu_squared", sa.Text, nullable=False),
        sa.Column("epsilon_decimal", sa.Float(53), nullable=False),
        sa.Column("block", sa.BigInteger),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("bins_array", ID, sa.ForeignKey("arrays.id")),
        sa.Column("starts_array", ID, sa.ForeignKey("arrays.id")),
    )
    op.create_index("charges_in_order", "charges", ["stream_id", "id"])
    op.create_table(
        "blocks",
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), primary_key=True, autoincrement=False),
        sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("t", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "failures",
        sa.Column("id", ID, primary_key=True),
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), nullable=False),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("recorded", sa.Text, nullable=False),
    )
    op.create_index("failures_in_order", "failures", ["stream_id", "t"])


def _create_secret() -> None:
    op.create_table(
        "secret_states",
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), primary_key=True, autoincrement=False),
        sa.Column("t", sa.BigInteger, nullable=False),
        sa.Column("header", sa.LargeBinary, nullable=False),
        sa.Column("slots", sa.Text, nullable=False),
    )
    op.create_table(
        "secret_arrays",
        sa.Column("stream_id", ID, sa.ForeignKey("streams.id"), primary_key=True, autoincrement=False),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        *_array_columns(),
    )


def _array_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("dtype", sa.Text, nullable=False),
        sa.Column("shape", sa.Text, nullable=False),
        sa.Column("packing", sa.Text, nullable=False),
        sa.Column("bytes", sa.LargeBinary, nullable=False),
    ]


def _copy_states() -> None:
    connection = op.get_bind()
    for row in connection.execute(sa.text("SELECT stream_id, t, header FROM states_0001")).mappings().all():
        places = sa.text("SELECT position FROM state_blobs_0001 WHERE stream_id = :id ORDER BY position")
        slots = list(connection.execute(places, {"id": row["stream_id"]}).scalars())
        connection.execute(
            sa.text("INSERT INTO secret_states (stream_id, t, header, slots) VALUES (:id, :t, :header, :slots)"),
            {"id": row["stream_id"], "t": row["t"], "header": bytes(row["header"]), "slots": json.dumps(slots)},
        )


def _unpack_boxes() -> None:
    """Boxes were rows of low corner, high corner and value in one vector, with a noise of 0 for corners."""
    connection = op.get_bind()
    found = connection.execute(
        sa.text(
            "SELECT p.seq, p.stream_id, p.values_array, p.std_array, s.payload FROM steps p "
            "JOIN streams s ON s.id = p.stream_id WHERE s.payload LIKE '%boxes%'"
        )
    ).all()
    for row in found:
        axes = len(read_json(row.payload)["shape"])
        numbers = _array(row.values_array).reshape(-1, 2 * axes + 1)
        std = _array(row.std_array).reshape(numbers.shape)[:, -1]
        corners = numbers[:, :-1].astype(np.int64).reshape(-1, 2, axes)
        parts = {"values": numbers[:, -1].copy(), "std": std.copy(), "corners": corners}
        ids = {f"{name}_array": _store(row.stream_id, part) for name, part in parts.items()}
        connection.execute(
            sa.text(
                "UPDATE steps SET values_array = :values_array, std_array = :std_array, corners_array = :corners_array "
                "WHERE seq = :seq"
            ),
            {"seq": row.seq, **ids},
        )
        for old in {row.values_array, row.std_array}:
            connection.execute(sa.text("DELETE FROM arrays WHERE id = :id"), {"id": old})


def _array(number: int) -> Any:
    row = op.get_bind().execute(sa.text("SELECT * FROM arrays WHERE id = :id"), {"id": number}).one()
    return restored(row.packing, bytes(row.bytes), row.dtype, row.shape, row.digest)


def _store(stream_id: int, array: Any) -> int:
    connection = op.get_bind()
    content, shape = content_of(array), json.dumps(list(array.shape))
    packing, stored = pack(content)
    digest = digest_of(array.dtype.str, shape, content)
    known = sa.text("SELECT id FROM arrays WHERE stream_id = :stream AND digest = :digest")
    number = connection.execute(known, {"stream": stream_id, "digest": digest}).scalar_one_or_none()
    if number is None:
        number = int(connection.execute(sa.text("SELECT coalesce(max(id), 0) + 1 FROM arrays")).scalar_one())
        connection.execute(
            sa.text(
                "INSERT INTO arrays (id, stream_id, digest, dtype, shape, packing, bytes) "
                "VALUES (:id, :stream, :digest, :dtype, :shape, :packing, :bytes)"
            ),
            {
                "id": number,
                "stream": stream_id,
                "digest": digest,
                "dtype": array.dtype.str,
                "shape": shape,
                "packing": packing,
                "bytes": stored,
            },
        )
    return int(number)
