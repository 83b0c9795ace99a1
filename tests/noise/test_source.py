"""The secure source: separate between threads, never seeded. Copies of a process are in test_copies."""

from __future__ import annotations

import copy
import inspect
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.errors import SealedAccessError
from veilstream.noise import SecureNoise, SecureSource


def test_threads_never_share_a_word() -> None:
    noise = SecureNoise()
    ready = threading.Barrier(4)

    def draw() -> NDArray[np.uint64]:
        ready.wait()
        return np.concatenate([noise.uniform_words(count) for count in [1, 7, 600, 3] * 50])

    with ThreadPoolExecutor(4) as pool:
        drawn = np.concatenate([job.result() for job in [pool.submit(draw) for _ in range(4)]])
    # 122,200 words: an accidental repetition has probability below 1e-9.
    assert np.unique(drawn).size == drawn.size


def test_threads_draw_correct_noise_from_one_sampler() -> None:
    """Means of 4 x 100,000 draws of variance 200, each within 6 standard errors (false alarm 8e-9)."""
    noise = SecureNoise()
    with ThreadPoolExecutor(4) as pool:
        means = list(pool.map(lambda _: float(noise.laplace(10, 100_000).mean()), range(4)))
    assert max(abs(mean) for mean in means) < 6 * (200 / 100_000) ** 0.5


def test_a_key_is_replaced_after_its_lifetime(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[int] = []

    def counted(count: int) -> bytes:
        keys.append(count)
        return real(count)

    real = os.urandom
    monkeypatch.setattr(os, "urandom", counted)
    monkeypatch.setattr("veilstream.noise.source._KEY_LIFETIME_BYTES", 8 * 1024)
    source = SecureSource()
    drawn = np.concatenate([source.words(1024) for _ in range(5)])
    assert keys.count(32) == 5
    assert np.unique(drawn).size == drawn.size


def test_small_and_large_requests_continue_one_stream() -> None:
    source = SecureSource()
    drawn = np.concatenate([source.words(count) for count in (0, 1, 511, 1, 512, 513, 100_000, 2)])
    assert drawn.size == 101_540
    assert np.unique(drawn).size == drawn.size  # false alarm below 1e-9


def test_words_are_balanced_bit_by_bit() -> None:
    """64 bit frequencies over 200,000 words, each within 7 standard errors: false alarm below 2e-10."""
    bits = np.unpackbits(SecureSource().words(200_000).view(np.uint8)).reshape(-1, 64)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 7 * 0.5 / 200_000**0.5


def test_there_is_no_seed_and_no_copy() -> None:
    assert list(inspect.signature(SecureNoise).parameters) == []
    for method in (SecureNoise.laplace, SecureNoise.gaussian, SecureNoise.select):
        assert not {"seed", "rng", "random_state"} & set(inspect.signature(method).parameters)
    noise = SecureNoise()
    for secret in (noise, noise._source):
        attempts: list[Callable[[Any], object]] = [copy.copy, copy.deepcopy]
        attempts += [lambda one: one.__getstate__(), lambda one: one.__reduce_ex__(4)]
        for attempt in attempts:
            with pytest.raises(SealedAccessError):
                attempt(secret)
        assert repr(secret) in ("SecureNoise()", "SecureSource()")


def test_callers_own_what_they_get() -> None:
    source = SecureSource()
    words = source.words(4)
    words[:] = 0
    assert source.words(500).all()  # false alarm 500 · 2^-64
