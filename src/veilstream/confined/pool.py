"""A few children that many clients share, in turn."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from veilstream.confined.child import Task
from veilstream.confined.parent import Allowance, Child
from veilstream.errors import VeilstreamError

T = TypeVar("T")


class CrowdedError(VeilstreamError):
    """More waits than there should be."""

    outcome = "nothing was done"


class Pool:
    """``children`` processes, of which no client has more than ``share`` at once; clients take turns.

    Processes are forked when they are wanted and again when they died. ``waiting`` tasks may wait at most.
    """

    def __init__(
        self, task: Task, allowance: Allowance, *, children: int, share: int, waiting: int | None = None
    ) -> None:
        self._task, self._allowance, self._children = task, allowance, children
        self._share, self._most_waiting = share, waiting
        self._turn = threading.Condition()
        self._queues: dict[str, deque[Callable[[Callable[[], Child]], None]]] = {}
        self._busy: Counter[str] = Counter()
        self._threads: list[threading.Thread] = []

    def submit(self, client: str, work: Callable[[Child], T]) -> Future[T]:
        """Have ``work`` done with a child; its result or error is the future's."""
        done: Future[T] = Future()
        # Whoever stops waiting does not stop the work.
        done.set_running_or_notify_cancel()

        def run(child: Callable[[], Child]) -> None:
            try:
                done.set_result(work(child()))
            except BaseException as error:
                done.set_exception(error)

        with self._turn:
            if self._most_waiting is not None and sum(map(len, self._queues.values())) >= self._most_waiting:
                raise CrowdedError(name="server", limit="as many wait as may; try again later")
            self._queues.setdefault(client, deque()).append(run)
            self._turn.notify()
            if len(self._threads) < self._children:
                name = f"child-of-{self._task.__name__}-{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._attend, name=name, daemon=True))
                self._threads[-1].start()
        return done

    def warm(self) -> None:
        """Have a child forked that waits."""
        self.submit("", lambda _: None)

    def _attend(self) -> None:
        """Hand work to one child after the other."""
        mine: list[Child] = []

        def child() -> Child:
            if not mine or not mine[0].alive:
                mine[:] = [Child(self._task, self._allowance)]
            return mine[0]

        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._next() is not None)
                client = self._next()
                assert client is not None
                waiting = self._queues.pop(client)
                run = waiting.popleft()
                if waiting:
                    # At the end of the line: the other clients come first.
                    self._queues[client] = waiting
                self._busy[client] += 1
            try:
                run(child)
            finally:
                with self._turn:
                    self._busy[client] -= 1
                    self._busy += Counter()
                    self._turn.notify_all()

    def _next(self) -> str | None:
        return next((client for client in self._queues if self._busy[client] < self._share), None)
