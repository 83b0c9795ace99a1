"""``python -m benchmarks [name ...]`` runs all suites, or the named ones; ``--quick`` makes fewer runs.

``--finished`` measures nothing and writes what a suite that keeps records has so far.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from typing import Final, cast

from benchmarks.report import ROOT, Suite, write_overview, write_page
from website.comparison import write as write_comparison

SUITES: Final = {
    "first-hour": "benchmarks.first_hour",
    "noise": "benchmarks.noise",
    "ingest": "benchmarks.ingest",
    "spark": "benchmarks.spark",
    "accountant": "benchmarks.accountant",
    "streams": "benchmarks.streams",
    "presence": "benchmarks.presence",
    "presence-history": "benchmarks.presence_history",
    "stream-utility": "benchmarks.stream_utility",
    "model": "benchmarks.model",
    "measures": "benchmarks.measures",
    "measure-bounds": "benchmarks.measure_bounds",
    "totals": "benchmarks.totals",
    "fast": "benchmarks.fast",
    "grouping": "benchmarks.grouping",
    "allocation": "benchmarks.allocation",
    "histograms": "benchmarks.histograms",
    "held-back": "benchmarks.held_back",
    "held-back-planes": "benchmarks.held_back_planes",
    "coverage": "benchmarks.coverage",
    "sparse-histograms": "benchmarks.sparse_histograms",
    "synthesis": "benchmarks.synthesis",
    "tables": "benchmarks.tables",
    "tables-fine": "benchmarks.tables_fine",
    "tables-over-time": "benchmarks.tables_over_time",
    "tables-million": "benchmarks.tables_million",
    "personalised": "benchmarks.personalised",
    "metric": "benchmarks.metric",
    "audit": "benchmarks.audit",
    "ledger": "benchmarks.ledger",
    "population": "benchmarks.population",
    "serve": "benchmarks.serve",
    "serve-page": "benchmarks.serve_page",
    "serve-load": "benchmarks.serve_load",
}
"""Suite name -> module with ``run``, imported when asked for: no suite needs another's peers."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and write the results.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of: {', '.join(SUITES)} (default: all)")
    parser.add_argument(
        "--finished", action="store_true", help="measure nothing, write what a suite that keeps records has so far"
    )
    parser.add_argument("--quick", action="store_true", help="fewer runs where a suite has such, printed only")
    given = parser.parse_args()
    names: list[str] = given.names or list(SUITES)
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        parser.error(f"unknown suite {unknown[0]!r}: choose from {', '.join(SUITES)}; nothing was measured")
    for name in names:
        run = cast(Suite, importlib.import_module(SUITES[name]).run)
        wanted = {option: True for option in ("quick", "finished") if getattr(given, option)}
        chosen = {option: True for option in wanted if option in inspect.signature(run).parameters}
        quick = "quick" in chosen
        tables = run(**chosen)
        for table in tables:
            print(f"\n{table.markdown()}")
        if not quick:
            page = write_page(name, tables)
            write_overview(SUITES)
            write_comparison()
            print(f"\n{name}: written to {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
