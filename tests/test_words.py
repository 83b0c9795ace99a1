"""Documents and code speak the present names; the page on migration alone knows the old ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "veilstream"
OLD_NAMES = (
    "agreed", "BrokenFile", "BudgetExceeded", "by_event", "cell_filter", "CheckFailed", "Deciding",
    "Foreseeable", "InvalidBudget", "InvalidDomain", "InvalidInput", "keyring", "LedgerBusy", "LedgerFull",
    "LedgerMismatch", "LedgerVersion", "MissingExtra", "OutOfOrder", "rehearse", "SealBroken",
    "SPARSE_METHODS", "strangers", "takes_lanes", "UnknownValue", "unsealed", "WINDOW_SUMS",
)  # fmt: skip
OLD = re.compile(rf"\b({'|'.join(OLD_NAMES)})\b|(?<=\()l1=|\blanes\b|\.dealt\b|veilstream reproduce")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
CODE = [path for folder in ("src", "research", "benchmarks") for path in (ROOT / folder).rglob("*.py")]


@pytest.mark.parametrize("files", [PAGES, CODE], ids=["pages", "code"])
def test_nothing_speaks_the_old_names(files: list[Path]) -> None:
    assert len(files) > 15
    left_out = "docs/migration.md"
    wrong = {
        f"{path.relative_to(ROOT)}:{number}": line.strip()
        for path in files
        if left_out not in path.as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OLD.search(line)
    }
    assert not wrong


def test_the_layout_in_the_design_is_the_layout() -> None:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = page.partition("## Layout")[2].partition("###")[0]
    named = set(re.findall(r"`([a-z]+)/`", "\n".join(line for line in table.splitlines() if line.startswith("|"))))
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    inner = {path.name for path in PACKAGE.glob("*/*/") if path.is_dir()}
    assert folders <= named
    assert named <= folders | inner


def test_paths_in_the_design_exist() -> None:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", page)
    assert len(paths) > 15
    missing = [path for path in paths if not (ROOT / path).exists() and not list(PACKAGE.glob(f"**/{path}"))]
    assert not missing
