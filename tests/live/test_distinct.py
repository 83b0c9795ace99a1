"""Distinct people of live streams: what one pass over a file counts, also after kills; bounds that hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from veilstream.data import Calendar, read_events
from veilstream.data.bounding import bound
from veilstream.errors import InvalidInputError
from veilstream.live import StreamDefinition, open_stream
from veilstream.live.closing import sealed_step
from veilstream.live.distinct import PeopleBook
from veilstream.trusted.opening import opened

STEPS, PLACES = 6, {"place": ["a", "b", "c"]}


def definition(**changes: Any) -> dict[str, Any]:
    given = {"user": "id", "time": "step", "domain": PLACES, "start": 0, "every": 1, "clock": "manual", "epsilon": 10}
    return {**given, "window": 2, "bins_per_user": 2, **changes}


def visits(rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(5)  # noqa: TID251 (public example data)
    places = rng.choice(["a", "b", "c"], rows)
    return pl.DataFrame({"id": rng.integers(0, 40, rows), "step": rng.integers(0, STEPS, rows), "place": places})


@pytest.mark.parametrize(("distinct", "steps"), [("step", 1), (3, 3)])
def test_a_live_step_counts_the_people_of_one_machine(tmp_path: Path, distinct: str | int, steps: int) -> None:
    table = visits()
    with open_stream(tmp_path / "b.db", "s", definition(distinct=distinct)) as stream:
        for piece in table.iter_slices(70):
            stream.add(piece)
        known = stream.spool.stream("s")
        assert known is not None
        assert known.definition.guarantee.w == 2 + steps - 1
        events = read_events(table, user="id", time="step", by=["place"])
        key = getattr(known.key, "_secret")  # noqa: B009
        wanted = bound(
            events, known.definition.bound_domain, Calendar(0, STEPS, 1), bins_per_user=2, key=key, distinct=steps
        )
        with wanted as held:
            expected = [np.asarray(opened(snapshot)) for snapshot in held.snapshots()]
        for step in range(STEPS):
            # A program that is killed begins with what was stored, and asks for a step again that it had asked for.
            people = PeopleBook(stream.spool, known) if steps > 1 else None
            for _ in range(2):
                found = sealed_step(stream.spool, known, step, None, people)
                assert np.array_equal(np.asarray(opened(found)), expected[step])
            assert found.l1 == (2 if steps == 1 else 4)
            notes = {} if people is None else {"s": people.stored(step)}
            stream.spool.freeze({"s": step})
            stream.spool.forget({"s": step}, 0, None, notes)
            current = stream.spool.stream("s")
            assert current is not None
            known = current
        assert sum(counts.sum() for counts in expected) > 0


def test_people_so_far_are_a_total_at_user_level(tmp_path: Path) -> None:
    given = definition(distinct="so-far", delta="1e-6", epsilon=1000, window=None, bins_per_user=1, domain={})
    with open_stream(tmp_path / "b.db", "s", given) as stream:
        stream.add(visits())
        assert (stream.definition.window, stream.definition.presence) == ("user", 1)
        assert stream.definition.mechanism == "running-total"
        totals = [float(release.values[0]) for release in stream.close_until(STEPS)]
    # All 40 people have come by the end; the standard deviation of the noise of epsilon 1000 is below 0.1.
    assert min(np.diff(totals)) > -1
    assert abs(totals[-1] - 40) < 1


def test_what_cannot_be_counted_by_people_is_refused() -> None:
    for changes in (
        {"distinct": "ever"},
        {"distinct": 0},
        {"distinct": 3, "presence": 1},
        {"distinct": 3, "population": "residents"},
        {"distinct": "step", "counts_per_user": 2},
        {"distinct": "step", "mean": "fare", "between": [0, 1]},
        {"distinct": "so-far", "mechanism": "uniform", "window": None, "delta": "1e-6"},
    ):
        with pytest.raises(InvalidInputError) as caught:
            StreamDefinition.from_json({**definition(**changes), "name": "s"})
        assert caught.value.name in ("distinct", "window")
    several = StreamDefinition.from_json({**definition(distinct="3"), "name": "s"})
    assert StreamDefinition.from_json(several.to_json()) == several
