"""Kill a process that adds rows and closes steps, again and again; compare what it published with what it was given.

Run as a program: ``python -m tests.live.storm DIRECTORY KILLS SEED``. It forks workers from a process that has all
modules loaded, so that a thousand kills take about two minutes.
"""

from __future__ import annotations

import os
import random  # noqa: TID251
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from veilstream.live import LiveStream, open_stream

BATCHES_PER_STEP = 6
ROWS = 40
PLACES = ["a", "b"]
DEFINITION: dict[str, Any] = {
    "user": "id",
    "time": "t",
    "domain": {"place": PLACES},
    "start": 0,
    "every": 10,
    # So much budget that no noise is left: a release shows exactly which rows counted.
    "epsilon": "1000000",
    "window": 1,
    "clock": "manual",
}


def batch(number: int) -> dict[str, list[Any]]:
    """Rows of people who occur once; a batch may reach into the next step."""
    step, inside = divmod(number, BATCHES_PER_STEP)
    people = range(number * ROWS, (number + 1) * ROWS)
    later = inside % 2
    return {
        "id": [f"p{who}" for who in people],
        "t": [(step + (later if who % 4 == 0 else 0)) * 10 + who % 10 for who in people],
        "place": [PLACES[who % 3 % 2] for who in people],
    }


def expected(batches: int) -> dict[int, list[int]]:
    """The counts of every step after so many batches."""
    counts: dict[int, list[int]] = {}
    for number in range(batches):
        rows = batch(number)
        for when, where in zip(rows["t"], rows["place"], strict=True):
            counts.setdefault(when // 10, [0] * len(PLACES))[PLACES.index(where)] += 1
    return counts


def work(place: Path, tell: int) -> None:
    """Add batches from where the notes end, and close steps behind them, until killed."""
    notes = place / "accepted"
    accepted = len(notes.read_bytes()) if notes.exists() else 0
    turn = threading.Condition()
    with open_stream(place / "b.db", "s", DEFINITION) as stream, notes.open("ab", buffering=0) as file:
        closer = threading.Thread(target=_close, args=(stream, turn, lambda: accepted), daemon=True)
        closer.start()
        while True:
            stream.add(batch(accepted), batch_id=str(accepted))
            file.write(b".")
            os.write(tell, b".")
            with turn:
                accepted += 1
                turn.notify()


def _close(stream: LiveStream, turn: threading.Condition, accepted: Any) -> None:
    closed = 0
    while True:
        with turn:
            while accepted() // BATCHES_PER_STEP <= closed:
                turn.wait()
            closed = accepted() // BATCHES_PER_STEP
        stream.close_until(closed * 10)


def storm(place: Path, kills: int, seed: int) -> str:
    """Kill ``kills`` workers; an empty text if everything is as it must be, else what is not."""
    assert pa.__version__, "loaded here, once for all workers"
    chance = random.Random(seed)  # noqa: S311
    seen: dict[int, list[float]] = {}
    for _ in range(kills):
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            work(place, tell)
        os.close(tell)
        # Most workers have stored a batch when they are killed, some are killed while they open the stream.
        if chance.random() < 0.9:
            os.read(ready, 1)
        time.sleep(0.15 * chance.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
    # A process of its own again: threads of a library do not survive a fork.
    child = os.fork()
    if child == 0:
        problem = verify(place, seen)
        print(problem or f"{kills} kills, {len(seen)} steps published, 0 violations", flush=True)
        os._exit(1 if problem else 0)
    _, status = os.waitpid(child, 0)
    return "" if status == 0 else "violated"


def verify(place: Path, seen: dict[int, list[float]]) -> str:
    accepted = len((place / "accepted").read_bytes()) if (place / "accepted").exists() else 0
    with open_stream(place / "b.db", "s", DEFINITION) as stream:
        # Whether the last batch was stored before the kill is not noted; sending it again is what a client does.
        for number in (accepted, accepted + 1):
            stream.add(batch(number), batch_id=str(number))
        whole = (accepted + 2) // BATCHES_PER_STEP
        before = {release.t: release.values.tolist() for release in stream.releases()}
        stream.close_until(whole * 10)
        wanted = expected(accepted + 2)
        for release in stream.releases():
            if release.t in seen:
                return f"step {release.t} was published twice"
            seen[release.t] = release.values.tolist()
            if release.spent > 1_000_000 or release.left < 0:
                return f"step {release.t} spent {release.spent}"
            if seen[release.t] != wanted[release.t]:
                return f"step {release.t} published {seen[release.t]}, given {wanted[release.t]}"
        if sorted(seen) != list(range(whole)):
            return f"steps {sorted(seen)} of {whole}"
        if any(seen[t] != values for t, values in before.items()):
            return "a release changed after a restart"
        if stream.fates.late:
            return "rows were late"
    return ""


if __name__ == "__main__":
    sys.exit(storm(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])) != "")
