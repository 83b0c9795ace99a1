"""One stream, killed again and again, then brought to its end and compared with all that was ever seen of it."""

from __future__ import annotations

import csv
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from storm import reader
from storm.children import Notes, Strike, begin, end
from storm.live import Live
from storm.outcome import Outcome
from storm.subjects import Place, Subject
from veilstream.storage.ledger import Ledger
from veilstream.storage.ledger.verifying import verify

KILLED: Final = -9
LONGEST: Final = 0.06
"""Seconds: some kills hit a process that opens its ledger, most one that publishes."""


def kill_and_resume(
    subject: Subject,
    place: Place,
    most: int,
    chance: random.Random,
    reference: Notes | None = None,
    longest: float = LONGEST,
) -> Outcome:
    """Kill up to ``most`` processes that work on one ledger, let one finish, and examine what is left.

    ``reference`` is what an uninterrupted run shows, ``longest`` how many seconds a process lives at most.
    """
    notes, errors = Notes(place.folder / "seen"), place.folder / "errors"
    outcome = Outcome()
    finished = False
    while outcome.tried < most and not finished:
        strike = random_strike(chance, longest)
        status = end(begin(lambda: subject.work(place, notes.see), errors, strike))
        outcome.tried += status == KILLED
        finished = status != KILLED
    try:
        status = end(begin(lambda: subject.work(place, notes.see), errors))
    except TimeoutError as error:
        outcome.problems.append(str(error))
    else:
        if status != 0:
            outcome.problems.append(f"it could not be resumed: {Notes(errors).lines()[-1:]}")
    outcome.problems += in_child(lambda: examine(subject, place, notes, reference), place.folder)
    outcome.resumed = 0 if outcome.problems else outcome.tried
    return outcome


def random_strike(chance: random.Random, longest: float) -> Strike:
    """Half by processor time, some by the clock, some exactly at a call."""
    kind = chance.random()
    if kind < 0.5:
        return Strike(busy=longest * chance.random())
    if kind < 0.7:
        return Strike(delay=longest * chance.random())
    return Strike(call=chance.randint(1, 8), after=chance.random() < 0.5)


def uninterrupted(subject: Subject, folder: Path) -> Notes:
    """What a run without interruption shows; kept in a folder, which appears when it is whole."""
    notes = Notes(folder / "seen")
    if not folder.exists():
        half = folder.with_name(f"{folder.name}.{os.getpid()}")
        half.mkdir(parents=True)
        place, seen = Place(str(half / "ledger.db"), half), Notes(half / "seen")
        if end(begin(lambda: subject.work(place, seen.see), half / "errors")) != 0:
            raise RuntimeError(f"{subject.name} fails without interruption: {Notes(half / 'errors').lines()}")
        try:
            half.rename(folder)
        except OSError:
            # Another round was quicker.
            shutil.rmtree(half)
    return notes


def in_child(check: Callable[[], list[str]], folder: Path) -> list[str]:
    """What a check finds, in a process of its own: whoever forks has opened no ledger and started no thread."""
    found, errors = Notes(folder / "found"), folder / "errors"

    def work() -> None:
        for problem in check():
            found.add(problem.replace("\n", " "))

    if end(begin(work, errors)) != 0:
        found.add(f"the check failed: {Notes(errors).lines()[-1:]}")
    return found.lines()


def examine(subject: Subject, place: Place, notes: Notes, reference: Notes | None = None) -> list[str]:
    """All that is wrong with a ledger, given what was seen of it."""
    streams = reader.examine(reader.read(place.ledger), subject.budgets)
    problems = [f"{name}: {problem}" for name, stream in streams.items() for problem in stream.problems]
    for name, t, seen in notes.seen():
        step = streams[name].steps.get(t) if name in streams else None
        if step is None:
            problems.append(f"{name}: step {t} was seen and is not in the ledger")
        elif step.print != seen:
            problems.append(f"{name}: step {t} was seen as {seen}, the ledger has {step.print}")
    if place.table.exists() and "default" in streams:
        problems += table_problems(place.table, streams["default"])
    with Ledger.open(place.ledger) as ledger:
        problems += [f"verify: {finding.stream}: {finding.problem}" for finding in verify(ledger)]
    if isinstance(subject, Live):
        problems += subject.problems(place)
    if reference is not None:
        problems += _differences(reference, streams["default"])
    return problems


def table_problems(path: Path, stream: reader.Stream) -> Iterator[str]:
    """What a table of releases shows that is not in the ledger."""
    shown: dict[int, list[float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            shown.setdefault(int(row["step"]), []).append(float(row["value"]))
    for t, values in shown.items():
        if t not in stream.steps:
            yield f"the table shows step {t}, which is not in the ledger"
        elif stream.steps[t].values != values:
            yield f"the table shows other values for step {t} than the ledger"
    if sorted(shown) != list(range(len(shown))):
        yield f"the table shows steps {sorted(shown)}"


def _differences(reference: Notes, stream: reader.Stream) -> Iterator[str]:
    """Where an interrupted stream differs from an uninterrupted one."""
    for _, t, wanted in reference.seen():
        step = stream.steps.get(t)
        if step is None or step.print != wanted:
            yield f"step {t} is {step and step.print}, without interruption it is {wanted}"
    if len(stream.steps) != len(reference.seen()):
        yield f"{len(stream.steps)} steps, without interruption {len(reference.seen())}"
