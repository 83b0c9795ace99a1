"""Planted ids, keys and counts are searched for in all that Spark writes down or shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

from tests.spark.conftest import Cluster
from tests.spark.support import KEY, holders, opened, written
from veilstream.data import Calendar, Categories, Domain
from veilstream.data.bounding.buckets import pack_rows
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.keyed import CHOICE, PEOPLE, Key
from veilstream.data.identity import digest
from veilstream.errors import UnknownValueError
from veilstream.spark import snapshots

PERSON = "planted-person-8f3a61"
NUMBER = 0x5EED_0F_AB1DE5
PLACE = "planted-place-77c1"
COUNT = 104_729
"""So large that none of the numbers which Spark gives to columns and queries is the same."""
DOMAIN = Domain({"place": Categories([PLACE, "other"])})


def needles() -> dict[str, bytes]:
    key = Key(KEY)
    return {
        "a text id": PERSON.encode(),
        "its digest": digest(PERSON, key.derive(PEOPLE)),
        "an integer id": NUMBER.to_bytes(8, "little"),
        "an integer id as text": str(NUMBER).encode(),
        "the key": KEY,
        "the key as hexadecimal digits": KEY.hex().encode(),
        "the key of people": key.derive(PEOPLE),
        "the key of choices": key.derive(CHOICE),
        "a count": f"{COUNT}".encode(),
    }


def shown(session: Any) -> Iterator[tuple[str, bytes]]:
    root = session.sparkContext.uiWebUrl
    application = json.loads(urlopen(f"{root}/api/v1/applications").read())[0]["id"]
    api = f"{root}/api/v1/applications/{application}"
    jobs = json.loads(urlopen(f"{api}/jobs").read())
    assert jobs
    for page in ("jobs", "stages?details=true", "sql?details=true&length=1000", "environment", "executors"):
        yield page, urlopen(f"{api}/{page}").read()
    for page in ("jobs/", "stages/", "SQL/", "environment/", "executors/"):
        yield page, urlopen(f"{root}/{page}").read()


@pytest.mark.parametrize("ids", ["text", "integer"])
def test_nothing_that_spark_writes_or_shows_holds_an_id_a_key_or_a_count(spark: Cluster, ids: str) -> None:
    # A packed column begins with its smallest number in full: the planted one.
    people: list[Any] = [NUMBER + 1 + i if ids == "integer" else f"p{i}" for i in range(COUNT - 1)]
    people.append(NUMBER if ids == "integer" else PERSON)
    rows = [(person, 0, PLACE) for person in people] + [(person, 1, "other") for person in people[:100]]
    kind = "long" if ids == "integer" else "string"
    # The rows reach Spark through Python here, which writes them to no file that the session keeps.
    df = spark.session.createDataFrame(rows, f"user {kind}, time long, place string").repartition(3)
    counts = opened(snapshots(df, domain=DOMAIN, calendar=Calendar(0, 2, 1), user="user", time="time", key=KEY))
    assert counts[0].tolist() == [COUNT, 0]
    places = [*written(spark.folder), *shown(spark.session)]
    names = [name for name, _ in places]
    assert any(name.startswith("events") for name in names)
    assert any("shuffle" in name and name.endswith(".data") for name in names)
    assert "spark.log" in names
    assert holders(needles(), places) == {}


def test_the_search_would_find_what_is_not_encrypted() -> None:
    """The same bytes are in what a task hands to Spark: encryption of the files is what hides them."""
    packed = pack_rows(Rows(np.array([NUMBER + 1, NUMBER]), None, np.array([0, 1])))
    assert NUMBER.to_bytes(8, "little") in packed


def test_a_refused_value_is_in_no_log(spark: Cluster) -> None:
    df = spark.session.createDataFrame([(1, 0, "refused-place-4c2e")], "user long, time long, place string")
    with pytest.raises(UnknownValueError):
        list(snapshots(df, domain=DOMAIN, calendar=Calendar(0, 2, 1), user="user", time="time", key=KEY))
    assert not [name for name, data in written(spark.folder) if b"refused-place-4c2e" in data]
