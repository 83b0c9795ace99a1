"""Streams of a service that keep one promise together, and who may see what is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.conftest import StartServer, definition
from veilstream import Population
from veilstream.errors import InvalidInputError
from veilstream.server.config import read_config

RESIDENTS = Population("residents", 2, window="24h")


def test_streams_of_a_service_draw_on_one_population(start_server: StartServer) -> None:
    """One of them has a share of its own; the other repeats its release where the pool is spent."""
    server = start_server(
        definition("sure", public=True, epsilon="1", window=24, population="residents", draw="reserved"),
        definition("shared", public=True, epsilon="1", window=1, population="residents"),
        definition("seldom", public=True, epsilon="1", window=24, presence=2),
        populations=(RESIDENTS,),
    )
    for name in ("sure", "shared", "seldom"):
        server.until_visible(name, 4)
    with server.client() as client:
        shared = client.get("/v1/streams/shared/releases").json()
        assert shared["fresh"][:5] == [True, False, False, False, False]
        assert client.get("/v1/streams/sure/releases").json()["fresh"][:5] == [True] * 5
        infos = {info["name"]: info for info in client.get("/v1/streams").json()["streams"]}
        assert infos["sure"]["population"] == "residents"
        assert "part of the promise about 'residents'" in infos["sure"]["promise"]
        assert (infos["seldom"]["presence"], infos["seldom"]["population"]) == (2, None)
        assert "at most 2 steps" in infos["seldom"]["promise"]
        assert client.get("/v1/populations").status_code == 401
    with server.client("read") as client:
        assert client.get("/v1/populations").status_code == 403
    with server.client("operate") as client:
        (found,) = client.get("/v1/populations").json()["populations"]
        assert (found["population"], found["reserved"], found["pool_left_now"]) == ("residents", "1", "0")
        assert [one["stream"] for one in found["streams"]] == ["sure", "shared"]
        view = {one["stream"]: one["left_out"] for one in client.get("/v1/operate").json()["streams"]}
        assert view == {"sure": None, "shared": None, "seldom": 0}


def test_populations_stand_in_the_file_of_a_service(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(
        '[populations.residents]\nepsilon = 2\nwindow = "24h"\n[populations.all]\nepsilon = 1\nwindow = "user"\n'
    )
    assert read_config(file).populations == (RESIDENTS, Population("all", 1, None))
    for wrong in ('epsilon = 2\nwindow = "24h"\ndraw = "shared"', "epsilon = 2"):
        file.write_text(f"[populations.residents]\n{wrong}\n")
        with pytest.raises(InvalidInputError) as caught:
            read_config(file)
        assert caught.value.name == "population"
