"""What is said about a population's budget is what its charges say."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from veilstream import STREAMS, Guarantee, Membership, Population, Publisher
from veilstream.data import Calendar
from veilstream.release.budget import BudgetStatement, in_words, outside
from veilstream.release.budget_picture import draw_budget
from veilstream.release.officer_page import write_officer_page
from veilstream.storage.ledger import Ledger

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
COUNTS = np.array([40, 3])


@pytest.fixture
def statement() -> BudgetStatement:
    """Days of 1/4 reserved under windows of three days, hours shared, a table named to be dangerous in a page."""
    people = Population("<people>", 2, window="3d")
    with Ledger.open(None) as ledger:
        days = Calendar("2026-01-01", "2027-01-01", "1d")
        hours = Calendar("2026-01-01", "2027-01-01", "12h")
        sure = Publisher(
            2, Guarantee("1/4", w=1), STREAMS["uniform"](), ledger, stream="sure", calendar=days, population=people,
            draw="reserved",
        )  # fmt: skip
        shared = Publisher(
            2, Guarantee("1/2", w=4), STREAMS["uniform"](), ledger, stream="shared", calendar=hours, population=people
        )
        for _ in range(2):
            sure.feed(COUNTS)
        for _ in range(9):
            shared.feed(COUNTS)
        once = Membership("<people>", data=("2026-01-01", "2026-01-03"))
        table = Publisher(2, Guarantee("1/8", w=None), STREAMS["sample"](), ledger, stream="<b>", population=once)
        table.feed(COUNTS)
        return BudgetStatement.of(ledger, "<people>")


def test_a_statement_adds_up(statement: BudgetStatement) -> None:
    """The reserved stream is met three times by three days; six half days and the table are the fullest window."""
    assert (statement.reserved, statement.pool) == (Fraction(3, 4), Fraction(5, 4))
    assert (statement.fullest, statement.fullest_window) == (Fraction(7, 8), ("2026-01-01 00:00", "2026-01-04 00:00"))
    # Now is the fifth day: of the last three days five half days were charged.
    assert (statement.spent, statement.left) == (Fraction(5, 8) + Fraction(0), Fraction(5, 8))
    assert statement.comes_back == "2026-01-06 00:00"
    assert statement.ever == Fraction(2, 4) + Fraction(9, 8) + Fraction(1, 8)
    sure, shared, table = statement.streams
    assert (sure.reserved, sure.fullest, sure.spent, sure.left) == (
        Fraction(3, 4), Fraction(1, 2), Fraction(0), Fraction(3, 4),
    )  # fmt: skip
    assert (shared.fullest, shared.spent, shared.releases) == (Fraction(3, 4), Fraction(5, 8), 9)
    assert (table.fullest, table.spent) == (Fraction(1, 8), Fraction(0))
    assert [one.seq for one in statement.releases] == list(range(1, 13))
    assert [one.time for one in statement.releases[-2:]] == ["2026-01-05 00:00", "2026-01-01 to 2026-01-03"]


def test_the_promise_in_words() -> None:
    words = in_words(Population("p", 1, window="24h"))
    assert "whatever comes from one person within any 24 hours changes the probability" in words
    assert "e^1 = 2.718" in words
    assert "reach beyond such a time count with all their data" in words
    assert "within each day of the calendar" in in_words(Population("p", 1, window="1d"))
    assert "one device changes" in in_words(Population("p", 1, window=None, unit="devices"))
    assert "except with a probability of about 1e-06" in in_words(Population("p", 1, "24h", delta="1e-6"))


def test_a_picture_is_drawn(statement: BudgetStatement) -> None:
    assert draw_budget(statement).startswith(b"\x89PNG")
    assert b"<svg" in draw_budget(statement, "svg")


def test_the_page_names_everything_and_escapes_it(statement: BudgetStatement, tmp_path: Path) -> None:
    write_officer_page([statement], tmp_path / "o.html", ledger="b.db", made="today")
    text = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert "<b>" not in text
    assert "<h1>&lt;people&gt;</h1>" in text
    assert text.count("<tr><td") == len(statement.streams) + len(statement.releases)
    assert "<script" not in text
    write_officer_page([], tmp_path / "none.html", ledger="b.db", made="today")
    assert "no population" in (tmp_path / "none.html").read_text(encoding="utf-8")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_the_page_opens_in_a_browser_and_loads_nothing(statement: BudgetStatement, tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    write_officer_page([statement], tmp_path / "o.html", ledger="b.db", made="today")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        asked: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.goto((tmp_path / "o.html").as_uri())
        assert page.locator("h1").inner_text() == "<people>"
        assert page.locator("table").count() == 2
        assert page.locator("img").evaluate("image => image.complete && image.naturalWidth > 0")
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert said == []
        page.emulate_media(media="print")
        assert page.pdf().startswith(b"%PDF")
        browser.close()


def test_streams_outside_of_every_population_stand_in_red_with_their_sum(
    statement: BudgetStatement, tmp_path: Path
) -> None:
    with Ledger.open(None) as ledger:
        for name in ("<i>", "plain"):
            Publisher(2, Guarantee("3/4", w=4), STREAMS["uniform"](), ledger, stream=name).feed(COUNTS)
        others = outside(ledger)
    assert [(one.stream, one.releases) for one in others] == [("<i>", 1), ("plain", 1)]
    write_officer_page([statement], tmp_path / "o.html", others, ledger="b.db", made="today")
    text = (tmp_path / "o.html").read_text(encoding="utf-8")
    assert '<section class="outside">' in text
    assert "epsilon 1.5 for their windows together" in text
    assert "<i>" not in text
    assert "&lt;i&gt;" in text
