"""Copies of a process never draw the same noise: forks, process-id namespaces, recycled ids, resumed snapshots."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import veilstream as vs
from tests.noise.namespaces import NO_NAMESPACE, WORDS, in_a_child
from tests.noise.workers import draw
from veilstream.noise import SecureNoise, SecureSource, source

ROOT = Path(__file__).parents[2]
Words = NDArray[np.uint64]
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def words_of_a_child(noise: SecureNoise, prepare: Callable[[], object] = lambda: None) -> Words:
    def prepared() -> bytes:
        prepare()
        return noise.uniform_words(WORDS).tobytes()

    drawn = np.frombuffer(in_a_child(prepared), dtype=np.uint64)
    assert drawn.size == WORDS
    return drawn


def used() -> SecureNoise:
    """A part-used buffer is what a careless copy would go on with."""
    noise = SecureNoise()
    noise.uniform_words(3)
    return noise


def assert_distinct(*drawn: Words) -> None:
    assert np.unique(np.concatenate(drawn)).size == sum(part.size for part in drawn)


def undo_fork_detection(monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """Make a forked child a perfect copy of this process: same process id, and no hook has run.

    The parent's own hook runs after the fork too and would hide that the copy continues its stream, so it is undone as
    well by whoever compares.
    """
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own)
    token = source._PROCESS.token

    def undo() -> None:
        source._PROCESS.token = token

    return undo


def test_parent_and_forked_children_draw_different_words() -> None:
    noise = used()
    assert_distinct(words_of_a_child(noise), words_of_a_child(noise), noise.uniform_words(WORDS))


def test_a_child_whose_process_id_is_the_parents_draws_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new namespace, where both are process 1, or after ids were used up and begin again."""
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own)
    noise = used()
    assert_distinct(words_of_a_child(noise), words_of_a_child(noise), noise.uniform_words(WORDS))


def test_a_child_forked_past_the_hook_draws_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that forks by itself runs no hook of Python; the process id shows it."""
    token = source._PROCESS.token
    noise = used()

    def undo() -> None:
        monkeypatch.setattr(source._PROCESS, "token", token)

    child = words_of_a_child(noise, undo)
    undo()
    assert_distinct(child, noise.uniform_words(WORDS))


def test_a_perfect_copy_draws_other_words_in_its_next_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    undo = undo_fork_detection(monkeypatch)
    noise = used()
    same = words_of_a_child(noise, undo)

    def resumed() -> None:
        undo()
        noise.renew()

    other = words_of_a_child(noise, resumed)
    undo()
    own = noise.uniform_words(WORDS)
    assert (same == own).all(), "the simulated copy must be a true one, or this test shows nothing"
    assert_distinct(other, own)
    noise.renew()
    assert_distinct(other, own, noise.uniform_words(WORDS))


def test_a_copied_publisher_releases_other_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both copies go on with the next step, on the same data: equal releases would show the noise to be the same.

    64 independent draws at scale 2 agree by chance with probability below 4^-64.
    """
    publisher = vs.Publisher(bins=WORDS, guarantee=vs.Guarantee(1, w=2), mechanism=vs.STREAMS["uniform"]())
    nothing = np.zeros(WORDS, dtype=np.int64)
    publisher.feed(nothing)
    undo = undo_fork_detection(monkeypatch)

    def next_release() -> bytes:
        undo()
        return publisher.feed(nothing).values.tobytes()

    copied = in_a_child(next_release)
    own = next_release()
    assert len(copied) == len(own)
    assert copied != own


def test_parent_and_child_in_a_new_namespace_draw_different_words() -> None:
    """Both are process 1 of their own namespace, so comparing process ids shows nothing.

    In an interpreter of its own: where libraries have started threads, a fork in a new namespace makes them start more,
    which the system refuses.
    """
    command = [sys.executable, "-m", "tests.noise.namespaces"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if told.returncode == NO_NAMESPACE:
        pytest.skip(f"no new namespace of process ids: {told.stderr.decode()}")
    assert told.returncode == 0, told.stderr.decode()
    drawn = np.frombuffer(told.stdout, dtype=np.uint64).reshape(2, WORDS + 1)
    assert drawn[:, 0].tolist() == [1, 1]
    assert_distinct(drawn[0, 1:], drawn[1, 1:])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_draw_different_words(method: str) -> None:
    draw(3)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        drawn = list(pool.map(draw, [WORDS] * 6))
    assert_distinct(*drawn, draw(WORDS))


def test_a_fork_leaves_neither_process_with_the_others_key() -> None:
    """A child that is read by others later must not tell what the parent is going to draw."""
    noise = used()
    stream = noise._secure._stream
    before = stream._encryptor
    in_a_child(lambda: b"")
    noise.uniform_words(1)
    assert stream._encryptor is not before


def test_renewing_drops_keys_and_words_of_every_thread() -> None:
    drawn: list[Words] = []
    bits = SecureSource()
    keys: list[object] = []
    ready, renewed = threading.Barrier(2), threading.Barrier(2)

    def work() -> None:
        for _ in range(2):
            drawn.append(bits.words(3))
            keys.append(bits._stream._encryptor)
            if len(keys) == 1:
                ready.wait()
                renewed.wait()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    bits.renew()
    renewed.wait()
    thread.join()
    assert keys[0] is not keys[1]
    assert_distinct(*drawn)


def test_a_key_serves_a_whole_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = os.urandom

    def counted(count: int) -> bytes:
        asked.append(count)
        return real(count)

    monkeypatch.setattr(os, "urandom", counted)
    bits = SecureSource()
    for _ in range(3):
        bits.renew()
        for _ in range(10):
            bits.words(100)
    assert asked.count(32) == 3
