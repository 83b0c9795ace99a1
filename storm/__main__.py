"""``python -m storm``: kill, cut power and fail calls by the thousand, and write what came of it into the docs.

Finished rounds are kept: after an interruption the same command goes on, after a change of the code it begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from storm.children import Notes, begin, poll
from storm.live import warm_live
from storm.outcome import Outcome
from storm.plan import ATTACKS, FAILING, KILLS, STATES, Arena, Attack, Failing
from storm.servers import Server
from storm.subjects import Accounts, Groups, OneStream, OneTime, Place, Subject, Together
from storm.tally import ROOT, Tally, write_page
from storm.warm import fast_folder, warm_up
from veilstream.mechanisms.streams import STREAMS

STRIKES_AT_ONCE: Final = {KILLS: 16, STATES: 100}
"""So many strikes make a round, after which the ledger is examined and the tally kept."""
PROGRESS_SECONDS: Final = 5.0


@dataclass(slots=True)
class Round:
    """A round that runs in a process of its own."""

    child: int
    row: str
    folder: Path
    strikes: int
    done: str | None = None
    alone: bool = False


@dataclass(slots=True)
class Storm:
    """Rounds side by side until every row has its share."""

    tally: Tally
    state: Path
    wanted: dict[str, int]
    every: int
    jobs: int
    attacks: Sequence[Attack] = ATTACKS
    failing: Sequence[Failing] = FAILING
    folder: Path = field(default_factory=Path)
    servers: tuple[Server, ...] = ()
    running: list[Round] = field(default_factory=list[Round])

    def has_work(self) -> bool:
        """Whether anything is missing."""
        left = self.every and len(self.tally.done) < len(self.failing)
        return bool(left) or any(self._missing(attack) >= 1 for attack in self.attacks)

    def blow(self) -> None:
        """Start rounds as others end; what is finished is kept at once."""
        shown = 0.0
        try:
            while self._start() or self.running:
                for one in [one for one in self.running if poll(one.child) is not None]:
                    self._finish(one)
                if time.monotonic() - shown > PROGRESS_SECONDS:
                    shown = time.monotonic()
                    print(self.progress(), flush=True)
                time.sleep(0.01)
        finally:
            for one in self.running:
                os.kill(one.child, signal.SIGKILL)
        print(self.progress(), flush=True)

    def progress(self) -> str:
        """A line that says how far it is."""
        parts = [f"{self._tried(unit):,} of {wanted:,} {unit}" for unit, wanted in self.wanted.items()]
        done, kinds = len(self.tally.done), len(self.failing)
        calls = f"{done} of {kinds} kinds of failing calls" if self.every else "no failing calls"
        return f"{', '.join(parts)}, {calls}, {self.tally.violations} violations"

    def _tried(self, unit: str) -> int:
        return sum(self.tally.tried(attack.row) for attack in self.attacks if attack.unit == unit)

    def _start(self) -> bool:
        """Start rounds until there are enough; whether any was started."""
        before = len(self.running)
        while len(self.running) < self.jobs and self._start_one():
            pass
        return len(self.running) > before

    def _start_one(self) -> bool:
        attack = max(self.attacks, key=self._missing_share)
        if self._start_failing(self._missing_share(attack)):
            return True
        missing = self._missing(attack)
        if missing < 1:
            return False
        number, strikes = self.tally.rounds, min(STRIKES_AT_ONCE[attack.unit], round(missing))
        self._begin(attack.row, strikes, lambda arena: attack.run(arena, number, strikes), alone=attack.alone)
        return True

    def _start_failing(self, share: float) -> bool:
        """Start the next kind of failing calls if they lag behind the attacks, which still lack a share."""
        under_way = {one.done for one in self.running}
        left = [one for one in self.failing if one.name not in self.tally.done and one.name not in under_way]
        if not self.every or len(left) <= share * len(self.failing):
            return False
        self._begin(left[0].row, 0, lambda arena: left[0].run(arena, self.every), done=left[0].name)
        return True

    def _missing_share(self, attack: Attack) -> float:
        """Which part of its strikes a row lacks; rounds of all rows come on evenly."""
        missing = self._missing(attack)
        return missing / (attack.share * self.wanted[attack.unit]) if missing >= 1 else 0.0

    def _missing(self, attack: Attack) -> float:
        """How many strikes a row still lacks, those under way not counted."""
        if attack.alone and any(one.alone for one in self.running):
            return 0
        under_way = sum(one.strikes for one in self.running if one.row == attack.row)
        return attack.share * self.wanted[attack.unit] - self.tally.tried(attack.row) - under_way

    def _begin(
        self, row: str, strikes: int, run: Callable[[Arena], Outcome], *, done: str | None = None, alone: bool = False
    ) -> None:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        chance = random.Random(f"{self.tally.seed} {self.tally.rounds}")
        server, fragile = self.servers
        arena = Arena(folder, self.folder / "references", server, fragile, chance)
        self.tally.rounds += 1

        def work() -> None:
            outcome = run(arena)
            (folder / "outcome.json").write_text(json.dumps(asdict(outcome)), encoding="utf-8")

        self.running.append(Round(begin(work, folder / "error"), row, folder, strikes, done, alone))

    def _finish(self, one: Round) -> None:
        result = one.folder / "outcome.json"
        if result.exists():
            outcome = Outcome(**json.loads(result.read_text(encoding="utf-8")))
        else:
            outcome = Outcome(problems=[f"the round failed: {Notes(one.folder / 'error').lines()}"])
        self.tally.add(one.row, outcome)
        if one.done is not None:
            self.tally.done.append(one.done)
        self.tally.store(self.state)
        self.running.remove(one)
        shutil.rmtree(one.folder, ignore_errors=True)


def main(given: Sequence[str] | None = None) -> int:
    """Run what is missing and write the table, also of a run that is stopped; 1 if anything was violated."""
    options = _options(given)
    tally = Tally.load(options.state / "state.json", options.seed)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    order = list(dict.fromkeys([*(attack.row for attack in ATTACKS), *(failing.row for failing in FAILING)]))
    try:
        _run(tally, options)
    finally:
        print(tally.table(order))
        for problem in tally.problems:
            print(problem)
        if options.page is not None:
            write_page(options.page, tally, order)
    return 1 if tally.violations else 0


def _run(tally: Tally, options: argparse.Namespace) -> None:
    wanted = {KILLS: options.kills, STATES: options.states}
    attacks = [one for one in ATTACKS if _chosen(one.row, options.only)]
    failing = [one for one in FAILING if _chosen(one.row, options.only)]
    every = options.calls_every if failing else 0
    storm = Storm(tally, options.state / "state.json", wanted, every, options.jobs, attacks, failing)
    if not storm.has_work():
        print(storm.progress())
        return
    storm.servers = (Server(), Server())
    storm.folder = Path(tempfile.mkdtemp(prefix="storm-", dir=fast_folder()))
    try:
        _warm(storm.servers[0])
        storm.blow()
    finally:
        shutil.rmtree(storm.folder, ignore_errors=True)
        for server in storm.servers:
            server.stop()


def _chosen(row: str, only: Sequence[str]) -> bool:
    return not only or any(words in row for words in only)


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=10_000, help="processes and backends to kill")
    parser.add_argument("--states", type=int, default=10_000, help="disks after a loss of power to open")
    parser.add_argument("--calls-every", type=int, default=1, help="let every n-th system call fail in turn, 0: none")
    parser.add_argument("--only", action="append", default=[], help="rows with these words alone, with their shares")
    parser.add_argument("--seed", type=int, default=1, help="what instants and states are drawn from")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="rounds at once")
    parser.add_argument("--state", type=Path, default=ROOT / ".storm", help="folder of finished rounds")
    parser.add_argument("--page", type=Path, default=None, help="Markdown page whose table to write")
    options = parser.parse_args(given)
    if options.only and options.page is not None:
        parser.error("--page: its table is of all rows, so not with --only")
    if not any(_chosen(attack.row, options.only) for attack in ATTACKS):
        parser.error("--only: no attack has these words in its row")
    return options


def _warm(server: Server) -> None:
    """Load and compile everything, and start no thread: threads do not survive a fork."""
    subjects: list[Subject] = [OneStream(name, steps=2) for name in STREAMS]
    subjects += [OneTime(1), Accounts(1), Groups(1), Together()]
    for subject in subjects:
        ledger = server.new_ledger()
        warm_up([subject], [ledger])
        server.drop(ledger)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        warm_live(Place(f"{folder}/ledger.db", Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
