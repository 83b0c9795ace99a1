"""States whose annotations are aliases of the ``type`` statement, as ``NDArray`` is from NumPy 2.5 on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from veilstream.arguments import allows
from veilstream.errors import LedgerError
from veilstream.storage.codec import decode, encode

T = TypeVar("T", bound=np.generic)
Numbers = TypeAliasType("Numbers", np.ndarray[tuple[Any, ...], np.dtype[T]], type_params=(T,))
Count = TypeAliasType("Count", int)


@dataclass(frozen=True, slots=True, eq=False)
class Aliased:
    numbers: Numbers[np.int64] | Numbers[np.float64]
    count: Count


@dataclass(frozen=True, slots=True, eq=False)
class Narrower:
    numbers: Numbers[np.bool_]
    count: Count


def test_aliases_mean_what_they_stand_for() -> None:
    stored = encode(Aliased(np.array([1, 2]), 3))
    back = decode(stored.header, stored.arrays, Aliased)
    assert (back.numbers.tolist(), back.count) == ([1, 2], 3)
    with pytest.raises(LedgerError):
        decode(stored.header.replace(b"Aliased", b"Narrower"), stored.arrays, Narrower)
    assert (allows(Count, 3), allows(Count, "3")) == (True, False)
