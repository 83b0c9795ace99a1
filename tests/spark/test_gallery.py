"""The example of the gallery on Spark runs in the session of these tests."""

from __future__ import annotations

import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

from tests.spark.conftest import Cluster
from website.gallery import SCRIPTS

mpl.use("Agg")


def test_the_example_runs(spark: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("veilstream.spark.local_session", lambda **_settings: spark.session)
    monkeypatch.setattr(type(spark.session), "stop", lambda _session: None)
    runpy.run_path(str(SCRIPTS / "spark.py"), run_name="__main__")
    assert (tmp_path / "picture.svg").exists()
