"""The types beside dataclasses and plain values that a state may hold, and how each is taken apart."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, NamedTuple

from veilstream.privacy.charge import Span
from veilstream.trusted.counts import Sealed
from veilstream.trusted.opening import open_counts


class Coder(NamedTuple):
    """How a type becomes plain values (numbers, text, tuples, lists, dicts, arrays) and returns."""

    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]


def _from_fraction(x: Fraction) -> tuple[int, int]:
    return x.numerator, x.denominator


def _to_fraction(plain: tuple[int, int]) -> Fraction:
    return Fraction(*plain)


def _from_sealed(x: Sealed) -> dict[str, Any]:
    return {
        "exact": open_counts(x),
        "span": (x.span.first, x.span.last),
        "l1": _from_fraction(x.l1),
        "l2": _from_fraction(x.l2),
        "grid": x.grid,
        "shape": x.shape,
        "bins": x.bins,
        "starts": x.starts,
        "aligned": x.aligned,
    }


def _to_sealed(plain: dict[str, Any]) -> Sealed:
    return Sealed(
        plain["exact"],
        Span(*plain["span"]),
        _to_fraction(plain["l1"]),
        l2=_to_fraction(plain["l2"]),
        grid=plain["grid"],
        shape=tuple(plain["shape"]),
        bins=plain["bins"],
        starts=plain["starts"] if "starts" in plain else plain["since"],
        aligned=plain["aligned"] if "aligned" in plain else plain["placed"],
    )


CODERS: Final[dict[type[Any], Coder]] = {
    Fraction: Coder(_from_fraction, _to_fraction),
    Sealed: Coder(_from_sealed, _to_sealed),
}
