"""Public values that name cells of the Earth are drawn as a map; words that only look like them are not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.data import Categories, Domain
from veilstream.server.maps import GEOHASH_LETTERS, geohash_box, map_grid, tile_box


@settings(deadline=None)
@given(st.text(GEOHASH_LETTERS, max_size=11), st.integers(0, 6))
def test_the_cells_of_longer_names_divide_the_cell_of_the_name(prefix: str, zoom: int) -> None:
    west, south, east, north = geohash_box(prefix) or (-180.0, -90.0, 180.0, 90.0)
    inner = [cell for letter in GEOHASH_LETTERS if (cell := geohash_box(prefix + letter)) is not None]
    assert len(inner) == 32
    area = sum((cell[2] - cell[0]) * (cell[3] - cell[1]) for cell in inner)
    assert area == pytest.approx((east - west) * (north - south), rel=1e-9)
    assert min(cell[0] for cell in inner) == west
    assert max(cell[3] for cell in inner) == north
    tiles = [tile_box(f"{zoom}/0/{y}") for y in range(1 << zoom)]
    assert all(upper and lower and upper[1] == lower[3] for upper, lower in pairwise(tiles))


@pytest.mark.parametrize(
    ("name", "values", "drawn"),
    [
        ("geohash", ["u09t", "u09w"], True),
        ("home_geohash", ["u09", "u09tvw"], True),
        ("box", ["2.2,48.8,2.3,48.9", "2.3,48.8,2.4,48.9"], True),
        ("tile", ["5/16/11", "5/16/10"], True),
        ("vehicle", ["bus", "skytrn"], False),
        ("postcode", ["75011", "75012"], False),
        ("geohash", ["u09t", "unknown place"], False),
        ("box", ["2.3,48.8,2.2,48.9"], False),
        ("tile", ["1/2/2024"], False),
        ("day", ["12/1/2024", "12/2/2024"], False),
    ],
)
def test_all_values_must_be_cells_of_one_kind(name: str, values: list[str], drawn: bool) -> None:
    grid = map_grid(Domain({name: Categories(values)}))
    assert (grid is not None) == drawn
    if grid is not None:
        assert len(grid["cells"]) == len(values)
