"""The accountant over a million steps: its memory does not grow with time, and a charge costs microseconds."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from benchmarks.report import Table, progress
from veilstream import Guarantee
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge, Span

STEPS: Final = 1_000_000
WINDOW: Final = 1_000
LOOKED_AT: Final = (1_000, 10_000, 100_000, STEPS)
BLOCK: Final = 500


def run() -> Sequence[Table]:
    """The table of the suite."""
    return [_memory()]


def _every_step(book: Accountant, t: int) -> None:
    book.admit([Charge(Fraction(1, WINDOW), Span(t, t), "publish")])


def _now_and_then(book: Accountant, t: int) -> None:
    """Releases of different size, at most twice a window."""
    if t % BLOCK == 0:
        book.admit([Charge(Fraction(1, 4 + t // BLOCK % 3), Span(t, t), "publish")])


def _growing(book: Accountant, t: int) -> None:
    """A charge that grows with its block of steps, as those of thresholds do, and a small one at every tenth step."""
    opened = t - t % BLOCK
    if t == opened:
        book.new_block()
    book.admit([Charge(Fraction(1, 8), Span(opened, t), "decide", block=1 + t // BLOCK)])
    if t % BLOCK == BLOCK - 1:
        book.admit([Charge(Fraction(0), Span(opened, t), "decide", block=1 + t // BLOCK)])
    if t % 10 == 0:
        book.admit([Charge(Fraction(1, 200), Span(t, t), "publish")])


KINDS: Final[dict[str, Callable[[Accountant, int], None]]] = {
    "every step": _every_step,
    "now and then": _now_and_then,
    "growing blocks": _growing,
}


def _memory() -> Table:
    rows: list[list[str]] = []
    for name, charge in KINDS.items():
        seconds = _seconds(charge)
        sizes = _sizes(charge)
        rows.append([name, *(f"{size:,}" for size in sizes), f"{seconds * 1e6:.1f}"])
        progress(f"{name}: {sizes[0]:,} bytes after {LOOKED_AT[0]:,} steps, {sizes[-1]:,} after {LOOKED_AT[-1]:,}")
    return Table(
        title=f"Memory of the accountant, w = {WINDOW:,}",
        notes=(
            "Bytes that the accountant holds after so many steps (`tracemalloc`), and microseconds a step without that "
            "watch. The peer is itself at the first full window: beyond it nothing may grow."
        ),
        columns=["charges", *(f"bytes after {count:,}" for count in LOOKED_AT), "µs a step"],
        rows=rows,
    )


def _sizes(charge: Callable[[Accountant, int], None]) -> list[int]:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    book = Accountant(Guarantee(1, w=WINDOW), bins=1)
    sizes: list[int] = []
    for t in range(STEPS):
        book.advance(t)
        charge(book, t)
        if t + 1 in LOOKED_AT:
            sizes.append(tracemalloc.get_traced_memory()[0] - before)
    tracemalloc.stop()
    return sizes


def _seconds(charge: Callable[[Accountant, int], None]) -> float:
    book, steps = Accountant(Guarantee(1, w=WINDOW), bins=1), 10 * WINDOW
    start = time.process_time()
    for t in range(steps):
        book.advance(t)
        charge(book, t)
    return (time.process_time() - start) / steps
