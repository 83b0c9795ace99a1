"""Every block of Python and every command in the documents runs as it stands there, from an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import preparations
from tests.docs.running import ROOT, blocks, run_page

EVERY = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in EVERY if page not in preparations.NOT_RUN and (blocks(page, "python") or blocks(page, "sh"))]


def test_there_are_pages_and_those_that_are_left_out_exist() -> None:
    assert len(PAGES) > 15
    assert set(preparations.NOT_RUN) | set(preparations.SHORTER) <= set(EVERY)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    preparations.prepare(page, tmp_path)
    names = run_page(page, preparations.SHORTER.get(page, str))
    preparations.check(page, names, tmp_path)


@pytest.mark.parametrize("page", [page for page in EVERY if page.count("/") == 0])
def test_links_of_the_front_pages_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    missing = [target for target in targets if not ((ROOT / page).parent / target).exists()]
    assert not missing
