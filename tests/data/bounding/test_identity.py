"""One person is one identity, however the id is written and whatever it is read from."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import unicodedata
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.data.bounding.support import bounded, counts
from veilstream.data import identity
from veilstream.data.bounding.people import canonical_ids, identify
from veilstream.data.identity import BLANKS, IRREGULAR, Refusal, canonical, canonical_text
from veilstream.errors import InvalidInputError
from veilstream.personalised import Roster
from veilstream.series.clipped import ClippedValues

KEY = b"k" * 16
Ids = list[Any]


def events(ids: Any) -> dict[str, Any]:
    return {"user": ids, "time": [0] * len(ids), "bin": [0] * len(ids)}


# Every way of writing one number or one text ---------------------------------------------------------------------


def writings_of_number(number: int) -> Ids:
    """A whole number as programs write it and as tables store it."""
    sign, digits = ("-", str(-number)) if number < 0 else ("", str(number))
    plain = sign + digits
    written: Ids = [plain, f" {plain}", f"{plain}\t", f"{sign}00{digits}", f"\ufeff{plain}\u00a0", number]
    if number >= 0:
        written.append(f"+{plain}")
    if number == 0:
        written += ["-0", "-0.0", "0e5", "+0.00", -0.0]
    written += [Decimal(number), Decimal(f"{plain}.000"), Fraction(number), plain.encode(), bytearray(plain.encode())]
    if abs(number) < 1 << 53:
        written += [float(number), np.float64(number), f"{plain}.0", f"{plain}.", f"{plain}.000", f"{plain}e0"]
        written += [f"{plain}0e-1", f"{plain}E+0", f"{sign}0.{digits}e{len(digits)}", f"{float(number)!r}"]
    if abs(number) < 1 << 24:
        written.append(np.float32(number))
    if -(1 << 63) <= number < 1 << 63:
        written.append(np.int64(number))
    if 0 <= number < 1 << 64:
        written.append(np.uint64(number))
    return written


def writings_of_text(text: str) -> Ids:
    """A text in each normal form that is canonically equivalent, with blanks at its ends."""
    forms = [text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)]
    return [
        *forms,
        *(f" {form}" for form in forms),
        *(f"{form}\r\n" for form in forms),
        *(f"\u3000{form}\0" for form in forms),
        *(form.encode() for form in forms),
        np.str_(forms[2]),
    ]


numbers = st.one_of(
    st.integers(-20, 20),
    st.integers(-(2**66), 2**66),
    st.sampled_from([2**24, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, 10**40]),
)
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.sampled_from(
        ["é", "Å", "ẛ̣", "한", "Ann", "ann", "p-7", "x" * 5000, "1.2.3.4", "12345e67", "nan", "null", "0x7"]
    ),
).filter(lambda text: isinstance(canonical_text(text), str))


def one_word(ids: pl.Series) -> set[tuple[int, int]]:
    found = identify(ids, KEY)
    assert found.present is None
    high = np.zeros(len(ids), dtype=np.uint64) if found.high is None else found.high
    return set(zip(found.low.tolist(), high.tolist(), strict=True))


@given(numbers)
@settings(max_examples=200, deadline=None, derandomize=True)
@example(7)
@example(0)
def test_a_number_is_one_person_however_it_is_written(number: int) -> None:
    written = writings_of_number(number)
    forms = {canonical(one) for one in written}
    assert forms == {number if -(1 << 63) <= number < 1 << 63 else str(number)}
    assert len(one_word(pl.Series(written, dtype=pl.Object))) == 1


@given(texts)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_text_is_one_person_in_every_normal_form_and_between_blanks(text: str) -> None:
    written = writings_of_text(text)
    forms = {canonical(one) for one in written}
    assert len(forms) == 1
    assert len(one_word(pl.Series(written, dtype=pl.Object))) == 1
    (form,) = forms
    assert isinstance(form, str)
    assert canonical(form) == form


@given(st.decimals(-(10**18), 10**18, places=6))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_decimals_are_compared_by_value(value: Decimal) -> None:
    forms = {canonical(value), canonical(value.normalize()), canonical_text(f"{value:f}0", exact=True)}
    assert len(forms) == 1


@given(st.text(max_size=12))
@settings(max_examples=500, deadline=None, derandomize=True)
@example("12e3")
@example("+.5")
@example("7\n")
@example("１２")
def test_regular_text_is_its_own_canonical_form_and_forms_are_final(text: str) -> None:
    form = canonical_text(text)
    if re.search(IRREGULAR, text) is None:
        assert form == text
    if isinstance(form, int | str):
        assert canonical_text(str(form)) == form


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=20))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_column_of_text_is_read_as_each_text_alone(written: list[str]) -> None:
    forms = [canonical_text(text) for text in written]
    written = [text for text, form in zip(written, forms, strict=True) if not isinstance(form, Refusal)]
    forms = [form for form in forms if not isinstance(form, Refusal)]
    found = identify(pl.Series("user", written, dtype=pl.String), KEY)
    present = np.ones(len(forms), dtype=np.bool_) if found.present is None else found.present
    high = np.zeros(len(forms), dtype=np.uint64) if found.high is None else found.high
    assert present.tolist() == [form is not None for form in forms]
    for row, form in enumerate(forms):
        if isinstance(form, int):
            assert (int(found.low[row]), int(high[row])) == (form, 0)
        elif isinstance(form, str):
            low, top = np.frombuffer(hashlib.blake2b(KEY + form.encode(), digest_size=16).digest(), dtype="<u8")
            assert (int(found.low.view(np.uint64)[row]), int(high[row])) == (int(low), int(top) | 1)


def test_every_white_space_of_unicode_is_a_blank() -> None:
    assert {chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()} <= set(BLANKS)


# Every kind of source --------------------------------------------------------------------------------------------


def sources_of(number: int, folder: Path) -> dict[str, Any]:
    """One person's rows from every kind of source and type that can hold the number."""
    small, word, unsigned = abs(number) < 1 << 53, -(1 << 63) <= number < 1 << 63, 0 <= number < 1 << 64
    texts = [one for one in writings_of_number(number) if isinstance(one, str)]
    frame = pl.DataFrame(events(texts))
    frame.write_csv(folder / "text.csv")
    frame.write_csv(folder / "quoted.csv", quote_style="always")
    frame.write_parquet(folder / "text.parquet")
    decimals = pa.array([Decimal(number)] * 2, type=pa.decimal128(38, 0)) if abs(number) < 10**37 else None
    sources: dict[str, Any] = {
        "CSV": folder / "text.csv",
        "quoted CSV": folder / "quoted.csv",
        "Parquet": folder / "text.parquet",
        "Polars": frame,
        "lazy": frame.lazy(),
        "categorical": frame.with_columns(pl.col("user").cast(pl.Categorical)),
        "enumeration": frame.with_columns(pl.col("user").cast(pl.Enum(sorted(set(texts))))),
        "binary": frame.with_columns(pl.col("user").cast(pl.Binary)),
        "Arrow": frame.to_arrow(),
        "Arrow reader": frame.to_arrow().to_reader(max_chunksize=2),
        "Arrow dictionary": pa.table(events(pa.array(texts).dictionary_encode())),
        "Arrow large text": pa.table(events(pa.array(texts, type=pa.large_string()))),
        "pandas text": pd.DataFrame(events(texts)),
        "pandas categories": pd.DataFrame(events(texts)).astype({"user": "category"}),
        "pandas mixture": pd.DataFrame(events(pd.Series(writings_of_number(number), dtype=object))),
        "lists": events(writings_of_number(number)),
        "arrays of text": events(np.array(texts)),
        "iterator": iter([frame[:1], events([number]), frame[1:].to_arrow()]),
    }
    if decimals is not None:
        sources["Arrow decimals"] = pa.table(events(decimals))
        sources["Polars decimals"] = pl.DataFrame(events(pl.Series([Decimal(number)], dtype=pl.Decimal(38, 0))))
    if word:
        integers = pl.DataFrame(events(pl.Series([number, number], dtype=pl.Int64)))
        integers.write_csv(folder / "integers.csv")
        integers.write_parquet(folder / "integers.parquet")
        sources |= {"integers in CSV": folder / "integers.csv", "integers in Parquet": folder / "integers.parquet"}
        sources |= {"pandas integers": integers.to_pandas(), "array": events(np.array([number, number]))}
        sources["pandas nullable"] = pd.DataFrame(events(pd.Series([number, number], dtype="Int64")))
        sources["Arrow dictionary of integers"] = pa.table(events(pa.array([number] * 2).dictionary_encode()))
    if unsigned:
        sources["unsigned"] = pl.DataFrame(events(pl.Series([number], dtype=pl.UInt64)))
        sources["unsigned array"] = events(np.array([number], dtype=np.uint64))
    if small:
        with_null = pd.DataFrame({"user": [number, None], "time": 0, "bin": 0})
        with_null.to_csv(folder / "null.csv", index=False)
        sources |= {"pandas with a null": with_null, "CSV that pandas wrote with a null": folder / "null.csv"}
        sources["floats"] = pl.DataFrame(events(pl.Series([float(number)])))
    return sources


@given(number=numbers)
@settings(max_examples=15, deadline=None, derandomize=True)
@example(number=7)
@example(number=0)
@example(number=2**53 + 1)
@example(number=2**64 - 1)
def test_a_number_is_one_person_in_every_kind_of_source(number: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ids")
    sources = sources_of(number, folder)
    for name, source in sources.items():
        assert counts(source).sum() == 1, name
    tables = [source for name, source in sources_of(number, folder).items() if name != "iterator"]
    assert counts(iter(tables)).sum() == 1


@given(text=texts)
@settings(max_examples=15, deadline=None, derandomize=True)
@example(text="é")
def test_a_text_is_one_person_in_every_kind_of_source(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ids")
    written = [one for one in writings_of_text(text) if isinstance(one, str)]
    frame = pl.DataFrame(events(written))
    # A line of a CSV file is a row.
    in_one_line = frame.filter(~pl.col("user").str.contains("[\r\n]"))
    in_one_line.write_csv(folder / "ids.csv", quote_style="always")
    frame.write_parquet(folder / "ids.parquet")
    sources: list[Any] = [
        folder / "ids.csv",
        folder / "ids.parquet",
        frame,
        frame.with_columns(pl.col("user").cast(pl.Categorical)),
        frame.with_columns(pl.col("user").cast(pl.Binary)),
        pa.table(events(pa.array(written).dictionary_encode())),
        pd.DataFrame(events(written)),
        pd.DataFrame(events(written)).astype({"user": "category"}),
        events(writings_of_text(text)),
    ]
    for place, source in enumerate(sources):
        assert counts(source).sum() == 1, place
    assert counts(sources).sum() == 1
    assert counts([frame[:3], events(written[3:])]).sum() == 1


def test_the_file_that_broke_the_bound(tmp_path: Path) -> None:
    for first, second in [("7", "7.0"), ("7", "+7"), ("0", "-0"), ("7", "7 "), ("7", "007"), ("7", "7e0")]:
        (tmp_path / "ids.csv").write_text(f"user,time,bin\n{first},0,0\n{second},0,0\n")
        assert counts(tmp_path / "ids.csv").sum() == 1


def test_other_people_stay_apart() -> None:
    ids = [
        "Ann",
        "ann",
        "An n",
        "1.5",
        "1.05",
        "-1.5",
        "7",
        "-7",
        "70",
        "7a",
        "1,000",
        "1_000",
        "1000",
        "0x7",
        "７",
        "ﬁ",
        "fi",
    ]
    ids += ["9007199254740992", "9007199254740993", "12345e67", "12345e68", "1e999", "nan", "NaN", "null", "inf", "."]
    assert len({canonical(one) for one in ids}) == len(ids)
    assert counts(events(ids)).sum() == len(ids)


# Nobody, and refusals --------------------------------------------------------------------------------------------


def test_nobody_is_dropped_and_counted_in_every_source() -> None:
    nobody = [None, float("nan"), "", "  ", "\ufeff\t", Decimal("NaN"), pd.NA, pd.NaT, np.float32("nan"), b"", b" "]
    assert [canonical(one) for one in nobody] == [None] * len(nobody)
    for ids in (nobody, [*nobody, "x", 3]):
        with bounded(events(ids)) as held:
            assert held.dropped.no_user == len(nobody)
    with bounded(pl.DataFrame(events(["", " ", None, "x"]))) as held:
        assert held.dropped.no_user == 3
    with bounded(pl.DataFrame(events([1.0, None, float("nan")]), strict=False)) as held:
        assert held.dropped.no_user == 2


REFUSED: list[tuple[Any, Refusal]] = [
    (True, Refusal.BOOLEAN),
    (np.bool_(False), Refusal.BOOLEAN),
    (1.5, Refusal.FRACTION),
    (Fraction(3, 2), Refusal.FRACTION),
    (np.float32(2**24), Refusal.ROUNDED),
    (np.float16(2048), Refusal.ROUNDED),
    (2.0**53, Refusal.ROUNDED),
    (-1e300, Refusal.ROUNDED),
    (float("inf"), Refusal.INFINITE),
    (Decimal("-Infinity"), Refusal.INFINITE),
    (Decimal("1e500"), Refusal.TOO_LARGE),
    ("9007199254740993.0", Refusal.ROUNDED),
    ("1.2345678901234568e+19", Refusal.ROUNDED),
    ("-1.2E19", Refusal.ROUNDED),
    ("1e16", Refusal.ROUNDED),
    ("12e+30", Refusal.ROUNDED),
    ("\ud800x", Refusal.NOT_UNICODE),
    (b"\xff\xfe", Refusal.NOT_TEXT),
    ((1, 2), Refusal.TYPE),
    (1j, Refusal.TYPE),
    (np.datetime64("2024-01-01"), Refusal.TYPE),
]


@pytest.mark.parametrize(("value", "why"), REFUSED, ids=[f"{why.name}-{n}" for n, (_, why) in enumerate(REFUSED)])
def test_what_cannot_be_decided_is_refused_without_the_id(value: Any, why: Refusal) -> None:
    assert canonical(value) is why
    for ids in ([value], [value, "x"], ["x", 3, value]):
        with pytest.raises(InvalidInputError) as caught:
            bounded(events(ids))
        if why is not Refusal.TYPE:
            assert caught.value.limit == why.value
        assert caught.value.name == "user column 'user'"
        assert isinstance(value, int) or f" {value} " not in f" {caught.value} "


def test_integers_that_python_cannot_write_are_refused_and_long_texts_are_not() -> None:
    assert canonical(10**5000) is Refusal.TOO_LARGE
    assert canonical("1" + "0" * 5000) == canonical("0001" + "0" * 5000) == "1" + "0" * 5000


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        (pl.Series([True]), Refusal.BOOLEAN),
        (pl.Series([2.0**24], dtype=pl.Float32), Refusal.ROUNDED),
        (pl.Series([2.0**53]), Refusal.ROUNDED),
        (pl.Series([0.5]), Refusal.FRACTION),
        (pl.Series([float("-inf")]), Refusal.INFINITE),
        (pl.Series([b"\xff"]), Refusal.NOT_TEXT),
        (pl.Series(["2024-01-01"]).str.to_date(), Refusal.TYPE),
        (pl.Series([[1]]), Refusal.TYPE),
    ],
)
def test_typed_columns_are_refused_alike(ids: pl.Series, why: Refusal) -> None:
    with pytest.raises(InvalidInputError) as caught:
        identify(ids, KEY)
    assert caught.value.limit == why.value


def test_integers_rounded_on_the_way_into_a_table_are_refused() -> None:
    """A frame of a float and an integer has a column of floats, in which 2^53 + 1 is 2^53; a list keeps both."""
    with pytest.raises(InvalidInputError) as caught:
        counts(pd.DataFrame(events([1.0, 2**53 + 1])))
    assert caught.value.limit == Refusal.ROUNDED.value
    assert counts(events([1.0, 2**53 + 1])).sum() == 2


# Streams under way, and other machines ---------------------------------------------------------------------------


def test_identities_of_canonical_ids_are_those_of_earlier_versions() -> None:
    """Which rows count depends on the identity's two integers: streams under way must find them unchanged."""
    found = identify(pl.Series(["7", "-12", "ann", "José", "18446744073709551616", "1.5"]), KEY)
    assert found.high is not None
    assert found.low.tolist() == OLD_LOW
    assert found.high.tolist() == OLD_HIGH
    whole = identify(pl.Series([7, -12, 2**63 - 1]), KEY)
    assert whole.low.tolist() == [7, -12, 2**63 - 1]
    assert whole.high is None


OLD_LOW = [7, -12, -5514397402473304225, -1637529998747677551, -7877607548421509554, -2119998839987648854]
OLD_HIGH = [0, 0, 12629150513313166007, 3036829057680982995, 11079254808138178801, 13475849488630748683]


def test_the_rule_can_be_loaded_without_the_package() -> None:
    script = (
        "import runpy, sys; rule = runpy.run_path(sys.argv[1]); "
        "assert not any(name.split('.')[0] in ('veilstream', 'polars', 'pyarrow') for name in sys.modules); "
        "print(rule['canonical'](' 7.0 '))"
    )
    command = [sys.executable, "-c", script, str(identity.__file__)]
    assert subprocess.run(command, check=True, capture_output=True, text=True, env={}).stdout == "7\n"


# Other places that count each person once ------------------------------------------------------------------------


@given(st.lists(st.one_of(numbers, texts), min_size=1, max_size=8), st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_column_of_canonical_texts_says_the_same(people: list[int | str], data: st.DataObject) -> None:
    written = [
        data.draw(st.sampled_from(writings_of_number(one) if isinstance(one, int) else writings_of_text(one)))
        for one in people
    ]
    assert canonical_ids(pl.Series(written, dtype=pl.Object)).to_list() == [str(canonical(one)) for one in people]
    plain = [one if isinstance(one, str) else str(one) for one in written if not isinstance(one, bytes | bytearray)]
    readable = [one for one in plain if isinstance(canonical(one), int | str)]
    assert canonical_ids(pl.Series(readable, dtype=pl.String)).to_list() == [str(canonical(one)) for one in readable]


def test_values_of_one_person_are_added_up_before_they_are_clipped() -> None:
    counts = ClippedValues(0, 10, resolution=10).encode_events(["7", "7.0", " 7"], [0, 0, 0], [8, 8, 8], horizon=1)
    assert counts.tolist() == [[0, 10]]


def test_a_person_is_on_a_roster_once() -> None:
    for twice in (["7", "7.0"], ["é", "e\u0301"], [7, "7"]):
        with pytest.raises(InvalidInputError):
            Roster(twice, ["0.5", "0.5"])
    roster = Roster(["7.0", "ann "], ["0.1", "0.5"])
    assert roster.level_of([" ann", "7"]).tolist() == [1, 0]
    assert roster.fingerprint() == Roster(["ann", "7"], ["0.5", "0.1"]).fingerprint()
