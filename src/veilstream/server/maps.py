"""Domains that are drawn as a map: two numeric attributes, or one whose public values name cells of the Earth."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from veilstream.data import Categories, Domain, Edges, Grid

Box: TypeAlias = tuple[float, float, float, float]
"""West, south, east, north, in degrees."""

NORTH: Final = re.compile(r"lat|north|y$", re.IGNORECASE)
"""Names of attributes that go up a map."""
GEOHASH_LETTERS: Final = "0123456789bcdefghjkmnpqrstuvwxyz"
LONGEST_GEOHASH: Final = 12
DEEPEST_TILE: Final = 30


def map_grid(domain: Domain) -> dict[str, Any] | None:
    """The borders of a map, None for a domain that has no map.

    Two numeric attributes are the two directions of a map. One attribute has a map if each of its values names a cell:
    as a box ``west,south,east,north`` in degrees, as a geohash (the attribute's name says ``geohash``), or as a tile
    ``zoom/x/y`` of a web map (its name says ``tile``).

    >>> grid = map_grid(Domain.from_json({"lat": {"edges": [48, 49, 51]}, "lon": {"edges": [2, 3]}}))
    >>> grid["x"]["name"], grid["y"]["edges"], grid["x_first"], grid["degrees"]
    ('lon', [48.0, 49.0, 51.0], False, True)
    >>> map_grid(Domain.from_json({"geohash": ["u0", "u1"]}))["cells"]
    [(0.0, 45.0, 11.25, 50.625), (0.0, 50.625, 11.25, 56.25)]
    """
    if len(domain.axes) == 1:
        (name, axis), *_ = domain.axes.items()
        cells = _cells(name, axis.values) if isinstance(axis, Categories) else None
        return None if cells is None else _around(cells)
    axes = [
        {"name": name, "edges": [float(edge) for edge in (axis.edges if isinstance(axis, Edges) else axis.bounds())]}
        for name, axis in domain.axes.items()
        if isinstance(axis, Edges | Grid)
    ]
    if len(axes) != 2 or len(domain.axes) != 2:
        return None
    first, second = axes
    upright = NORTH.match(str(first["name"])) is not None
    return {
        "x": second if upright else first,
        "y": first if upright else second,
        "x_first": not upright,
        "degrees": {str(axis["name"])[:3].lower() for axis in axes} == {"lat", "lon"},
        "cells": None,
    }


def _around(cells: list[Box]) -> dict[str, Any]:
    west, south, east, north = zip(*cells, strict=True)
    return {
        "x": {"name": "longitude", "edges": [min(west), max(east)]},
        "y": {"name": "latitude", "edges": [min(south), max(north)]},
        "x_first": False,
        "degrees": True,
        "cells": cells,
    }


def _cells(name: str, values: Sequence[object]) -> list[Box] | None:
    """The box of every value; None unless all of them are cells of one kind."""
    kinds: list[Callable[[str], Box | None]] = [box]
    # A short word may be a geohash, and a date a tile, by chance: the attribute's name has to say it.
    kinds += [geohash_box] if "geohash" in name.lower() else []
    kinds += [tile_box] if "tile" in name.lower() else []
    for kind in kinds:
        found = [cell for value in values if isinstance(value, str) and (cell := kind(value)) is not None]
        if len(found) == len(values):
            return found
    return None


def box(text: str) -> Box | None:
    """A box that is written as its four borders.

    >>> box("2.25, 48.8, 2.5, 49"), box("2.5,48.8,2.25,49"), box("a,b,c,d")
    ((2.25, 48.8, 2.5, 49.0), None, None)
    """
    parts = text.split(",")
    try:
        west, south, east, north = (float(part) for part in parts)
    except ValueError:
        return None
    return (west, south, east, north) if -180 <= west < east <= 180 and -90 <= south < north <= 90 else None


def geohash_box(text: str) -> Box | None:
    """The cell of a geohash: five bits a letter, which halve longitude and latitude in turn.

    >>> geohash_box("ezs42")
    (-5.625, 42.5830078125, -5.5810546875, 42.626953125)
    """
    lower = text.lower()
    if not 1 <= len(lower) <= LONGEST_GEOHASH or any(letter not in GEOHASH_LETTERS for letter in lower):
        return None
    bits = [GEOHASH_LETTERS.index(letter) >> place & 1 for letter in lower for place in (4, 3, 2, 1, 0)]
    (west, east), (south, north) = _halved(-180.0, 180.0, bits[::2]), _halved(-90.0, 90.0, bits[1::2])
    return west, south, east, north


def _halved(low: float, high: float, bits: Sequence[int]) -> tuple[float, float]:
    for bit in bits:
        middle = (low + high) / 2
        low, high = (middle, high) if bit else (low, middle)
    return low, high


def tile_box(text: str) -> Box | None:
    """The cell of a tile ``zoom/x/y`` in the projection of web maps, whose y goes down from the north.

    >>> [round(border, 3) for border in tile_box("1/0/0")], tile_box("1/2/0")
    ([-180.0, 0.0, 0.0, 85.051], None)
    """
    found = re.fullmatch(r"(\d{1,2})/(\d{1,10})/(\d{1,10})", text)
    if found is None:
        return None
    zoom, x, y = (int(part) for part in found.groups())
    size = 1 << min(zoom, DEEPEST_TILE)
    if zoom > DEEPEST_TILE or max(x, y) >= size:
        return None
    return x / size * 360 - 180, _latitude(y + 1, size), (x + 1) / size * 360 - 180, _latitude(y, size)


def _latitude(y: int, size: int) -> float:
    return math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * y / size))))
