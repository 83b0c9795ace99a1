"""Which attacks there are, on what, and in which proportion."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from storm.backends import end_backends
from storm.children import Notes
from storm.copies import put_back
from storm.faults import fail_every_call, limit_process
from storm.kills import LONGEST, kill_and_resume, uninterrupted
from storm.live import REGULARS, Live
from storm.outcome import Outcome
from storm.power import lose_power
from storm.servers import Server
from storm.serving import kill_servers
from storm.subjects import Accounts, Command, Groups, OneStream, OneTime, Place, Subject, Threads, Together
from veilstream.mechanisms.streams import STREAMS

SQLITE: Final = "SQLite"
POSTGRES: Final = "PostgreSQL"
KILLS: Final = "kills"
STATES: Final = "states"
SEEDS: Final = 3
"""Of each mechanism so many streams, whose uninterrupted runs are kept."""


@dataclass(frozen=True, slots=True)
class Arena:
    """What a round may use: a folder of its own, one for uninterrupted runs, two servers, and its own luck."""

    folder: Path
    references: Path
    server: Server
    fragile: Server
    chance: random.Random

    def place(self, backend: str, server: Server | None = None) -> Place:
        if backend == SQLITE:
            return Place(str(self.folder / "ledger.db"), self.folder)
        return Place((server or self.server).new_ledger(), self.folder)

    def reference(self, subject: Subject) -> Notes | None:
        if not isinstance(subject, OneStream):
            return None
        name = f"{subject.mechanism}-{subject.seed}-{subject.steps}-{subject.w}"
        return uninterrupted(replace(subject, with_table=False), self.references / name)


@dataclass(frozen=True, slots=True)
class Attack:
    """A row of the table. ``share`` is its part of all strikes of its ``unit``; ``run`` takes the arena, the number of
    the round and how often to strike. Of what is done ``alone`` no two rounds run at once."""

    what: str
    backend: str
    unit: str
    share: float
    run: Callable[[Arena, int, int], Outcome]
    alone: bool = False

    @property
    def row(self) -> str:
        return f"{self.what} | {self.backend}"


def _stream(number: int, *, with_table: bool = False, patient: bool = False, steps: int = 48) -> OneStream:
    names = list(STREAMS)
    mechanism = names[number % len(names)]
    round_of_all = number // len(names)
    w = (5, 1)[round_of_all % 2]
    return OneStream(mechanism, round_of_all % SEEDS, steps, w, with_table, patient)


def _killed(
    choose: Callable[[int], Subject], backend: str, longest: float = LONGEST
) -> Callable[[Arena, int, int], Outcome]:
    def run(arena: Arena, number: int, most: int) -> Outcome:
        subject, place = choose(number), arena.place(backend)
        outcome = kill_and_resume(subject, place, most, arena.chance, arena.reference(subject), longest)
        return _named(subject.name, place, outcome, arena)

    return run


def _cut(*, hard: bool) -> Callable[[Arena, int, int], Outcome]:
    def run(arena: Arena, number: int, most: int) -> Outcome:
        server = arena.fragile if hard else arena.server
        subject, place = _stream(number, patient=number % 2 == 0), arena.place(POSTGRES, server)
        reference = arena.reference(_stream(number))
        outcome = end_backends(subject, place, server, most, arena.chance, reference, hard=hard)
        return _named(subject.name, place, outcome, arena, server)

    return run


def _named(name: str, place: Place, outcome: Outcome, arena: Arena, server: Server | None = None) -> Outcome:
    if place.ledger.startswith("postgres"):
        (server or arena.server).drop(place.ledger)
    outcome.problems = [f"{name}: {problem}" for problem in outcome.problems]
    return outcome


def _once(number: int) -> Subject:
    kinds: Sequence[Subject] = (OneTime(), Accounts(), Groups())
    return kinds[number % len(kinds)]


def _with_table(number: int) -> Subject:
    return Command() if number % 3 == 0 else _stream(number, with_table=True)


def _threads(number: int) -> Subject:
    return Threads(list(STREAMS)[number % len(STREAMS)])


def _live(number: int) -> Subject:
    kinds = (Live(), Live(directory=True), Live(regulars=REGULARS), Live(distinct=3))
    return kinds[number % len(kinds)]


def _power(arena: Arena, number: int, most: int) -> Outcome:
    return lose_power(_stream(number), arena.folder, most, arena.chance)


ATTACKS: Final = (
    Attack("SIGKILL: streams of every mechanism", SQLITE, KILLS, 0.327, _killed(_stream, SQLITE)),
    Attack("SIGKILL: streams of every mechanism", POSTGRES, KILLS, 0.18, _killed(_stream, POSTGRES)),
    Attack("SIGKILL: threads on one publisher", SQLITE, KILLS, 0.05, _killed(_threads, SQLITE)),
    Attack("SIGKILL: threads on one publisher", POSTGRES, KILLS, 0.04, _killed(_threads, POSTGRES)),
    Attack("SIGKILL: streams that commit together", SQLITE, KILLS, 0.03, _killed(lambda _: Together(), SQLITE)),
    Attack("SIGKILL: streams that commit together", POSTGRES, KILLS, 0.02, _killed(lambda _: Together(), POSTGRES)),
    Attack("SIGKILL: one-time releases, personal accounts, groups", SQLITE, KILLS, 0.05, _killed(_once, SQLITE)),
    Attack("SIGKILL: one-time releases, personal accounts, groups", POSTGRES, KILLS, 0.04, _killed(_once, POSTGRES)),
    Attack("SIGKILL: tables written from the ledger (`--out`)", SQLITE, KILLS, 0.06, _killed(_with_table, SQLITE)),
    Attack("SIGKILL: tables written from the ledger (`--out`)", POSTGRES, KILLS, 0.02, _killed(_with_table, POSTGRES)),
    Attack(
        "SIGKILL: live ingest and closing, batches and directory", SQLITE, KILLS, 0.06, _killed(_live, SQLITE, 0.15)
    ),
    Attack(
        "SIGKILL: live ingest and closing, batches and directory", POSTGRES, KILLS, 0.03, _killed(_live, POSTGRES, 0.15)
    ),
    Attack(
        "SIGKILL: the service, while a client sends",
        SQLITE,
        KILLS,
        0.03,
        lambda arena, _, most: kill_servers(arena.place(SQLITE), most, arena.chance),
    ),
    Attack(
        "old copies of some files put back",
        SQLITE,
        KILLS,
        0.003,
        lambda arena, _, most: put_back(arena.folder, most, arena.chance),
    ),
    Attack("backend ended by `pg_terminate_backend`", POSTGRES, KILLS, 0.05, _cut(hard=False)),
    Attack("backend ended by SIGKILL, the server recovers", POSTGRES, KILLS, 0.01, _cut(hard=True), alone=True),
    Attack("loss of power: unsynced writes lost, torn, reordered", SQLITE, STATES, 1.0, _power),
)


@dataclass(frozen=True, slots=True)
class Failing:
    """Work whose calls fail one after the other."""

    what: str
    subject: Subject
    python: bool = False
    lasting: bool = False
    limits: bool = False

    @property
    def row(self) -> str:
        return f"{self.what} | {SQLITE}"

    @property
    def name(self) -> str:
        return f"{self.what}: {self.subject.name}, {'lasting' if self.lasting else 'once'}"

    def run(self, arena: Arena, every: int) -> Outcome:
        """Let every so many-th call fail."""
        reference = arena.reference(self.subject)
        if self.limits:
            return limit_process(self.subject, arena.folder, reference)
        return fail_every_call(
            self.subject,
            arena.folder,
            reference,
            python=self.python,
            lasting=self.lasting,
            full=self.lasting,
            every=every,
        )


_FAILING: Final[tuple[Subject, ...]] = (
    OneStream("dsat", steps=3, with_table=True),
    OneStream("retroactive-grouping", steps=3, w=1, patient=True),
    Command(3),
    OneTime(2),
    Accounts(2),
    Groups(2),
)
FAILING: Final = tuple(
    Failing(what, subject, python, lasting, limits)
    for subject in _FAILING
    for what, python, lasting, limits in (
        ("I/O error or full disk at each call of SQLite in turn", False, False, False),
        ("I/O error or full disk at each call of SQLite in turn", False, True, False),
        ("I/O error or full disk at each call of Python in turn", True, False, False),
        ("I/O error or full disk at each call of Python in turn", True, True, False),
        ("limits on the size and number of files", False, False, True),
    )
)
"""Each is done once."""
