"""Data sets by name: whole, of the length that their papers give, or refused with a reason."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from research.datasets import DATASETS, dataset
from veilstream.errors import InvalidInputError, UnreadableFileError

DATA = Path(os.environ.get("VEILSTREAM_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))

SHAPES = {
    "ilinet-regions": (156, 50),
    "ilinet-regions-long": (784, 50),
    "flu-5-24": (209, 1),
    "unemployment": (911, 1),
    "unemployment-women": (911, 1),
    "unemployment-women-16-19": (408, 1),
    "bicycles-hourly": (56_904, 2),
    "bicycles-daily": (2_371, 1),
    "vehicles": (12_096, 1),
    "web-requests": (125_300, 1),
    "purchases": (546, 10),
    "messages": (775, 20),
}


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_read_whole(name: str) -> None:
    file = DATASETS[name].file
    if file is not None and not (DATA / file).is_file():
        pytest.skip(f"{file}: lies beside the project; set VEILSTREAM_DATA")
    counts = dataset(name, DATA)
    assert counts.shape == SHAPES[name]
    assert counts.dtype == np.int64
    assert counts.min() >= 0
    assert counts.sum() > 0


def test_days_add_up_their_hours() -> None:
    if not (DATA / "seattle_fremont_bridge_bikes_hourly.csv.gz").is_file():
        pytest.skip("bicycles lie beside the project; set VEILSTREAM_DATA")
    assert dataset("bicycles-daily", DATA).sum() == dataset("bicycles-hourly", DATA).sum()


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="data set 'nope': choose from ilinet-regions"):
        dataset("nope")
    with pytest.raises(InvalidInputError, match="name its directory"):
        dataset("flu-5-24")
    with pytest.raises(UnreadableFileError, match="ilinet_national_weekly"):
        dataset("flu-5-24", tmp_path)
    (tmp_path / "cdnow_purchases.csv.gz").write_text("a,b\n1,2\n")
    with pytest.raises(UnreadableFileError, match="not the table"):
        dataset("purchases", tmp_path)
