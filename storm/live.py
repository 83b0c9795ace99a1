"""Live streams under kills: rows are added and steps are closed at once; every accepted batch must count exactly once.

There is so much budget that no noise is left: a release shows which rows counted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from storm import reader
from storm.children import Notes
from storm.subjects import Place, See
from veilstream.live import LiveStream, open_stream, presence
from veilstream.live.sources import drain
from veilstream.live.sources.directory import DirectorySource

BATCHES_PER_STEP: Final = 4
ROWS: Final = 30
PLACES: Final = ("a", "b")
STREAM: Final = "live"
DEFINITION: Final[dict[str, Any]] = {
    "user": "id",
    "time": "t",
    "domain": {"place": list(PLACES)},
    "start": 0,
    "every": 10,
    "epsilon": "1000000",
    "mechanism": "uniform",
    "window": 1,
    "clock": "manual",
}
REGULARS: Final = 211
SELDOM: Final = {"window": 6, "presence": 2}
"""The promise to people who come again: they count where they came in fewer than 2 of the 5 steps before."""

FEWEST_BYTES: Final = -9_000


def batch(number: int, regulars: int | None = None) -> dict[str, list[Any]]:
    """Rows of people who occur once, or of so many regulars; every other batch reaches into the next step."""
    step, inside = divmod(number, BATCHES_PER_STEP)
    rows = range(number * ROWS, (number + 1) * ROWS)
    people = list(rows) if regulars is None else [row * row % regulars for row in rows]
    later = inside % 2
    return {
        "id": [f"p{who}" for who in people],
        "t": [(step + (later if row % 4 == 0 else 0)) * 10 + row % 10 for row in rows],
        "place": [PLACES[who % 3 % 2] for who in people],
    }


def expected(batches: int, regulars: int | None = None) -> dict[int, list[float]]:
    """The counts of every step after so many batches."""
    present: dict[int, dict[str, str]] = {}
    for number in range(batches):
        rows = batch(number, regulars)
        for who, when, where in zip(rows["id"], rows["t"], rows["place"], strict=True):
            present.setdefault(when // 10, {})[who] = where
    counted = {t: [0.0] * len(PLACES) for t in present}
    for t, people in present.items():
        for who, where in people.items():
            before = sum(who in present.get(s, {}) for s in range(t - SELDOM["window"] + 1, t))
            counted[t][PLACES.index(where)] += regulars is None or before < SELDOM["presence"]
    return counted


@dataclass(frozen=True, slots=True)
class Live:
    """Batches that come one by one, or as files of a directory, while a thread closes the steps behind them."""

    directory: bool = False
    distinct: int = 1
    regulars: int | None = None
    batches: int = 160
    budgets: None = None

    @property
    def name(self) -> str:
        if self.distinct > 1:
            return "live batches, people of the last steps"
        if self.regulars is not None:
            return "live batches of regulars who count in few steps"
        return "live rows of a directory" if self.directory else "live batches"

    @property
    def definition(self) -> dict[str, Any]:
        if self.regulars is not None:
            return {**DEFINITION, **SELDOM}
        return DEFINITION if self.distinct == 1 else {**DEFINITION, "distinct": self.distinct}

    @property
    def steps(self) -> int:
        """How many steps are closed at the end."""
        return self.batches // BATCHES_PER_STEP

    def work(self, place: Place, see: See) -> None:
        accepted = Notes(place.folder / "accepted")
        spool = None if place.ledger.startswith("postgres") else place.folder / "spool"
        # Who was present is written whole every few steps.
        often = patch.object(presence, "FEWEST_BYTES", FEWEST_BYTES)
        with often, open_stream(place.ledger, STREAM, self.definition, spool=spool) as stream:
            closer = _Closer(stream, see)
            for number in self._taken(stream, place, len(accepted.lines())):
                accepted.add(str(number))
                closer.may_close((number + 1) // BATCHES_PER_STEP)
            closer.finish(self.steps)
            if stream.fates.late:
                raise AssertionError("rows were late")

    def _taken(self, stream: LiveStream, place: Place, first: int) -> Iterator[int]:
        """Take one batch after the other; a number comes when its batch is durable."""
        if self.directory:
            source = DirectorySource(str(_files(place.folder, self.batches)))
            drain(stream, source)
            yield from range(first, self.batches)
            return
        for number in range(first, self.batches):
            stream.add(batch(number, self.regulars), batch_id=str(number))
            yield number

    def problems(self, place: Place) -> list[str]:
        """What the releases show that the batches do not, and the other way round."""
        steps = expected(self.batches, self.regulars)
        # But for regulars nobody comes twice, so that the people of the last steps are the sum of the people of each.
        wanted = {t: _added(steps[s] for s in range(max(0, t - self.distinct + 1), t + 1)) for t in steps}
        stream = reader.examine(reader.read(place.ledger))[STREAM]
        found = [f"step {t} is missing" for t in range(self.steps) if t not in stream.steps]
        for t, step in stream.steps.items():
            if step.values != wanted[t]:
                found.append(f"step {t} shows {step.values}, the batches hold {wanted[t]}")
        return found


def _added(counts: Iterable[list[float]]) -> list[float]:
    return [sum(parts) for parts in zip(*counts, strict=True)]


def warm_live(place: Place) -> None:
    """Open and close a live stream without rows: libraries that read rows start threads, which no fork survives."""
    with open_stream(place.ledger, STREAM, DEFINITION, spool=place.folder / "spool") as stream:
        stream.close_until(20)


def _files(folder: Path, batches: int) -> Path:
    """A directory of one file for each batch, made once."""
    made = folder / "files"
    if not made.exists():
        half = folder / f"half-{threading.get_native_id()}"
        half.mkdir()
        for number in range(batches):
            rows = batch(number)
            lines = [",".join(rows), *(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))]
            (half / f"{number:05d}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        half.rename(made)
    return made


class _Closer:
    """A thread that closes steps as soon as it is told that they may be closed."""

    def __init__(self, stream: LiveStream, see: See) -> None:
        self._stream, self._see = stream, see
        self._turn = threading.Condition()
        self._wanted, self._ending = 0, False
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def may_close(self, steps: int) -> None:
        with self._turn:
            self._wanted = max(self._wanted, steps)
            self._turn.notify()

    def finish(self, steps: int) -> None:
        """Close what is left, and raise what went wrong."""
        with self._turn:
            self._wanted, self._ending = steps, True
            self._turn.notify()
        self._thread.join()
        if self._failed:
            raise self._failed[0]

    def _run(self) -> None:
        try:
            closed = 0
            while (wanted := self._next(closed)) > closed:
                closed = wanted
                for release in self._stream.close_until(closed * 10):
                    self._see(release)
        except BaseException as error:
            self._failed.append(error)

    def _next(self, closed: int) -> int:
        """Wait until more steps may be closed, or no more will come."""
        with self._turn:
            self._turn.wait_for(lambda: self._wanted > closed or self._ending)
            return self._wanted
