"""Ledgers that somebody has altered, and what is asked of them afterwards."""

from __future__ import annotations

import shlex
from random import Random
from typing import Final

from fuzz.case import Case
from fuzz.commands import PUBLISH

COLUMNS: Final = {
    "streams": "id name guarantee mechanism bins domain l1 recorded calendar key_id per_timestamp payload mac",
    "counter": "seq",
    "arrays": "id stream_id digest dtype shape packing bytes",
    "steps": "seq format stream_id t fresh law spent left spent_decimal std values_array std_array corners_array",
    "charges": "id stream_id t first last purpose epsilon mu_squared epsilon_decimal block outcome bins_array",
    "chain": "stream_id number digest charge seq failure",
    "secret_states": "stream_id t header slots entry mac",
    "secret_arrays": "stream_id slot digest dtype shape packing bytes",
    "secret_keys": "purpose key",
    "alembic_version": "version_num",
}
LITERALS: Final = (
    "NULL", "0", "-1", "1", "3", "9223372036854775807", "1.5", "9e999", "''", "'x'", "'1/0'", "'nan'", "'{}'",
    "'[]'", "x''",
    "x'ff'", "'-5'", "'1/1000000'", "'9999'", "'true'", "randomblob(20)", "zeroblob(100)", "'{\"kind\": \"boxes\"}'",
)  # fmt: skip
QUESTIONS: Final = (
    "ledger show b.db", "ledger releases b.db", "ledger charges b.db", "ledger verify b.db", "ledger export b.db",
    "backup b.db copy", f"publish {PUBLISH} --out out.csv", f"publish {PUBLISH.replace('T06', 'T05')}",
    "ledger compact b.db --no-archive --apply", "ledger reset b.db --stream default --reason lost --apply",
    "ledger revisions b.db --json", "ledger show b.db --stream x --json", "ledger releases b.db --after 2 --json",
)  # fmt: skip


def any_damage(rng: Random) -> Case:
    """A published ledger with a few cells, rows, tables or bytes changed, and one command on it."""
    sql: list[str] = []
    for _ in range(rng.randint(0, 2)):
        table = rng.choice(sorted(COLUMNS))
        column = rng.choice(COLUMNS[table].split())
        match rng.randrange(8):
            case 0:
                sql.append(f'DELETE FROM "{table}" WHERE rowid % 2 = {rng.randrange(2)}')
            case 1:
                sql.append(f'DROP TABLE "{table}"')
            case 2:
                sql.append(f'INSERT OR IGNORE INTO "{table}" SELECT * FROM "{table}"')
            case _:
                sql.append(f'UPDATE OR IGNORE "{table}" SET "{column}" = {rng.choice(LITERALS)}')
    flips = tuple((rng.random(), rng.randrange(1, 256)) for _ in range(0 if sql else rng.choice([1, 1, 3, 40])))
    question = shlex.split(rng.choice(QUESTIONS))
    return Case("damage", tuple(question), sql=tuple(sql), flips=flips)
