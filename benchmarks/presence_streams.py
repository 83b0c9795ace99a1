"""Real streams with ids of people, as events of one bin: who was present in which step."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from veilstream.data import Calendar, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.opening import open_counts

DATA: Final = Path(
    os.environ.get("VEILSTREAM_DATA", str(Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
)
KEY: Final = b"a key for measurements alone"
DAY, MINUTE = 86_400, 60


@dataclass(frozen=True, slots=True)
class Visits:
    """A stream of visits, one row per person and step, and the windows to protect."""

    name: str
    person: NDArray[np.int64]
    step: NDArray[np.int64]
    windows: tuple[int, ...]

    @property
    def steps(self) -> int:
        return int(self.step.max()) + 1

    def counts(self, presence: Guarantee | None = None) -> NDArray[np.int64]:
        """People who count in each step, steps × 1."""
        frame = pl.DataFrame({"person": self.person, "step": self.step})
        events = read_events(frame, user="person", time="step", by=[])
        with bound(events, Domain({}), Calendar(0, self.steps, 1), key=KEY, presence=presence) as held:
            return np.array([open_counts(one) for one in held.snapshots()])

    def left_out(self, c: int, length: int, *, block: bool) -> NDArray[np.int64]:
        """Left out in each step if people count in the first c of a block, or look back over ``length`` steps."""
        out = np.zeros(len(self.step), dtype=np.bool_)
        same = self.person[c:] == self.person[:-c]
        later, earlier = self.step[c:], self.step[:-c]
        out[c:] = same & (later // length == earlier // length if block else later - earlier < length)
        return np.bincount(self.step[out], minlength=self.steps)


def distances(left_out: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """E|L − d| of Laplace noise L of this scale in each step."""
    gaps = left_out.astype(np.float64)
    return gaps + scale * np.exp(-gaps / scale)


def _stream(
    name: str, person: NDArray[np.int64], seconds: NDArray[np.int64], width: int, windows: tuple[int, ...]
) -> Visits:
    step = (seconds - seconds.min()) // width
    pairs = np.unique(np.stack([person, step], axis=1), axis=0)
    return Visits(name, pairs[:, 0].copy(), pairs[:, 1].copy(), windows)


def _columns(frame: pl.DataFrame, person: str, time: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    seconds = frame[time] if frame[time].dtype.is_integer() else frame[time].cast(pl.Datetime("us")).dt.epoch("s")
    return frame[person].cast(pl.Int64).to_numpy(), seconds.cast(pl.Int64).to_numpy()


def purchases() -> Visits:
    frame = pl.read_csv(DATA / "cdnow_purchases.csv.gz", try_parse_dates=True)
    return _stream("purchases per day", *_columns(frame, "customer_id", "date"), DAY, (40, 120))


def messages() -> Visits:
    frame = pl.read_csv(DATA / "collegemsg_messages.csv.gz")
    return _stream("senders per day", *_columns(frame, "src", "unixts"), DAY, (40, 120))


def trajectories() -> Visits:
    frame = pl.read_parquet(DATA / "geolife_1min_182users.parquet")
    years = frame.filter(pl.col("time").is_between(pl.datetime(2008, 1, 1), pl.datetime(2009, 12, 31)))
    return _stream("trajectories per day", *_columns(years, "user_id", "time"), DAY, (40,))


def taxis() -> Visits:
    frame = pl.read_parquet(DATA / "tdrive_beijing_2008-02-02_16h.parquet")
    hour = frame.filter(pl.col("time") < pl.datetime(2008, 2, 2, 17))
    return _stream("taxis per minute", *_columns(hour, "taxi_id", "time"), MINUTE, (20,))


def requests() -> Visits:
    frame = pl.read_csv(DATA / "worldcup98_sample_requests.csv.gz")
    return _stream("web clients per minute", *_columns(frame, "client_id", "unixts"), MINUTE, (10,))


STREAMS_WITH_IDS: Final[tuple[Callable[[], Visits], ...]] = (purchases, messages, trajectories, taxis, requests)


def present() -> list[Visits]:
    """The streams whose files are there."""
    found: list[Visits] = []
    for make in STREAMS_WITH_IDS:
        try:
            found.append(make())
        except FileNotFoundError:
            continue
    return found
