"""Tables, options and names that pages speak of are those of the package."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.support import veilstream
from tests.docs.running import ROOT, blocks
from veilstream.audit.deep import SECTION
from veilstream.evaluate.pages import sections
from veilstream.jobs.model import Job
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS, RetroactiveGrouping


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_the_job_file_of_the_quickstart(tmp_path: Path) -> None:
    (job,) = blocks("docs/quickstart.md", "toml")
    (tmp_path / "job.toml").write_text(job)
    (tmp_path / "visits.csv").write_text("ts,id,place\n2024-03-01T10:00:00,1,market\n2024-03-03T10:00:00,2,market\n")
    assert Job.load(tmp_path / "job.toml", {}).window == 7
    outcome = veilstream("publish", "--config", tmp_path / "job.toml", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["released_now"] == 3


def test_the_table_of_beliefs_is_right() -> None:
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+) % \|$", text_of("choosing-epsilon.md"), re.MULTILINE)
    assert len(rows) == 6
    for epsilon, odds, belief in rows:
        assert float(odds.replace(",", "")) == pytest.approx(math.exp(float(epsilon)), rel=0.03)
        assert float(belief) == pytest.approx(100 / (1 + math.exp(-float(epsilon))), abs=0.05)


def test_options_that_the_pages_name_exist() -> None:
    named = {"plot_kind", "plot_bins", "delimiter", "encoding", "decimal", "time_format", "counts_per_user"}
    assert named <= Job.model_fields.keys()


def test_every_module_in_the_table_of_evaluation_is_there() -> None:
    rows = re.findall(r"^\| `((?:veilstream|research)[\w.]*)` \|", text_of("evaluation.md"), re.MULTILINE)
    assert len(rows) > 10
    for name in rows:
        import_module(name)


@pytest.mark.parametrize(
    ("page", "catalogue"), [("histograms.md", HISTOGRAMS), ("retroactive_grouping.md", STREAMS)], ids=str
)
def test_tables_of_mechanisms_name_the_catalogue(page: str, catalogue: dict[str, type]) -> None:
    kinds = re.findall(r"^\| `([\w-]+)` \| `(\w+)` \|", text_of(page), re.MULTILINE)
    assert len(kinds) >= 3
    assert {name: catalogue[name].__name__ for name, _ in kinds} == dict(kinds)


def test_parameters_of_grouping_are_described() -> None:
    described = set(re.findall(r"^\| `(\w+)` \| [^`]", text_of("retroactive_grouping.md"), re.MULTILINE))
    assert described == {field.name for field in fields(RetroactiveGrouping)}


def test_the_page_on_privacy_has_a_section_for_the_audit() -> None:
    assert SECTION in sections(text_of("privacy.md"))
