"""Files as people have them, and as nobody should: expressions that give bytes, text or a frame."""

from __future__ import annotations

from random import Random
from typing import Final

from fuzz.values import DURATIONS, TIMES, ZONES

VISITS: Final = "\n".join(
    ["ts,id,place,age,n", *(f"2024-01-01T0{hour}:1{person}:00,{person},{'ab'[person % 2]},{30 + person},{person}"
                          for hour in range(6) for person in range(3))]
)  # fmt: skip
DEFAULTS: Final = {
    "visits.csv": repr(VISITS),
    "visits.parquet": "pl.DataFrame({'ts': [datetime(2024, 1, 1, h) for h in range(6)], 'id': [1, 2, 3, 1, 2, 3], "
    "'place': ['a', 'b'] * 3, 'age': [31, 32, 33] * 2, 'n': [1, 2, 3] * 2})",
    "people.csv": repr(
        "id,epsilon,place,age\n" + "\n".join(f"{i},{1 + i % 3},{'ab'[i % 2]},{20 + i}" for i in range(9))),
    "domain.json": repr('{"place": ["a", "b"]}'),
    "job.toml": repr('time = "ts"\nuser = "id"\nevery = "1h"\nepsilon = "1"\nwindow = 3\nmechanism = "uniform"\n'
                     'start = "2024-01-01"\nend = "2024-01-01T06:00"\n'),
    "serve.toml": repr('ledger = "s.db"\n[streams.visits]\nuser = "id"\nevery = "1h"\nepsilon = "1"\nwindow = 3\n'
                       'start = "2024-01-01T00:00"\n'),
}  # fmt: skip

CELLS: Final = (
    "", " ", "1", "7.0", "-0", "nan", "inf", "x", "a", "b", "z", "\x00", "é", '"', '"a', "a,b", "9" * 40, "1e400", "'",
    "2024-01-01T03:00:00", "2024-01-01", "01/02/2024", "0001-01-01T00:00:00", "9999-12-31T23:59:59.9999999", "1e30",
    "2024-01-01T03:00:00Z", "2024-01-01T03:00:00+25:00", "-62135596800", "99999999999999999", "x" * 5_000, "\u2028",
    "½",
)  # fmt: skip
COLUMNS: Final = (
    "[[1], [2, 3], []]", "[{'a': 1}] * 3", "[b'x', b'\\xff', None]", "[nan, inf, -inf]", "[None] * 3",
    "[True, False, None]",
    "[2**62] * 3", "[-(2**63), 2**63 - 1, 0]", "['a', None, '']", "['a\\x00b', 'é', 'x' * 5000]", "[0, 1, 2]", "[]",
    "['1', '7.0', ' 7']", "pl.Series([2**62] * 3).cast(pl.Datetime('us'))", "pl.Series([2**30] * 3).cast(pl.Date)",
    "pl.Series([-(2**62)] * 3).cast(pl.Datetime('ns'))", "pl.Series([2**63 - 1] * 3).cast(pl.Datetime('ms'))",
    "pl.Series([0, 1, None]).cast(pl.Datetime('us', 'Europe/Zurich'))", "pl.Series([1, 2, 3]).cast(pl.Duration('us'))",
    "pl.Series([1, 2, 3]).cast(pl.Time)", "pl.Series(['a', 'b', None], dtype=pl.Categorical)",
    "pl.Series(['1.5', '2', '-1']).cast(pl.Decimal(38, 2))", "pl.Series([1, 2, 3], dtype=pl.UInt64)",
    "pl.Series([0.5, 1.5, 1e308], dtype=pl.Float32)", "pl.Series([1, 2, 3], dtype=pl.Int128)",
    "pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int64, 2))", "pl.Series([None] * 3, dtype=pl.Null)",
    "pl.Series([-(2**31), 0, 2**31 - 1], dtype=pl.Int32).cast(pl.Date)",
    "[datetime(2024, 1, 1, 1), datetime(1, 1, 1), datetime(9999, 12, 31)]",
    "pl.Series([2**63 + 1] * 3, dtype=pl.UInt64)",
)  # fmt: skip
DOMAINS: Final = (
    "", "{", "[]", "1", "null", "{}", '""', '{"place": []}', '{"place": ["a", "a"]}', '{"place": [1, 1.0, true]}',
    '{"place": {"edges": [0, 1, 1]}}', '{"place": {"edges": [1]}}', '{"place": {"edges": "x"}}',
    '{"place": {"edges": [NaN, 1]}}',
    '{"place": {"grid": {}}}', '{"place": {"low": 0, "high": 1, "cells": 3}}', '{"place": {"grid": [0, 1, 1e9]}}',
    '{"place": {"low": 0, "high": 1e400, "cells": 3}}', '{"place": {"low": 1, "high": 0, "cells": -3}}', '{"": ["a"]}',
    '{"place": null}', '{"place": 3}', '{"place": "ab"}', '{"place": [null]}', '{"place": [["a"]]}', '{"place": [{}]}',
    '{"value": ["a"]}', '{"place": ["a", "b"], "place": ["c"]}', '{"place": [NaN]}', '{"place": [1e999]}',
    '{"place": ["a", "b"], "age": {"edges": [0, 40, 120]}}', '{"place": {"edges": [0, Infinity]}}',
    '{"\\ud800": ["\\ud800"]}',
    '{"place": ["a", "b"], "age": ["a"], "n": {"edges": [-1, 1e308, 1e309]}}', "\ufeff{}",
    '{"place": {"cells": 100000000}}',
    '{"place": {"edges": [' + ", ".join(map(str, range(3000))) + "]}}", "[" * 5_000,
)  # fmt: skip
TOML: Final = (
    "1", "-1", "true", '""', '"x"', "[]", '["a", 1]', "{}", "nan", "inf", "1979-05-27T07:32:00Z", "1979-05-27",
    "07:32:00",
    "9999999999999999999999", "{a = 1}", '"\\u0000"', "[[1], [2]]", '"' + "x" * 300 + '"', "1.5", '"1e999999999"',
)  # fmt: skip


def any_csv(rng: Random) -> str:
    """A CSV file: rows of the usual columns with some cells, a header, lines or bytes changed."""
    lines = [line.split(",") for line in VISITS.splitlines()]
    for _ in range(rng.randint(0, 4)):
        line = rng.choice(lines)
        match rng.randrange(6):
            case 0:
                line.append(rng.choice(CELLS))
            case 1 if len(line) > 1:
                line.pop(rng.randrange(len(line)))
            case _ if line:
                line[rng.randrange(len(line))] = rng.choice(CELLS)
            case _:
                pass
    if rng.random() < 0.1:
        lines = lines[: rng.randint(0, 2)]
    separator, end = rng.choice([",", ",", ",", ";", "\t", "|", ", "]), rng.choice(["\n", "\n", "\r\n", "\r", "\n\n"])
    text = end.join(separator.join(line) for line in lines)
    encoding = rng.choice(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-32"])
    data = text.encode(encoding, "replace")
    if rng.random() < 0.1:
        where = rng.randrange(len(data) + 1)
        data = data[:where] + bytes([rng.randrange(256)]) * rng.choice([1, 1, 200]) + data[where:]
    return repr(data[: rng.choice([len(data), len(data), len(data), 0, 5])])


def any_parquet(rng: Random) -> str:
    """A Parquet file whose columns are of any type, or bytes that are none."""
    if rng.random() < 0.1:
        return repr(rng.choice([b"", b"PAR1", b"PAR1PAR1", b"PAR1" + b"\0" * 50 + b"PAR1", b"hello"]))
    usual = {
        "ts": "[datetime(2024, 1, 1, 1), datetime(2024, 1, 1, 2), datetime(2024, 1, 1, 3)]",
        "id": "[1, 2, 3]",
        "place": "['a', 'b', 'a']",
        "age": "[1, 2, 3]",
        "n": "[1, 2, 3]",
    }
    for name in rng.sample(sorted(usual), rng.randint(1, 2)):
        usual[name] = rng.choice(COLUMNS)
    if "[]" in usual.values():
        usual = dict.fromkeys(usual, "[]")
    return "pl.DataFrame({" + ", ".join(f"{name!r}: {values}" for name, values in usual.items()) + "}, strict=False)"


def any_domain(rng: Random) -> str:
    """The text of a domain."""
    return repr(rng.choice(DOMAINS))


def any_toml(rng: Random) -> str:
    """A job file with settings of the wrong type."""
    names = ("file", "time", "user", "by", "value", "domain", "every", "start", "end", "zone", "epsilon", "window",
    "set",
             "delta", "mechanism", "ledger", "stream", "out", "level", "per", "presence", "streams", "spool",
             "nonsense",
             "plot_bins", "allow_empty", "key_file", "sums", "counts_per_user")  # fmt: skip
    lines = ['time = "ts"', 'user = "id"', 'every = "1h"', 'epsilon = "1"', "window = 3", 'start = "2024-01-01"']
    for _ in range(rng.randint(1, 3)):
        value = rng.choice([*TOML, *map(_quoted, (rng.choice(DURATIONS), rng.choice(TIMES), rng.choice(ZONES)))])
        name = rng.choice(names)
        lines = [line for line in lines if not line.startswith(f"{name} =")] + [f"{name} = {value}"]
    text = "\n".join(lines)
    return repr(
        rng.choice([text, text, text, text, text[: len(text) // 2], "[" * 3_000, "\0", text + "\n[set]\nx = 1"])
    )


def _quoted(text: str) -> str:
    return '"' + "".join(letter if letter.isprintable() and letter not in '"\\' else "?" for letter in text) + '"'


MAKERS: Final = {".csv": any_csv, ".parquet": any_parquet, ".json": any_domain, ".toml": any_toml}
