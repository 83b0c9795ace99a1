r"""Who is one person: the canonical form of an id, however it was written.

A person taken for two is counted twice, which breaks the guarantee; two people taken for one only lose counts. So
ids that may well mean the same person are one person, and what cannot be decided is refused.

* **Whole numbers** are one person however they are written: 7, 7.0, ``"7"``, ``"+7"``, ``"007"``, ``" 7 "``,
  ``"7.00"``, ``"70e-1"``, ``Decimal("7")``; so are 0 and ``"-0"``, and ``"1e3"`` and 1000. Integers are exact at any
  size.
* **Decimal fractions** in text or as decimals are compared by value: ``"1.50"`` is ``"1.5"``.
* **Text** is compared in Unicode's normal form C without the blanks at its ends. Upper and lower case, blanks inside,
  digits of other scripts, separators of thousands and hexadecimal digits are left alone. Bytes are the text that they
  hold in UTF-8.
* **Nobody**: null, NaN, and text of nothing but blanks. The texts ``"nan"`` and ``"null"`` are names.
* **Refused**: true and false; floating-point numbers that are fractional, infinite, or so large that two integers
  round to one of them (from 2^53 in double precision, 2^24 in single, 2^11 in half), also when text shows such a
  number in the way that programs write floating point (``"9007199254740993.0"``, ``"1.2e+19"``, ``"1e16"``); text
  that is not Unicode and bytes that are not UTF-8; values of any other type.

Text such as ``"12345e67"``, which no program writes for a number, is a name. The canonical form of an integer of 64
bits is that integer; everything else is a text. It depends on the id alone, so it is the same in every batch, file
and run.

This module needs NumPy and the standard library alone, so that workers of a cluster can load it without the rest.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np

BLANKS: Final = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\0\u200b\u2060\ufeff"
)
"""What is cut off the ends of a text: white space, NUL, and the marks of no width."""

IRREGULAR: Final = r"^$|^[^!-~]|[^!-~]$|[^\x00-\x7F]|^[+\-]?\.?[0-9][0-9.eE+\-]*$"
"""Text that this pattern does not find anything in is its own canonical form; Python and Polars read it alike."""

DOUBLE_BITS: Final = 53
_NUMBER: Final = re.compile(r"([+-]?)([0-9]*)(\.?)([0-9]*)(?:[eE]([+-]?)([0-9]+))?")
_LARGEST_EXPONENT: Final = 400
"""Beyond what doubles reach (10^308): text with a larger exponent is a name."""
_LONGEST_WORD: Final = 19
"""Decimal digits of the largest 64-bit integers."""


class Refusal(Enum):
    """Why an id cannot be taken; its value says so without the id."""

    BOOLEAN = "an id is true or false, which names nobody in particular"
    FRACTION = "an id is a fraction in floating point, which other files may round otherwise"
    ROUNDED = "an id is a floating-point number so large that two people look alike; write ids as integers or text"
    INFINITE = "an id is infinite"
    TOO_LARGE = "an id is a decimal number with an exponent beyond 400"
    NOT_UNICODE = "an id holds half a character; text must be valid Unicode"
    NOT_TEXT = "an id is bytes that are not text in UTF-8; write it as text"
    TYPE = "an id is neither a number nor text"


Identity: TypeAlias = int | str | Refusal | None
"""A 64-bit integer, a text, why not, or None for nobody."""


def canonical(value: object) -> Identity:
    """The canonical form of one id of any type.

    >>> [canonical(value) for value in (7, 7.0, "7", "+7", " 007 ", Decimal("7.00"), b"7", "-0")]
    [7, 7, 7, 7, 7, 7, 7, 0]
    >>> canonical(2**64), canonical("Ann "), canonical("ann"), canonical("  "), canonical(float("nan"))
    ('18446744073709551616', 'Ann', 'ann', None, None)
    >>> canonical(1.5).name, canonical("1.50"), canonical(True).name
    ('FRACTION', '1.5', 'BOOLEAN')
    """
    match value:
        case _ if is_missing(value):
            return None
        case bool() | np.bool_():
            return Refusal.BOOLEAN
        case str():
            return canonical_text(str.__str__(value))
        case int() | np.integer():
            return _from_integer(int(value))
        case float() | np.floating():
            return _from_float(value)
        case bytes() | bytearray():
            return _from_bytes(bytes(value))
        case Decimal():
            return _from_decimal(value)
        case Fraction():
            return _from_integer(value.numerator) if value.denominator == 1 else Refusal.FRACTION
        case _:
            return Refusal.TYPE


def is_missing(value: object) -> bool:
    """Whether a value says that there is none; NaN is told by its type."""
    kind = type(value)
    given: Any = value
    missing = kind.__module__.startswith("pandas.") and kind.__name__ in ("NAType", "NaTType")
    return value is None or missing or (kind is np.datetime64 and bool(np.isnat(given)))


def canonical_text(text: str, *, exact: bool = False) -> Identity:
    """The canonical form of an id that is written as text.

    ``exact`` says that it was never in floating point, because it comes from a column of decimals.

    >>> canonical_text("9007199254740993.0").name, canonical_text("9007199254740993.0", exact=True)
    ('ROUNDED', 9007199254740993)
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return Refusal.NOT_UNICODE
        text = unicodedata.normalize("NFC", text)
    text = text.strip(BLANKS)
    if not text:
        return None
    found = _NUMBER.fullmatch(text)
    return text if found is None else _from_number(found, exact)


def exact_below(mantissa_bits: int) -> int:
    """The first whole number that a floating-point type shares with a neighbour: 2 to its bits, and 2^53 at most."""
    return 1 << min(mantissa_bits, DOUBLE_BITS)


def digest(text: str, key: bytes) -> bytes:
    """Sixteen bytes that stand for a text under the key.

    BLAKE2 cannot be extended, so a key in front of the message makes it a keyed hash in one pass.
    """
    return hashlib.blake2b(key + text.encode(), digest_size=16).digest()


def _from_integer(value: int) -> Identity:
    if -(1 << 63) <= value < 1 << 63:
        return value
    try:
        return str(value)
    except ValueError:
        # Python writes integers of at most 4300 digits unless it is told otherwise.
        return Refusal.TOO_LARGE


def _from_float(value: float | np.floating) -> Identity:
    bits = DOUBLE_BITS if isinstance(value, float) else int(np.finfo(type(value)).nmant) + 1
    if math.isnan(value):
        return None
    if math.isinf(value):
        return Refusal.INFINITE
    number = int(value)
    if abs(number) >= exact_below(bits):
        return Refusal.ROUNDED
    return number if number == value else Refusal.FRACTION


def _from_bytes(value: bytes) -> Identity:
    try:
        return canonical_text(value.decode())
    except UnicodeDecodeError:
        return Refusal.NOT_TEXT


def _from_decimal(value: Decimal) -> Identity:
    if value.is_nan():
        return None
    if value.is_infinite():
        return Refusal.INFINITE
    if abs(value.adjusted()) > _LARGEST_EXPONENT:
        return Refusal.TOO_LARGE
    return canonical_text(format(value, "f"), exact=True)


def _from_number(found: re.Match[str], exact: bool) -> Identity:
    sign, whole, point, fraction, exponent_sign, exponent = found.groups(default="")
    magnitude = exponent.lstrip("0")
    if not whole and not fraction:
        return found.group()
    if len(magnitude) > len(str(_LARGEST_EXPONENT)) or int(magnitude or "0") > _LARGEST_EXPONENT:
        return found.group()
    digits = whole + fraction
    before_point = len(whole) + int(exponent_sign + (magnitude or "0")) - len(digits) + len(digits.lstrip("0"))
    digits = digits.strip("0")
    if not digits:
        return 0
    minus = "-" if sign == "-" else ""
    if len(digits) > before_point:
        return minus + _fraction(digits, before_point)
    if not (point or exponent) or exact or _is_below(digits, before_point, exact_below(DOUBLE_BITS)):
        return _whole(minus, digits.ljust(before_point, "0"))
    looks_floating = point or exponent_sign or len(whole) == 1
    return Refusal.ROUNDED if looks_floating else found.group()


def _whole(minus: str, digits: str) -> int | str:
    if len(digits) <= _LONGEST_WORD and -(1 << 63) <= (number := int(minus + digits)) < 1 << 63:
        return number
    return minus + digits


def _fraction(digits: str, before_point: int) -> str:
    if before_point <= 0:
        return "0." + "0" * -before_point + digits
    return digits[:before_point] + "." + digits[before_point:]


def _is_below(digits: str, before_point: int, limit: int) -> bool:
    return before_point <= len(str(limit)) and int(digits.ljust(before_point, "0")) < limit
