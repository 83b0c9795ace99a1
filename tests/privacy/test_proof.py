"""The page of proofs names only tests that exist, and code refers only to its sections."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROOF = ROOT / "src" / "veilstream" / "privacy" / "PROOF.md"
TEXT = PROOF.read_text(encoding="utf-8")


def test_every_test_that_the_proof_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) > 30
    for path, test in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert test in functions, f"{path}::{test}"


def test_every_theorem_is_attacked() -> None:
    sections = TEXT.split("\n## ")[1:]
    attacked = {section.splitlines()[0] for section in sections if "Attacked by `tests/" in section}
    unproved = {"Terms", "What is not promised"}
    assert {section.splitlines()[0] for section in sections} - attacked == unproved


def test_code_points_to_sections_that_exist() -> None:
    headings = set(re.findall(r"^## (.+)$", TEXT, flags=re.MULTILINE))
    pointed: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        joined = re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))
        pointed |= set(re.findall(r'PROOF\.md, "([^"]+)"', joined))
    assert len(pointed) >= 4
    assert pointed <= headings
