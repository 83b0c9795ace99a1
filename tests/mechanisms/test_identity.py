"""By what a ledger knows a mechanism: what may change in its class, and what makes it another one."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import veilstream as vs
from veilstream.errors import LedgerMismatchError
from veilstream.mechanisms.histograms import EFPA, HISTOGRAMS, Auto, Haar
from veilstream.mechanisms.identity import defaults_of, describe, rebuilt, recognises
from veilstream.mechanisms.streams import DSAT, STREAMS, FixedRate
from veilstream.mechanisms.streams import Uniform as OurUniform

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "identities.json").read_text())
CATALOGUE = {**STREAMS, **HISTOGRAMS}


@dataclass(frozen=True)
class Uniform(OurUniform):
    """Shares its name with ours and does something else."""


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_default_never_changes_under_the_same_version(name: str) -> None:
    """``identities.json`` holds every default by which a ledger in use may know a mechanism: parameters may be added
    to it, a changed or removed one needs a new version."""
    version, defaults = RECORDED[name]["version"], RECORDED[name]["defaults"]
    cls: Any = CATALOGUE[name]
    now = getattr(cls, "version", 1)
    assert now >= version
    if now == version:
        assert {name: defaults_of(cls).get(name) for name in defaults} == defaults


def test_every_registered_mechanism_is_pinned() -> None:
    assert RECORDED.keys() == CATALOGUE.keys()


def test_parts_are_told_apart() -> None:
    assert json.loads(describe(FixedRate(interval=6, histogram=EFPA()))) == {
        "name": "fixed-rate",
        "version": 1,
        "set": {"interval": 6, "histogram": {"name": "efpa", "version": 1, "set": {}}},
    }


def test_a_foreign_class_of_the_same_name_is_another(tmp_path: Path) -> None:
    assert describe(Uniform()) != describe(OurUniform())
    assert "test_identity:Uniform" in describe(Uniform())
    old = '{"class": "Uniform", "histogram": {"class": "Geometric"}, "horizon": null}'
    assert recognises(old, OurUniform())
    assert not recognises(old, Uniform())
    with vs.Publisher(2, vs.Guarantee(1, w=2), OurUniform(), tmp_path / "ledger.db") as publisher:
        publisher.feed(np.array([1, 2]))
    with pytest.raises(LedgerMismatchError) as caught:
        vs.Publisher(2, vs.Guarantee(1, w=2), Uniform(), tmp_path / "ledger.db")
    assert caught.value.name == "mechanism"


def _of_version(number: int, **defaults: Any) -> Any:
    """A class as it might be after a release: the same name, other parameters or another version."""
    fields = [(name, Any, dataclasses.field(default=value)) for name, value in defaults.items()]
    made = dataclasses.make_dataclass("Smoothed", fields, bases=(OurUniform,), frozen=True)
    made.__module__ = "city.mechanisms"
    setattr(made, "version", number)  # noqa: B010 (a class made here has no declared attributes)
    return made()


def test_a_parameter_may_be_added_and_nothing_else(tmp_path: Path) -> None:
    def opened(mechanism: Any) -> int:
        with vs.Publisher(2, vs.Guarantee(1, w=9), mechanism, tmp_path / "ledger.db") as publisher:
            return publisher.feed(np.array([1, 2])).t

    assert opened(_of_version(1, weight=3)) == 0
    assert opened(_of_version(1, weight=3, added="quarter")) == 1
    for other in (_of_version(2, weight=3), dataclasses.replace(_of_version(1, weight=3), weight=4)):
        with pytest.raises(LedgerMismatchError):
            opened(other)


def test_a_default_that_has_changed_is_recorded_as_it_was() -> None:
    before = '{"name": "dsat", "set": {"spacing": 0.5}, "version": 1}'
    assert rebuilt(before) == DSAT(releases=None, spacing=0.5)
    assert recognises(before, DSAT(releases=None, spacing=0.5))
    assert not recognises(before, DSAT(spacing=0.5))
    inside = '{"name": "uniform", "set": {"histogram": {"name": "haar", "set": {}, "version": 1}}, "version": 1}'
    assert rebuilt(inside) == OurUniform(Haar("threshold", order="rows"))
    assert rebuilt('{"name": "auto", "set": {"use": "bins"}, "version": 1}') == Auto("bins", edition=1)
    second = '{"name": "auto", "set": {"use": "bins"}, "version": 2}'
    assert rebuilt(second) == Auto("bins", edition=2)
    assert recognises(second, Auto("bins", edition=2))
    assert not recognises(second, Auto("bins"))
    assert rebuilt('{"name": "auto", "set": {"use": "bins"}, "version": 3}') == Auto("bins", edition=3)
    assert rebuilt('{"name": "haar", "set": {}, "version": 2}') == Haar(order="rows")


def test_a_field_called_version_is_a_parameter() -> None:
    @dataclass(frozen=True)
    class Edition:
        version: int = 3
        oblivious: ClassVar[bool] = True

    assert json.loads(describe(Edition(version=4)))["set"] == {"version": 4}
    assert json.loads(describe(Edition()))["version"] == 1


def test_what_schema_0001_wrote_of_a_foreign_class_is_recognised() -> None:
    old = json.dumps({"class": "Smoothed", "weight": 3, "histogram": {"class": "Geometric"}, "horizon": None})
    assert recognises(old, _of_version(1, weight=3))
    assert recognises(old, _of_version(1, weight=3, added=1))
    assert not recognises(old, _of_version(1, weight=4))
    assert not recognises(old, dataclasses.replace(_of_version(1, weight=3, added=1), added=2))
    assert not recognises("not json", OurUniform())
