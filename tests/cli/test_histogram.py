"""One histogram from a file: released once, charged once, the same again for nothing."""

from __future__ import annotations

import csv
import json
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
    assert "released 'histogram': 2 bins for epsilon 1" in first.out
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


@pytest.mark.parametrize("method", ["geometric", "matrix", "haar", "noise-first", "hb"])
def test_ends_of_intervals_are_named_for_what_they_hold(city: City, method: str) -> None:
    done = veilstream("histogram", *options(city, "--user", "id", "--method", method, "--out", city.table))
    assert done.code == 0, done.err
    columns = set(table(city.table)[0])
    assert ("low" in columns) == (method in ("geometric", "matrix", "haar"))
    assert ("noise_low" in columns) == (method in ("noise-first", "hb"))


def test_steps_after_a_method_take_the_promise_of_its_intervals_away(city: City) -> None:
    more = ("--user", "id", "--method", "haar", "--post", "whole", "--out", city.table)
    done = veilstream("histogram", *options(city, *more))
    assert done.code == 0, done.err
    assert {"noise_low", "noise_high"} <= set(table(city.table)[0])


@pytest.fixture
def large(city: City) -> City:
    """Five attributes of 60 values, 777,600,000 cells."""
    names = [f"x{i}" for i in range(5)]
    attributes = {name: {"low": 0, "high": 60, "cells": 60} for name in names}
    (city.folder / "domain.json").write_text(json.dumps(attributes))
    lines = [",".join([str(n % 50), *(str(n * (i + 1) % 7) for i in range(5))]) for n in range(400)]
    city.write(lines, ",".join(["id", *names]))
    return city


@pytest.mark.parametrize("method", ["psd", "fp"])
def test_a_domain_too_large_to_list_is_released_in_boxes(large: City, method: str) -> None:
    command = ["histogram", *options(large, "--user", "id", "--method", method, "--out", large.table)]
    first = veilstream(*command)
    assert first.code == 0, first.err
    assert " box" in first.out
    assert " for epsilon 1" in first.out
    before = table(large.table)
    again = veilstream(*command, "--json")
    assert again.code == 0, again.err
    assert again.json["released_before"] is True
    assert again.json["boxes"] == len(before)
    assert table(large.table) == before
    assert set(before[0]) == {f"x{i}_{end}" for i in range(5) for end in ("from", "to")} | {
        "value",
        "noise_low",
        "noise_high",
    }


def test_a_large_domain_has_post_processing_too(large: City) -> None:
    more = ["--row-per-person", "--method", "psd", "--set", "height=6", "--post", "total", "--post", "whole"]
    done = veilstream("histogram", *options(large, *more, "--out", large.table))
    assert done.code == 0, done.err
    values = [float(row["value"]) for row in table(large.table)]
    assert min(values) >= 0
    assert all(value == round(value) for value in values)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--method", "efpa"), "veilstream mechanisms"),
        ((), "veilstream mechanisms"),
        (("--method", "fp", "--bins-per-user", "2"), "leave it out"),
    ],
)
def test_what_a_large_domain_cannot_have_is_refused(large: City, more: tuple[str, ...], words: str) -> None:
    refused = veilstream("histogram", *options(large, "--user", "id", *more))
    assert refused.code != 0
    assert words in refused.err
    assert not large.ledger.exists()


def test_some_attributes_of_a_large_domain_are_listed(large: City) -> None:
    done = veilstream("histogram", *options(large, "--user", "id", "--by", "x0", "--by", "x3"))
    assert done.code == 0, done.err
    assert "3,600 bins" in done.out


def test_a_value_that_many_rows_share_has_a_bin_of_its_own(city: City) -> None:
    incomes = [0] * 300 + [*range(1, 301)]
    city.events.write_text("\n".join(["id,income", *(f"{i},{income}" for i, income in enumerate(incomes))]) + "\n")
    domain = {"income": {"low": 0, "high": 400, "cells": 4, "spikes": [0]}}
    (city.folder / "domain.json").write_text(json.dumps(domain))
    command = ["histogram", *options(city, "--user", "id", "--out", city.table)]
    assert veilstream(*command).code == 0
    assert "nothing was spent" in veilstream(*command).out
    released = {row["income"]: int(row["value"]) for row in table(city.table)}
    assert list(released) == ["0", "[0, 100)", "[100, 200)", "[200, 300)", "[300, 400]"]
    # Noise of 40 counts has a chance below 1e-15 at epsilon 1.
    assert abs(released["0"] - 300) < 40
    assert abs(released["[0, 100)"] - 99) < 40
