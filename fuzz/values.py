"""Values that are valid, nearly valid or hostile, by what they stand for."""

from __future__ import annotations

from typing import Final

LONG: Final = "x" * 300

TEXTS: Final = (
    "", " ", "a", "ts", "id", "place", "-", "--", "a\0b", "\udcff", "é", "e\u0301", LONG, "x" * 5_000, "../..", "/",
    ".",
    "nan", "-1", "0", "1", "3", "1e400", "9" * 5_000, "1/3", "٣", "1_000", "∞", "None", "[]", "{}", "%s", "%Y", "%",
    "a,b", "a;b", "\n", "\t", "'", '"', "$(x)", "*", "?[", "~", "interval=3", "=", "=x", "interval=", "error", "drop",
    "uniform", "geometric", "user", "none", "auto", "histogram=geometric", "periods=1 2", "weights=x",
)  # fmt: skip
DURATIONS: Final = (
    "1h", "1d", "30m", "1w", "1mo", "1q", "1y", "0h", "-1h", "99999999d", "999999999999d", "12000mo", "1000000y", "1us",
    "999999999999999999999us", "h", "1 h", "1h30m", "²h", "1ns", "3650000d", "1.5h", "1", "0", "-1", "9" * 40, "", "1H",
)  # fmt: skip
ZONES: Final = (
    "UTC", "Europe/Zurich", "Europe", "America", "", ".", "..", "/etc/passwd", "../../etc/passwd", "Mars/Base", LONG,
    "\0", "Etc/GMT+14", "Etc/GMT-14", "localtime", "UTC\n", "\udcff", "x" * 5_000, "utc", "+01:00", "zone.tab",
)  # fmt: skip
TIMES: Final = (
    "2024-01-01", "2024-01-01T06:00", "2024-01-01T02:00", "0001-01-01", "0001-01-02", "9999-12-31T23:59:59",
    "10000-01-01", "-1", "0", "6", "1e30", "1" + "0" * 30, "2024-02-30", "2024-01-01T00:00+25:00", "2024-01-01T00:00Z",
    "2024-01-01T00:00+14:00", "yesterday", "", "2024-W01", "0001-01-01T00:00+14:00", "9999-12-31T23:59:59-14:00",
    "1970-01-01T00:00:00.0000001", "2024-13-01", "2024-03-31T02:30", "0000-01-01", "12:00",
)  # fmt: skip
LEDGERS: Final = (
    "b.db", "", " ", LONG + ".db", "sqlite://", "sqlite:///", "sqlite:///c.db?x=1", ":memory:", "postgresql://", "://",
    "postgresql://127.0.0.1:1/x", "mysql://x", "nowhere/b.db", ".", "/", "a\0.db", "file:b.db", "visits.csv",
    "http://x",
    "domain.json", "\udcff.db", "b.db/", "postgresql://[::1", "sqlite:///%00", "postgresql://127.0.0.1:x/y",
    "/dev/null",
)  # fmt: skip
BUDGETS: Final = (
    "1", "1/2", "0.5", "2", "0", "-1", "nan", "inf", "-inf", "1e-400", "1e400", "1e-30", "1/3", "0,5", "1/0", "", "one",
    "9" * 5_000, "1e999999999", "1e-999999999", "1e9", "½", "1 000", "+1", "0x1", "1/" + "9" * 400, "1e-6", " 1 ", "1e",
)  # fmt: skip
WHOLE: Final = (
    "0", "1", "2", "3", "10", "-1", "-" + "9" * 30, "2147483648", "9" * 30, "9" * 5_000, "1.5", "x", "", "1e3", "٣",
    "9223372036854775808", "18446744073709551616", "1000000000", "5_0", " 3",
)  # fmt: skip
REAL: Final = (
    "0", "0.5", "0.95", "1", "-1", "nan", "inf", "-inf", "1e-320", "1e308", "1e400", "x", "", "95", "500", "10%", "0,5",
)  # fmt: skip
TABLES: Final = (
    "out.csv", "out.parquet", "out.json", "out.ndjson", "out.html", "out.png", "out.svg", "out.pdf", "OUT.CSV", "", ".",
    "..", "out", "out.docx", "nowhere/out.csv", LONG + ".csv", "a\0.csv", "\udcff.csv", "visits.csv", ".csv",
    "/dev/null",
    "domain.json", "out.csv/", "b.db",
)  # fmt: skip
INPUTS: Final = (
    "visits.csv", "visits.parquet", "people.csv", "domain.json", "job.toml", "", ".", "..", "nowhere.csv", "*.csv", "[",
    LONG + ".csv", "a\0.csv", "\udcff.csv", "**", "visits.csv/", "/dev/null", "nowhere/*.csv", "~x", "b.db", "?", "./.",
)  # fmt: skip

BY_OPTION: Final = {
    "every": DURATIONS, "per": DURATIONS, "life": DURATIONS, "window": DURATIONS + WHOLE, "zone": ZONES, "start": TIMES,
    "end": TIMES, "ledger": LEDGERS, "spool": LEDGERS, "copy": LEDGERS, "epsilon": BUDGETS, "delta": BUDGETS,
    "measure": BUDGETS, "threshold": BUDGETS, "quantile": BUDGETS, "share": BUDGETS, "publish_epsilon": BUDGETS,
    "distance": BUDGETS, "low": BUDGETS, "high": BUDGETS, "step": BUDGETS, "process_variance": BUDGETS, "out": TABLES,
    "plot": TABLES, "report": TABLES, "page": TABLES, "file": INPUTS, "domain": INPUTS, "config": INPUTS,
    "key_file": INPUTS + TABLES, "seen": INPUTS, "weights": BUDGETS + INPUTS + ("1 1 8", "1,2", "0 0"), "error": REAL,
    "count": REAL, "population": REAL, "change": REAL, "level": REAL, "confidence": REAL,
}  # fmt: skip
"""Where the kind of an option does not say what it means."""


def texts_for(name: str, kind: str) -> tuple[str, ...]:
    """What to try for an option of the command line, given its name and the kind that it is read as."""
    if name in BY_OPTION:
        return BY_OPTION[name] + TEXTS[:8]
    return {"integer": WHOLE, "float": REAL}.get(kind, TEXTS)


OBJECTS: Final = (
    "None", "True", "0", "1", "-1", "3", "2**63", "10**30", "-(10**30)", "0.5", "nan", "inf", "-inf", "1e308", "1e-320",
    "''", "'1'", "'x'", "'1/2'", "'nan'", "'1e999999999'", "'9' * 5000", "'\\x00'", "'\\udcff'", "b''", "b'\\xff'",
    "b'x' * 32", "[]", "[1]", "[1, 2]", "[[1], [1, 2]]", "['a', 1]", "()", "(1, 2)", "{}", "{'a': 1}", "{'a': ['x']}",
    "set()", "object()", "Fraction(1, 3)", "Fraction(-1)", "Decimal('0.1')", "Decimal('NaN')", "1j",
    "datetime(2024, 1, 1)",
    "date(1, 1, 1)", "datetime.max", "timedelta(days=1)", "np.array(3)", "np.array([1, 2, 3])", "np.array([])",
    "np.array([1.5, nan, inf])", "np.array(['a'])", "np.array([None])", "np.full((2, 3), 1)", "np.int64(3)",
    "np.float64(0.5)", "np.bool_(True)", "np.array([2**62] * 3)", "np.array([-1, 0, 1])", "pl.DataFrame()", "Path('x')",
    "pl.DataFrame({'a': [1]})", "pl.Series([1])", "int", "vs.Uniform", "vs.Uniform()", "vs.Geometric()",
    "vs.Span(0, 1)",
    "vs.Guarantee(1, w=3)", "vs.Domain({'p': vs.Categories(['a', 'b', 'c'])})", "vs.Calendar(0, 9, 1)", "lambda *a: 1",
    "iter([1])", "range(3)", "...", "'uniform'", "'default'", "'1h'", "'b.db'", "'x' * 300", "bytearray(3)", "slice(1)",
)  # fmt: skip
"""Values for parameters of Python, as expressions."""
