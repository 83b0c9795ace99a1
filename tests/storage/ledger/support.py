"""Small streams for the tests of the ledger."""

from __future__ import annotations

import os
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilstream.privacy.charge import Charge, Span
from veilstream.storage.codec import Encoded, encode
from veilstream.storage.ledger import Ledger, StreamSpec
from veilstream.values.release import Release
from veilstream.values.values import NoiseLaw, Values

SPEC = StreamSpec("visits", '{"epsilon":"1","w":5}', '{"name":"uniform"}', bins=4, domain=None, max_contribution=1)
FIFTH = Fraction(1, 5)


def charge(t: int) -> Charge:
    return Charge(FIFTH, Span(t, t), "publish")


def values(t: int) -> Values:
    return Values(np.arange(4) * t - 1, 14.25, NoiseLaw.LAPLACE)


def state(*arrays: NDArray[Any]) -> Encoded:
    return encode(list(arrays))


def publish(ledger: Ledger, t: int, stored: Encoded | None = None, given: Values | None = None) -> Release:
    with ledger.transaction(SPEC.name) as step:
        return step.commit_step(t, [charge(t)], stored or state(np.full(4, t)), given or values(t), FIFTH, 1 - FIFTH)


def same(a: Release | None, b: Release | None) -> bool:
    if a is None or b is None:
        return a is b
    exact = ("stream", "seq", "t", "law", "fresh", "spent", "left")
    return (
        all(getattr(a, name) == getattr(b, name) for name in exact)
        and a.values.dtype == b.values.dtype
        and a.values.tobytes() == b.values.tobytes()
        and np.asarray(a.std).tobytes() == np.asarray(b.std).tobytes()
    )


def fork() -> int:
    """A child that starts warm; it must leave through ``os._exit``."""
    with warnings.catch_warnings():
        # Threads of numerical libraries do not touch what the child uses.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def copy_of(ledger: Ledger, copy: Path) -> None:
    """Write a copy of the ledger as it is now, without what belongs to it."""
    with ledger.one_moment() as write:
        write(copy)
