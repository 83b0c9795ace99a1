"""Pictures of points show what was released, on the public range."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from veilstream.errors import InvalidInputError
from veilstream.release.plots.points import plot_points, require_drawable

ENDS = {"low": [1.0, 2.0, 3.0, 4.0], "high": [3.0, 4.0, 5.0, 6.0], "covers": ["value before noise"] * 4}
PLANE = {"x": [0.0, 0.0, 1.0, 1.0], "value": [0.0, 1.0, 0.0, 1.0], "points": [2.0, -3.0, 4.0, 5.0], **ENDS}
TABLES = {
    "sorted": (["income"], pl.DataFrame({"rank": [1, 2, 3, 4], "income": [2.0, 3.0, 4.0, 5.0], **ENDS})),
    "line": (["income"], pl.DataFrame({"income": [0.0, 1.0, 2.0, 3.0], "points": [2.0, 3.0, 4.0, 5.0]})),
    "median": (["income"], pl.DataFrame({"income": [4.5]})),
    "plane": (["x", "value"], pl.DataFrame(PLANE)),
}
"""A coordinate of the plane has the name of a column that tables of releases have."""


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_release_has_a_picture_with_its_words(kind: str, tmp_path: Path) -> None:
    coordinates, table = TABLES[kind]
    path = plot_points(
        table,
        tmp_path / "points.svg",
        coordinates=coordinates,
        ends=(0, 10),
        title="Points",
        subtitle="epsilon 1",
        level=0.9,
        note="a note",
    )
    assert path.stat().st_size > 5_000


def test_a_room_is_refused_before_anything_is_spent() -> None:
    require_drawable(["x", "y"])
    with pytest.raises(InvalidInputError, match="plot '3 coordinates'"):
        require_drawable(["x", "y", "z"])
