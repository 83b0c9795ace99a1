"""Options of the command line come from the settings of a job, one for one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from veilstream.jobs.model import Job

from .support import City, veilstream

SETTINGS = {field.alias or name: field for name, field in Job.model_fields.items() if name != "file"}


def test_every_setting_has_an_option_with_its_description() -> None:
    told = " ".join(veilstream("publish", "--help").out.split())
    assert len(SETTINGS) > 20
    for name, field in SETTINGS.items():
        assert f"--{name.replace('_', '-')} " in told
        assert field.description
        assert field.description in told


def test_no_option_is_without_a_setting() -> None:
    shown = set(re.findall(r"^  --([a-z-]+)", veilstream("publish", "--help").out, flags=re.MULTILINE))
    own = {"config", "dry-run", "json", "help"}
    assert shown - own == {name.replace("_", "-") for name in SETTINGS}


@pytest.mark.parametrize(
    ("window", "every", "steps"),
    [("3", "1h", 3), ("3h", "1h", 3), ("1h", "15m", 4), ("1y", "1mo", 12), ("1d", "1h", 24)],
)
def test_a_window_is_a_number_of_steps_or_a_duration(window: str, every: str, steps: int) -> None:
    job = Job.build({"time": "ts", "user": "id", "every": every, "epsilon": 1, "window": window})
    assert job.w == steps


@pytest.mark.parametrize(
    ("window", "every"), [("24 hours", "1h"), ("1d", "5h"), ("1mo", "1d"), ("1d", "10"), ("", "1h")]
)
def test_a_window_that_is_no_number_of_steps_is_refused(tmp_path: Path, window: str, every: str) -> None:
    city = City.make(tmp_path)
    refused = city.publish("--json", window=window, every=every)
    assert refused.code == 2
    assert refused.json["error"]["type"] == "InvalidBudgetError"
    assert refused.json["error"]["name"] == "window"
    assert city.untouched()
