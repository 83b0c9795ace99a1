"""Who may do what: tokens with scopes, of which only digests are stored, and a log of what was done with them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, Table, Text

from veilstream.documents import read_json
from veilstream.errors import InvalidInputError, LedgerError
from veilstream.live.clock import Clock, duration, moment
from veilstream.live.spool import Spool

SCOPES: Final = ("ingest", "read", "operate", "admin")
ALL_STREAMS: Final = "*"
PREFIX: Final = "vst"
LABEL: Final = re.compile(r"[A-Za-z0-9 .@_-]{1,80}")
TOKEN: Final = re.compile(rf"{PREFIX}_([a-z2-7]{{13}})_([A-Za-z0-9_-]{{43}})")
WEEK: Final = 7 * 86_400_000_000
LONGEST_LIFE: Final = 100_000 * WEEK
DEFAULT_LIFE: Final = "90d"
AUDIT_ROWS: Final = 100_000
STALE_SECONDS: Final = 60.0
"""For how long a server goes by the tokens that it has read last, while it cannot read them anew."""
COMMAND_LINE: Final = "command line"
"""Who acts in the log where no token does."""

metadata = MetaData()
tokens = Table(
    "server_tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("label", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("streams", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("revoked", BigInteger),
    Column("quota", BigInteger),
)
audit = Table(
    "server_audit",
    metadata,
    Column("id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("outcome", Text, nullable=False),
)


class UnknownTokenError(InvalidInputError):
    """A token that does not exist."""

    outcome = "nothing was changed"


@dataclass(frozen=True, slots=True)
class Grant:
    """A token's rights, without its secret.

    ``quota`` is how many bytes of batches it may send a day, as they come. ``digest`` is that of the secret: sessions
    end when it is another.
    """

    id: str
    label: str
    scopes: tuple[str, ...]
    streams: tuple[str, ...]
    expires: int
    quota: int | None = None
    digest: str = field(default="", repr=False)

    def allows(self, scope: str, stream: str | None) -> bool:
        """Whether the scope is held for the stream; for None, whether for any."""
        held = scope in self.scopes or "admin" in self.scopes
        return held and (stream is None or ALL_STREAMS in self.streams or stream in self.streams)

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "label": self.label,
            "scopes": list(self.scopes),
            "streams": list(self.streams),
            "expires": moment(self.expires),
            "quota": self.quota,
        }


class TokenStore:
    """Tokens beside the spool. A secret is shown once, when it is made.

    What is asked about tokens is answered from memory, so that a database that hangs holds up nobody who is answered
    from memory as well. Whoever changes a token reads them anew, and a server does so every moment.
    """

    def __init__(self, spool: Spool, clock: Clock) -> None:
        self._spool, self._clock = spool, clock
        self._known: dict[str, tuple[Grant, int | None]] = {}
        self._read_at = 0.0
        with spool.write() as connection:
            metadata.create_all(connection)
        self.refresh()

    def create(
        self,
        label: str,
        scopes: tuple[str, ...],
        streams: tuple[str, ...] = (ALL_STREAMS,),
        life: str = DEFAULT_LIFE,
        *,
        quota: int | None = None,
        who: str = COMMAND_LINE,
    ) -> tuple[str, Grant]:
        """A new token and its rights."""
        if not LABEL.fullmatch(label):
            raise InvalidInputError(name="label", value=label, limit="1 to 80 letters, digits, blanks, '.', '@', '-'")
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise InvalidInputError(name="scope", value=unknown[:1], limit=f"choose among {', '.join(SCOPES)}")
        lasting = duration(life)
        if lasting > LONGEST_LIFE:
            most = f"at most {LONGEST_LIFE // WEEK}w"
            raise InvalidInputError(name="life", value=life, limit=most, outcome="nothing was stored")
        if quota is not None and quota < 1:
            raise InvalidInputError(
                name="quota", value=quota, limit="at least 1 byte a day", outcome="nothing was stored"
            )
        name = base64.b32encode(os.urandom(8)).decode().rstrip("=").lower()
        secret = _secret()
        now = self._clock.now()
        grant = Grant(name, label, scopes, streams, now + lasting, quota)
        row = {
            "id": name,
            "label": label,
            "digest": _digest(secret),
            "scopes": json.dumps(scopes),
            "streams": json.dumps(streams),
            "created": now,
            "expires": grant.expires,
            "quota": quota,
        }
        with self._logged(who, "create token", name) as connection:
            connection.execute(sa.insert(tokens), row)
        self.refresh()
        return f"{PREFIX}_{name}_{secret}", grant

    def rotate(self, name: str, who: str = COMMAND_LINE) -> str:
        """Another secret for the same rights; the old one is void at once, and the sessions that came from it."""
        secret = _secret()
        with self._logged(who, "rotate token", name) as connection:
            chosen = sa.update(tokens).where(tokens.c.id == name, tokens.c.revoked.is_(None))
            self._check(connection.execute(chosen.values(digest=_digest(secret))).rowcount, name)
        self.refresh()
        return f"{PREFIX}_{name}_{secret}"

    def revoke(self, name: str, who: str = COMMAND_LINE) -> None:
        """Void a token at once, and the sessions that came from it."""
        with self._logged(who, "revoke token", name) as connection:
            chosen = sa.update(tokens).where(tokens.c.id == name).values(revoked=self._clock.now())
            self._check(connection.execute(chosen).rowcount, name)
        self.refresh()

    def grants(self) -> list[Grant]:
        """Every token that is neither revoked nor expired."""
        now = self._clock.now()
        return [grant for grant, revoked in self._all().values() if revoked is None and grant.expires > now]

    def check(self, token: str) -> Grant | None:
        """The rights of a token, None if it has none. Takes as long for a wrong secret as for a right one."""
        match = TOKEN.fullmatch(token)
        if match is None:
            return None
        grant, revoked = self._all().get(match[1], (None, None))
        same = hmac.compare_digest(_NO_DIGEST if grant is None else grant.digest, _digest(match[2]))
        alive = grant is not None and revoked is None and grant.expires > self._clock.now()
        return grant if same and alive else None

    def grant(self, name: str) -> Grant | None:
        """The rights of the token with this name, while it lives."""
        return next((grant for grant in self.grants() if grant.id == name), None)

    def log(self, who: str, action: str, subject: str) -> None:
        """Remember who did what. Subjects are names of streams and tokens, never content."""
        with self._logged(who, action, subject):
            pass

    @contextmanager
    def _logged(self, who: str, action: str, subject: str) -> Generator[Connection]:
        """A change and its line in the log, in one commit: neither is there without the other."""
        row = {"at": self._clock.now(), "who": who, "action": action, "subject": subject, "outcome": "done"}
        with self._spool.write() as connection:
            yield connection
            connection.execute(sa.insert(audit), row)
            newest = sa.select(sa.func.max(audit.c.id)).scalar_subquery()
            connection.execute(sa.delete(audit).where(audit.c.id <= newest - AUDIT_ROWS))

    def history(self, limit: int = 200) -> list[dict[str, Any]]:
        """What was done last, newest first."""
        with self._spool.write() as connection:
            rows = connection.execute(sa.select(audit).order_by(audit.c.id.desc()).limit(limit)).all()
        return [
            {"at": moment(row.at), "who": row.who, "action": row.action, "subject": row.subject, "outcome": row.outcome}
            for row in rows
        ]

    def refresh(self) -> None:
        """Read all tokens anew: another process may have changed one."""
        began = time.monotonic()
        with self._spool.read() as connection:
            rows = connection.execute(sa.select(tokens)).all()
        self._known = {
            row.id: (
                Grant(
                    row.id,
                    row.label,
                    tuple(read_json(row.scopes)),
                    tuple(read_json(row.streams)),
                    row.expires,
                    row.quota,
                    row.digest,
                ),
                row.revoked,
            )
            for row in rows
        }
        self._read_at = began

    def _all(self) -> dict[str, tuple[Grant, int | None]]:
        """All tokens, as they were read last; after a while nobody knows which of them were revoked since."""
        if time.monotonic() - self._read_at > STALE_SECONDS:
            raise LedgerError(
                name="tokens",
                limit=f"they could not be read for {STALE_SECONDS:g} s, and some may have been revoked",
                outcome="nothing was done",
                next_step="wait until the database answers again",
            )
        return self._known

    @staticmethod
    def _check(changed: int, name: str) -> None:
        if not changed:
            raise UnknownTokenError(name="token", value=name, limit="no such token; see the list of tokens")


def _secret() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


_NO_DIGEST: Final = _digest("")
