"""Old copies of some files of a live stream are put back: it refuses, or nothing is lost, doubled or drawn again.

A client goes on after the batches that were accepted. Where the stream refuses, the newest files bring it back.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Final

from storm.children import Notes, begin, end
from storm.kills import examine, in_child
from storm.live import Live
from storm.outcome import Outcome
from storm.subjects import Place
from veilstream import errors

NOTED: Final = ("seen", "accepted", "errors")
"""What the client and this program remember, which nobody puts back."""
OURS: Final = frozenset(name for name, kind in vars(errors).items() if isinstance(kind, type))
EARLY, LATE, ALL = Live(batches=12), Live(batches=20), Live(batches=28)


def put_back(folder: Path, most: int, chance: random.Random) -> Outcome:
    """Put random files of so many streams back, one stream after the other."""
    outcome = Outcome()
    for number in range(most):
        place = Place(str(folder / str(number) / "ledger.db"), folder / str(number))
        place.folder.mkdir()
        problems = _once(place, chance)
        outcome.tried += 1
        outcome.resumed += not problems
        outcome.problems += problems
    return outcome


def _once(place: Place, chance: random.Random) -> list[str]:
    if said := _work(EARLY, place):
        return [f"it did not work untouched: {said}"]
    old = _copies(place.folder, place.folder.with_suffix(".old"))
    if said := _work(LATE, place):
        return [f"it did not work untouched: {said}"]
    new = _copies(place.folder, place.folder.with_suffix(".new"))
    chosen = chance.sample(sorted(old), chance.randint(1, len(old) - 1))
    for name in chosen:
        shutil.copy2(old[name], place.folder / name)
    said = _work(ALL, place)
    if said:
        if said.partition(":")[0] not in OURS:
            return [f"old {chosen}: {said}"]
        for path in _files(place.folder):
            path.unlink()
        for name, copy in new.items():
            shutil.copy2(copy, place.folder / name)
        if again := _work(ALL, place):
            return [f"after the refusal of old {chosen} the newest files were refused: {again}"]
    seen = Notes(place.folder / "seen")
    found = in_child(lambda: examine(ALL, place, seen), place.folder)
    return [f"old {chosen}, {'refused' if said else 'taken'}: {problem}" for problem in found]


def _work(subject: Live, place: Place) -> str:
    """Work in a process of its own; what it ended with, nothing if all is well."""
    failed = place.folder / "errors"
    failed.unlink(missing_ok=True)
    status = end(begin(lambda: subject.work(place, Notes(place.folder / "seen").see), failed))
    return "" if status == 0 else (Notes(failed).lines() or [f"exit code {status}"])[-1]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file() and path.name not in NOTED]


def _copies(folder: Path, target: Path) -> dict[str, Path]:
    target.mkdir()
    return {path.name: Path(shutil.copy2(path, target / path.name)) for path in _files(folder)}
