"""Many inputs in several processes; finished chunks are kept, so that the same command goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fuzz.case import Case
from fuzz.generating import case_of
from fuzz.trying import WAITING, Bench

CHUNK: Final = 5_000
MEMORY: Final = 12 << 30
"""Addresses that a process may use: what asks for more gets a MemoryError and not the machine."""
ROOT: Final = Path(__file__).resolve().parents[1]
STUCK: Final = 3 * WAITING
"""After so many seconds on one input a process is taken to hang where no signal reaches it."""


@dataclass(slots=True)
class Tally:
    """What became of many inputs."""

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    failures: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    seconds: float = 0.0
    """Of processor time."""

    def add(self, other: Tally) -> None:
        """Count another tally too."""
        self.inputs += other.inputs
        self.outcomes.update(other.outcomes)
        self.failures += other.failures
        self.seconds += other.seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": self.inputs,
            "outcomes": dict(self.outcomes),
            "failures": self.failures,
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Tally:
        return cls(kept["inputs"], Counter(kept["outcomes"]), kept["failures"], kept["seconds"])


def code_digest() -> str:
    """Of everything that decides what an input does: after a change all inputs are tried again."""
    digest = hashlib.sha256()
    for folder in ("src", "fuzz"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def try_chunk(seed: int, first: int, last: int, note: Path, skipped: Iterable[int] = ()) -> Tally:
    """Try the inputs ``first`` to ``last - 1`` in this process; ``note`` says which is under way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    tally, left_out = Tally(), set(skipped)
    try:
        with Bench() as bench, note.open("w") as noted:
            for number in range(first, last):
                if number in left_out:
                    continue
                noted.seek(0)
                noted.write(f"{number:>20}")
                noted.flush()
                case = case_of(seed, number)
                verdict = bench.attempt(case)
                tally.inputs += 1
                tally.outcomes[f"{case.kind} {verdict.outcome}"] += 1
                if verdict.fault:
                    tally.failures.append(failure(seed, number, case, verdict.fault))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    tally.seconds = time.process_time()
    return tally


def replay(corpus: Path) -> Tally:
    """Try what failed once: every file of the folder holds a list of cases."""
    tally = Tally()
    with Bench() as bench:
        for path in sorted(corpus.glob("*.json")):
            for number, kept in enumerate(json.loads(path.read_text())):
                case = Case.from_json(kept["case"])
                verdict = bench.attempt(case)
                tally.inputs += 1
                tally.outcomes[f"{case.kind} {verdict.outcome}"] += 1
                if verdict.fault:
                    tally.failures.append(failure(0, number, case, verdict.fault))
    return tally


def failure(seed: int, number: int, case: Case, fault: str) -> dict[str, Any]:
    """What is kept of an input that failed."""
    return {"seed": seed, "number": number, "fault": fault, "case": case.to_json()}


def try_all(seed: int, inputs: int, workers: int, kept: Path) -> Tally:
    """Try inputs 0 to ``inputs - 1`` in several processes, going on after the chunks that ``kept`` has."""
    folder = kept / f"{code_digest()}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [(first, min(first + CHUNK, inputs)) for first in range(0, inputs, CHUNK)]
    waiting = [part for part in waiting if not _kept(folder, *part).exists()]
    running: list[_Worker] = []
    while waiting or running:
        while waiting and len(running) < workers:
            running.append(_Worker(seed, *waiting.pop(0), folder))
        time.sleep(0.2)
        running = [worker for worker in running if not worker.finished()]
    total = Tally()
    for first in range(0, inputs, CHUNK):
        total.add(Tally.from_json(json.loads(_kept(folder, first, min(first + CHUNK, inputs)).read_text())))
    return total


def _kept(folder: Path, first: int, last: int) -> Path:
    return folder / f"{first}-{last}.json"


class _Worker:
    """A process that tries one chunk; if it dies, the input that it died of is noted and it starts again after it."""

    def __init__(self, seed: int, first: int, last: int, folder: Path) -> None:
        self._seed, self._first, self._last, self._folder = seed, first, last, folder
        self._deadly: dict[int, str] = {}
        self._start()

    def _start(self) -> None:
        self._note = self._folder / f"{self._first}.note"
        self._note.unlink(missing_ok=True)
        skipped = ",".join(map(str, self._deadly))
        words = ["--chunk", self._first, self._last, "--seed", self._seed, "--out", self._folder, "--skip", skipped]
        self._process = subprocess.Popen([sys.executable, "-m", "fuzz", *map(str, words)], cwd=ROOT)
        self._moved, self._at = time.monotonic(), ""

    def finished(self) -> bool:
        """Whether the chunk is done; watches, kills and starts again."""
        code = self._process.poll()
        if code is None:
            now = self._note.read_text() if self._note.exists() else ""
            if now != self._at:
                self._moved, self._at = time.monotonic(), now
            elif time.monotonic() - self._moved > STUCK:
                self._process.kill()
            return False
        if code == 0:
            self._record_deaths()
            return True
        if not self._note.exists():
            raise SystemExit("a worker ended before its first input; see above")
        number = int(self._note.read_text() or self._first)
        self._deadly[number] = f"the process died ({code})"
        self._start()
        return False

    def _record_deaths(self) -> None:
        path = _kept(self._folder, self._first, self._last)
        tally = Tally.from_json(json.loads(path.read_text()))
        for number, fault in self._deadly.items():
            tally.inputs += 1
            tally.outcomes["died"] += 1
            tally.failures.append(failure(self._seed, number, case_of(self._seed, number), fault))
        path.write_text(json.dumps(tally.to_json()))
        self._note.unlink(missing_ok=True)
