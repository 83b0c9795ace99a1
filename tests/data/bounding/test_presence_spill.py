"""A history that outgrows memory answers as one that does not, through files, restarts and torn journals."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.random import default_rng  # noqa: TID251 (makes data, releases nothing)

from veilstream.data.bounding import PresenceHistory, load_history, store_history
from veilstream.data.bounding.presence_journal import PresenceJournal, resumed_history
from veilstream.data.bounding.presence_pairs import Words
from veilstream.data.bounding.presence_store import COLUMNS
from veilstream.errors import InvalidInputError
from veilstream.privacy.guarantee import Guarantee

KEY = b"sixteen bytes or more"
PEOPLE, STEPS = 12_000, 12
SMALL = 100_000
"""Bytes for a third of the people: most of them are in files of several sections."""
GUARANTEES = (Guarantee(1, w=5, presence=2), Guarantee(1, w=None, presence=3), Guarantee(1, per=4, presence=1))


def batch(seed: int, step: int, shared: int) -> tuple[Words, Words]:
    """Half of the people, of whom so many share each first hash."""
    came = np.flatnonzero(default_rng((seed, step)).random(PEOPLE) < 0.5).astype(np.uint64)
    return came // np.uint64(shared) * np.uint64(1 << 48), came


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@settings(deadline=None, max_examples=6, derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 99), shared=st.sampled_from([1, 3]), again=st.sets(st.integers(0, STEPS - 1)))
def test_what_is_in_files_counts_as_what_is_in_memory(
    guarantee: Guarantee, seed: int, shared: int, again: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("spill")
    large = PresenceHistory(guarantee, KEY)
    empty = small = PresenceHistory(guarantee, KEY, SMALL, folder)
    for step in range(STEPS):
        first, second = batch(seed, step, shared)
        for history in (large, small):
            history.advance(step)
        expected = large.people_counted(first, second, step)
        # The step comes in two parts, and some people are in both of them.
        for part in (slice(0, 4000), slice(2000, None)):
            np.testing.assert_array_equal(small.people_counted(first[part], second[part], step), expected[part])
        assert small.memory * 2 <= SMALL
        if step in again:
            store_history(folder / "presence", small)
            small = load_history(folder / "presence", empty)
    assert {path.name for path in folder.iterdir()} <= {"presence"}


def test_a_file_of_the_first_format_is_read(tmp_path: Path) -> None:
    guarantee, path = Guarantee(1, w=5, presence=1), tmp_path / "presence"
    known = PresenceHistory(guarantee, KEY)
    first, second = batch(1, 0, shared=1)
    known.people_counted(first, second, 0)
    known.advance(1)
    with path.open("wb") as file:
        file.write(json.dumps({"format": 1, "rule": known.rule, "through": 1, "people": len(first)}).encode() + b"\n")
        table = np.concatenate(list(known.blocks()))
        for name in COLUMNS:
            np.lib.format.write_array(file, np.ascontiguousarray(table[name]), allow_pickle=False)
    found = load_history(path, PresenceHistory(guarantee, KEY))
    assert found.through == 1
    assert not found.people_counted(first, second, 1).any()


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    guarantee, path = Guarantee(1, w=5, presence=1), tmp_path / "presence"
    known = PresenceHistory(guarantee, KEY)
    known.people_counted(*batch(1, 0, shared=1), 0)
    store_history(path, known)
    whole = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for length in (len(whole) - 1, len(whole) // 2, 10):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidInputError) as caught:
            load_history(path, PresenceHistory(guarantee, KEY))
        assert caught.value.name == "presence history"


def test_a_journal_knows_the_steps_that_are_complete_wherever_it_is_cut_off(tmp_path: Path) -> None:
    """The history after a kill is that of the released steps, or ends before them so that going on is refused."""
    guarantee, path = Guarantee(1, w=5, presence=2), tmp_path / "journal"
    empty, steps = PresenceHistory(guarantee, KEY), 4
    histories = [empty]
    journal = PresenceJournal(path, empty)
    ends = [0]
    for step in range(steps):
        history = histories[-1].copy()
        first, second = batch(2, step, shared=1)
        journal.note(step, first[:100], second[:100])
        journal.note(step, first[50:200], second[50:200])
        history.people_counted(first[:200], second[:200], step)
        journal.complete(step + 1)
        history.advance(step + 1)
        histories.append(history)
        ends.append(path.stat().st_size)
    journal.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    whole = path.read_bytes()
    for cut in sorted({*ends, *(end + 1 for end in ends), *(end - 7 for end in ends[1:])}):
        path.write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends) - 1
        for released in range(steps + 1):
            found = resumed_history(path, empty, released)
            through = min(complete, released)
            assert (found.through or 0) == through
            for left, right in zip(found.blocks(), histories[through].blocks(), strict=True):
                np.testing.assert_array_equal(left, right)
    path.write_bytes(whole)
    with pytest.raises(InvalidInputError) as caught:
        resumed_history(path, PresenceHistory(Guarantee(1, w=6, presence=2), KEY), 2)
    assert caught.value.name == "presence journal"
