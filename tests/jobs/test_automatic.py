"""Leaving the choice of a mechanism to veilstream means the same in a command, a call, a file and a live stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import veilstream as vs
from veilstream.errors import InvalidInputError, LedgerMismatchError
from veilstream.jobs.automatic import chosen_mechanism
from veilstream.jobs.call import prepare_call
from veilstream.jobs.model import Job
from veilstream.jobs.prepare import prepare
from veilstream.live.definition import StreamDefinition
from veilstream.mechanisms.streams import STREAMS

BASIC: dict[str, Any] = {"time": "ts", "user": "id", "every": "1h", "epsilon": 1, "window": "24h"}
RANGE: dict[str, Any] = {"start": "2024-01-01", "end": "2024-01-02"}
ROWS = {"id": [1, 2], "ts": ["2024-01-01T00:10", "2024-01-01T01:10"]}
SHORT: dict[str, Any] = {**BASIC, "window": 2, "start": "2024-01-01", "end": "2024-01-01T02:00"}


@pytest.mark.parametrize("more", [{}, {"histogram": "efpa"}, {"mechanism": "sample"}, {"set": {"safe": True}}], ids=str)
def test_all_ways_choose_the_same(more: dict[str, Any], tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    lines = [f'{name} = "{value}"' for name, value in {**BASIC, **RANGE, **more}.items() if name != "set"]
    job.write_text("\n".join([*lines, *(["[set]", "safe = true"] if "set" in more else [])]))
    chosen = {key: value for key, value in more.items() if key not in ("mechanism", "histogram")}
    called = prepare_call(
        ROWS, more.get("mechanism", "auto"), more.get("histogram"), {**BASIC, **RANGE, **chosen}
    ).mechanism
    read = prepare(Job.load(job, {})).mechanism
    given = prepare(Job.build({**BASIC, **RANGE, **more})).mechanism
    live = StreamDefinition.from_json({**BASIC, "start": "2024-01-01", **more, "name": "s"}).make_mechanism()
    assert called == read == given == live


def test_the_defaults_are_the_same() -> None:
    assert Job.model_fields["mechanism"].default == "auto"
    assert StreamDefinition.__dataclass_fields__["mechanism"].default == "auto"
    assert prepare_call(ROWS, "auto", vs.EFPA(), {**BASIC, **RANGE}).mechanism == vs.Uniform(histogram=vs.EFPA())


def test_a_slip_of_the_name_is_seen() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'auto'"):
        chosen_mechanism("atuo", None, {}, "1h")


def test_a_stream_goes_on_as_it_began_but_not_against_what_is_asked(tmp_path: Path) -> None:
    ledger = tmp_path / "budget.db"
    first: dict[str, Any] = {**SHORT, "end": "2024-01-01T01:00", "unknown": "drop"}
    vs.publish(ROWS, ledger=ledger, mechanism="sample", **first)
    job = vs.publish(ROWS, ledger=ledger, **SHORT)
    assert job.prepared.mechanism != STREAMS["sample"]()
    assert [release.fresh for release in job.releases] == [True, False]
    differing: list[dict[str, Any]] = [{"histogram": "efpa"}, {"set": {"safe": True}}]
    for asked in differing:
        with pytest.raises(LedgerMismatchError, match="mechanism"):
            vs.publish(ROWS, ledger=ledger, **SHORT, **asked)


def test_a_live_stream_that_exists_keeps_its_mechanism(tmp_path: Path) -> None:
    live = {**BASIC, "start": "2024-01-01", "clock": "manual"}
    for more in ({"mechanism": "fixed-rate", "settings": {"interval": 3}}, {}):
        with vs.open_stream(tmp_path / "budget.db", "visits", {**live, **more}) as stream:
            assert stream.definition.mechanism == "fixed-rate"
            assert stream.definition.window == 24
            stream.close_until("2024-01-01T02:00" if more else "2024-01-01T05:00")
    with vs.open_stream(tmp_path / "budget.db", "visits") as stream:
        assert stream.definition.settings == {"interval": 3}
    with pytest.raises(LedgerMismatchError, match="mechanism"):
        vs.open_stream(tmp_path / "budget.db", "visits", {**live, "mechanism": "sample"})
