"""``veilstream audit``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from veilstream.audit import attack, stream_claim
from veilstream.audit.catalogue import claims_of
from veilstream.audit.deep import SECTION, AuditedClaim, audit, markdown, write_table
from veilstream.audit.pairs import constant
from veilstream.cli import app
from veilstream.errors import InvalidInputError
from veilstream.evaluate.pages import section
from veilstream.mechanisms.streams import Sample
from veilstream.privacy.guarantee import Guarantee


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["audit", *words])


def test_a_mechanism_is_audited_and_passes() -> None:
    result = run("sample", "--trials", "5000", "--workers", "1")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == len(claims_of("sample"))
    assert all(line.startswith("sample: pass on ") and "claimed 1" in line for line in lines)


def test_json_has_all_that_the_lines_say() -> None:
    result = run("uniform", "--trials", "2000", "--workers", "1", "--json")
    rows = json.loads(result.stdout)["findings"]
    assert len(rows) == len(claims_of("uniform"))
    assert all(row["passed"] and row["bound"] <= 1 and row["trials"] == 1000 and row["event"] for row in rows)


def test_the_accountant_is_attacked_by_name_and_says_by_what() -> None:
    result = run("accountant", "--trials", "20", "--workers", "1")
    assert result.exit_code == 0
    assert result.stdout.startswith("accountant: 20 programs, ")
    assert "negative comparisons" in result.stdout
    found = json.loads(run("accountant", "--trials", "5", "--workers", "1", "--json").stdout)["accountant"]
    assert found["passed"] is True
    assert found["programs"] == 5
    assert found["attacked"]["Laplace answers"] > 0


def test_names_are_listed() -> None:
    assert "accountant" in run("--list").stdout.split()
    assert "dsat" in run("--list").stdout.split()
    assert "Kendall" in json.loads(run("--list", "--json").stdout)["mechanisms"]


@pytest.mark.parametrize("words", [("nobody",), ("sample", "--trials", "3"), ("sample", "--share", "2")])
def test_what_cannot_be_run_is_refused(words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert "nothing was released" in result.stderr


def test_finished_attacks_are_not_repeated(tmp_path: Path) -> None:
    first = audit(["sample"], tmp_path, trials=1_000, workers=1)
    record = tmp_path / "finished.ndjson"
    before = record.read_text(encoding="utf-8")
    again = audit(["sample"], tmp_path, trials=1_000, workers=1)
    assert again == first
    assert record.read_text(encoding="utf-8") == before
    audit(["sample"], tmp_path, trials=2_000, workers=1)
    assert len(record.read_text(encoding="utf-8").splitlines()) == 2 * len(claims_of("sample"))


def test_the_table_goes_between_its_markers(tmp_path: Path) -> None:
    honest = attack(stream_claim(Sample(), Guarantee(1, w=3), constant(3)), 2_000)
    broken = attack(stream_claim(Sample(), Guarantee(4, w=3), constant(3), epsilon=1), 2_000)
    audited = [AuditedClaim("honest", honest), AuditedClaim("broken", honest), AuditedClaim("broken", broken)]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{section(SECTION, 'old')}\nafter\n", encoding="utf-8")
    write_table(audited, page)
    text = page.read_text(encoding="utf-8")
    assert text == f"before\n{section(SECTION, markdown(audited))}\nafter\n"
    rows = markdown(audited).splitlines()[2:]
    assert [row.rsplit("|", 2)[1].strip() for row in rows] == ["pass", "**FAIL**"]
    page.write_text("no markers", encoding="utf-8")
    with pytest.raises(InvalidInputError) as refused:
        write_table(audited, page)
    assert (refused.value.name, refused.value.value) == ("section", SECTION)
    assert page.read_text(encoding="utf-8") == "no markers"
