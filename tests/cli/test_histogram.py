"""One histogram from a file: released once, charged once, the same again for nothing."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from .support import City, veilstream


@pytest.fixture
def city(tmp_path: Path) -> City:
    return City.make(tmp_path)


def options(city: City, *more: object) -> list[object]:
    return [city.events, "--domain", city.folder / "domain.json", "--ledger", city.ledger, "--epsilon", "1", *more]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("method", ["geometric", "efpa", "p-hp", "privelet", "barak"])
def test_one_release_then_the_same_for_nothing(city: City, method: str) -> None:
    command = ["histogram", *options(city, "--user", "id", "--by", "place", "--method", method, "--out", city.table)]
    first = veilstream(*command)
    assert first.code == 0, first.err
    assert "released 'histogram': 2 bin(s) for epsilon 1" in first.out
    before = table(city.table)
    again = veilstream(*command)
    assert "nothing was spent" in again.out
    assert table(city.table) == before
    assert {row["place"] for row in before} == {"harbour", "market"}


def test_post_processing_and_parameters_by_name(city: City) -> None:
    more = ["--row-per-person", "--method", "p-hp", "--set", "depth=2", "--post", "total", "--post", "whole"]
    done = veilstream("histogram", *options(city, *more, "--out", city.table, "--json"))
    assert done.code == 0, done.err
    assert done.json["spent"] == "1"
    values = [float(row["value"]) for row in table(city.table)]
    assert min(values) >= 0
    assert all(value == round(value) for value in values)


def test_another_method_for_a_released_histogram_is_refused(city: City) -> None:
    assert veilstream("histogram", *options(city, "--user", "id")).code == 0
    other = veilstream("histogram", *options(city, "--user", "id", "--method", "efpa"))
    assert other.code != 0
    assert "nothing" in other.err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "--row-per-person"),
        (("--user", "id", "--row-per-person"), "not both"),
        (("--user", "id", "--method", "efpaa"), "did you mean 'efpa'"),
        (("--user", "id", "--post", "tidy"), "the steps are non-negative, total, whole"),
        (("--user", "id", "--unknown", "perhaps"), "'error' or 'drop'"),
        (("--user", "id", "--by", "colour"), "not in the domain"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(city: City, more: tuple[str, ...], words: str) -> None:
    refused = veilstream("histogram", *options(city, *more))
    assert refused.code != 0
    assert words in refused.err
    assert not city.ledger.exists()
