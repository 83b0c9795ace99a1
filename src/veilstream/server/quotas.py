"""How many bytes of batches a token may send a day: one client cannot use all that the server takes."""

from __future__ import annotations

from typing import Final

from veilstream.server.tokens import Grant

DAY_SECONDS: Final = 86_400.0


class Quotas:
    """What is left of each token's bytes of a day. It comes back evenly, and whole when the server is started anew.

    >>> quotas, grant = Quotas(), Grant("id", "label", ("ingest",), ("*",), 0, quota=86_400)
    >>> quotas.use(grant, 86_400, now=0.0)
    >>> quotas.wait(grant, now=0.0), quotas.wait(grant, now=1.0)
    (1.0, 0.0)
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, grant: Grant, now: float) -> float:
        """0 if the token may send a batch, else the seconds until it may."""
        if grant.quota is None:
            return 0.0
        return max(0.0, (1 - self._now(grant.id, grant.quota, now)) * DAY_SECONDS / grant.quota)

    def use(self, grant: Grant, size: int, now: float) -> None:
        """A batch of so many bytes came. The last one may be larger than what was left."""
        if grant.quota is not None:
            self._left[grant.id] = self._now(grant.id, grant.quota, now) - size, now

    def _now(self, name: str, quota: int, now: float) -> float:
        left, since = self._left.get(name, (float(quota), now))
        return min(float(quota), left + (now - since) * quota / DAY_SECONDS)
