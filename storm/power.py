"""Losses of power: a stream is recorded call by call, and every state that its disk may be left in is opened again."""

from __future__ import annotations

import random
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Final

from storm import reader
from storm.disk import watching
from storm.images import MODES, Disk, Recorder
from storm.outcome import Outcome
from storm.subjects import OneStream, Place, print_of
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify
from veilstream.values.release import Release

SESSIONS: Final = (4, 70, 74)
"""Steps after which the publisher is closed and opened again: in the second the log is copied into the main file."""
EXTRA: Final = 1
"""Steps that are released after each loss, to see that the state is whole."""
VERIFIED: Final = 8
"""One in so many states is also checked by the ledger's own command."""


def lose_power(subject: OneStream, folder: Path, states: int, chance: random.Random) -> Outcome:
    """Record one stream and open ``states`` of the disks that it may have left."""
    original = folder / "original"
    original.mkdir()
    prints: dict[int, str] = {}
    recorder = Recorder()

    def see(release: Release) -> None:
        prints[release.t] = print_of(release)
        recorder.note(f"{release.t}")

    with recorder.of_python(), watching(recorder):
        for steps in SESSIONS:
            replace(subject, steps=steps).work(Place(str(original / "ledger.db"), original), see)
    # Some more, which are not lost: what a stream that goes on after a loss must release.
    longer = replace(subject, steps=SESSIONS[-1] + 1 + EXTRA)
    longer.work(
        Place(str(original / "ledger.db"), original), lambda release: prints.update({release.t: print_of(release)})
    )
    outcome = Outcome()
    moments = sorted(chance.choices(range(1, len(recorder.calls) + 1), k=states))
    disk, seen, made = Disk(original), set[int](), 0
    for moment in moments:
        for call in recorder.calls[made:moment]:
            if call.kind == "seen":
                seen.add(int(call.content))
            else:
                disk.make(call)
        made = moment
        image, mode = folder / "image", chance.choice(MODES)
        image.mkdir()
        disk.image(image, mode, chance)
        problems = _opened_again(subject, image, seen, prints, chance)
        shutil.rmtree(image)
        outcome.tried += 1
        outcome.resumed += not problems
        outcome.problems += [f"{subject.name}, after call {moment}, {mode}: {problem}" for problem in problems]
    return outcome


def _opened_again(
    subject: OneStream, image: Path, seen: set[int], prints: dict[int, str], chance: random.Random
) -> list[str]:
    place = Place(str(image / "ledger.db"), image)
    problems: list[str] = []
    if chance.random() < 0.5:
        # Either the reader or the ledger is the first to open what is left, and recovers it.
        problems += _read(place, seen, prints)
    shown: dict[int, str] = {}
    try:
        # One step more than was seen may be on the disk.
        goal = max(seen, default=-1) + 2 + EXTRA
        replace(subject, steps=goal).work(place, lambda release: shown.update({release.t: print_of(release)}))
        if chance.randrange(VERIFIED) == 0:
            with Ledger.open(place.ledger) as ledger:
                problems += [f"verify: {finding.problem}" for finding in verify(ledger)]
    except Exception as error:
        problems.append(f"it could not be resumed: {type(error).__name__}: {error}")
    problems += [f"step {t} was released as {text}" for t, text in shown.items() if prints.get(t) != text]
    return problems + _read(place, seen, prints)


def _read(place: Place, seen: set[int], prints: dict[int, str]) -> list[str]:
    try:
        tables = reader.read(place.ledger)
    except sqlite3.DatabaseError as error:
        # Without tables nothing was ever released from it.
        made = seen or not isinstance(error, sqlite3.OperationalError)
        return [f"{len(seen)} steps were seen: {error}"] if made else []
    streams = reader.examine(tables)
    if "default" not in streams:
        return ["the stream is gone"] if seen else []
    stream = streams["default"]
    problems = list(stream.problems)
    problems += [f"step {t} was seen and is gone" for t in sorted(seen - set(stream.steps))]
    problems += [f"step {t} has changed" for t, step in stream.steps.items() if prints.get(t) != step.print]
    return problems
