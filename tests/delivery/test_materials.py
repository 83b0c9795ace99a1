"""The bill of materials lists all that users run, with versions and licences, and nothing of developers."""

from __future__ import annotations

from delivery.installing import PARTS
from delivery.materials import bill
from tests.test_extras import extras


def test_the_bill_lists_what_users_run() -> None:
    made = bill("2026-01-01T00:00:00Z")
    listed = {part["name"]: part for part in made["components"]}
    assert {"numpy", "scipy", "polars", "sqlalchemy", "typer", "matplotlib", "fastapi"} <= set(listed)
    assert not {"pytest", "mypy", "ruff", "opendp", "mkdocs-material"} & set(listed)
    assert all(part["purl"].startswith("pkg:pypi/") for part in made["components"])
    with_licence = [name for name, part in listed.items() if part.get("licenses")]
    assert len(with_licence) > 0.8 * len(listed)


def test_every_part_of_the_bill_that_is_needed_is_in_it() -> None:
    made = bill("2026-01-01T00:00:00Z")
    known = {made["metadata"]["component"]["bom-ref"], *(part["bom-ref"] for part in made["components"])}
    assert {needed for row in made["dependencies"] for needed in row["dependsOn"]} <= known


def test_every_extra_of_users_is_tried_alone() -> None:
    assert set(PARTS) == {"", "docs", "image", *extras()}
