"""One-time histograms on lines that nothing was tuned on, against the method that is best in hindsight."""

from __future__ import annotations

from benchmarks.histograms import held_back as run

__all__ = ["run"]
