"""Pages that commands write are as the commands write them now; links that leave the site lead to its pages."""

from __future__ import annotations

from benchmarks.__main__ import SUITES
from benchmarks.report import PAGE, overview, page_of
from veilstream.evaluate.pages import sections
from website import comparison, outside


def test_the_page_of_benchmarks_leads_to_every_suite_that_was_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == overview(SUITES), "python -m benchmarks writes it"
    written = {path.stem for path in PAGE.with_suffix("").glob("*.md")}
    assert written <= set(SUITES)
    assert len(written) > 10
    assert all(f"\n## {suite}\n" in text for suite in written)
    assert not [suite for suite in written if not page_of(suite).read_text(encoding="utf-8").startswith(f"# {suite}\n")]


def test_measured_rows_of_the_comparison_are_those_of_the_tables() -> None:
    found = sections(comparison.PAGE.read_text(encoding="utf-8"))
    assert found["measured"] == comparison.measured(), "python -m website compare writes it"
    assert found["tables"] == comparison.tables()
    assert all(comparison.cells(row) for row in comparison.ROWS), "a row that is no longer in its table"


def test_links_that_leave_the_site_lead_to_its_pages() -> None:
    page, picture, code = "../CONTRIBUTING.md#habits", "../docs/figures/live.png", "../src/veilstream/errors.py"
    text = f"[a]({page}) ![b]({picture}) [c](https://x.example) [d]({code})"
    changed = outside.with_links(f"{text}\n\n```text\n[a](../CONTRIBUTING.md)\n```\n", "guides/x.md", "docs/guides/..")
    assert changed.startswith(
        "[a](../maintain/contributing.md#habits) ![b](../figures/live.png) [c](https://x.example) d\n"
    )
    assert "```text\n[a](../CONTRIBUTING.md)\n```" in changed


def test_pages_from_outside_are_there() -> None:
    copied = outside.copied_pages()
    assert copied.keys() == set(outside.OUTSIDE.values()) - {"index.md"}
    assert all(text.startswith("# ") for text in copied.values())
