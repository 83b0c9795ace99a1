"""Exact noise and selection against OpenDP (exact) and numpy.random (neither exact nor secure)."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from typing import Any, Final, cast

import numpy as np
import opendp.prelude as dp
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from benchmarks.report import Table, best_seconds, progress
from veilstream.noise import SecureNoise
from veilstream.noise.plans import gaussian_plan, laplace_plan

DRAWS: Final = 10**6
REPEATS: Final = 7
SLOW_REPEATS: Final = 2
SCALES: Final = ("1", "10", "100", "10000", "7/3", "12345/67")
MANY: Final = 10**7


def run() -> Sequence[Table]:
    """All tables of the suite."""
    # The insecure peer is what is measured here; nothing is released.
    peer = np.random.default_rng(0)  # noqa: TID251
    return [
        _draws("laplace", peer.laplace),
        _draws("gaussian", peer.normal),
        _first_use(),
        _memory(),
        _selection(peer),
        _ciphers(),
    ]


def _opendp(law: str, scale: float) -> Callable[[list[int]], object]:
    """OpenDP's discrete mechanism on a vector of 64-bit integers."""
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measurement: Any
    if law == "laplace":
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    else:
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)
    return cast(Callable[[list[int]], object], measurement)


def _draws(law: str, insecure: Callable[[float, float, int], object]) -> Table:
    noise = getattr(SecureNoise(), law)
    zeros = [0] * DRAWS
    rows: list[list[str]] = []
    for text in SCALES:
        scale = Fraction(text)
        own = best_seconds(partial(noise, scale, DRAWS), REPEATS)
        fast = best_seconds(partial(insecure, 0.0, float(scale), DRAWS), REPEATS)
        slow = best_seconds(partial(_opendp(law, float(scale)), zeros), SLOW_REPEATS)
        rows.append(
            [
                text,
                f"{own * 1e3:.1f}",
                f"{fast * 1e3:.1f}",
                f"{slow * 1e3:,.0f}",
                f"{fast / own:.1f}×",
                f"{slow / own:,.0f}×",
            ]
        )
        progress(f"{law} {text}: {own * 1e3:.1f} ms, {fast / own:.1f}× numpy, {slow / own:,.0f}× OpenDP")
    aim = "0.8× numpy and 100× OpenDP" if law == "laplace" else "30× OpenDP"
    return Table(
        title=f"Discrete {law.capitalize()}, 10⁶ draws",
        notes=(
            "Speed against `numpy.random.Generator` (continuous, seeded, open to floating-point attacks) and "
            f"against the vector mechanism of OpenDP {version('opendp')} on a list of `i64` (exact; best of "
            f"{SLOW_REPEATS}). "
            f"Aim: {aim}."
        ),
        columns=["scale", "veilstream ms", "numpy ms", "OpenDP ms", "speed against numpy", "against OpenDP"],
        rows=rows,
    )


def _first_use() -> Table:
    """A scale met for the first time pays for its tables."""
    noise = SecureNoise()
    rows: list[list[str]] = []
    for count in (1, 1000, 30_000, DRAWS):
        for text in ("10", "12345/67"):
            scale = Fraction(text)

            def fresh(scale: Fraction = scale, count: int = count) -> None:
                laplace_plan.cache_clear()
                noise.laplace(scale, count)

            first = best_seconds(fresh, REPEATS)
            again = best_seconds(partial(noise.laplace, scale, count), REPEATS)
            rows.append([f"{count:,}", text, f"{first * 1e3:.2f}", f"{again * 1e3:.2f}"])
            progress(f"first use, {count:,} draws at {text}: {first * 1e3:.2f} ms, then {again * 1e3:.2f} ms")
    return Table(
        title="First use of a scale",
        notes="Discrete Laplace. Larger requests build larger tables; those of the last 32 scales are kept.",
        columns=["draws", "scale", "first ms", "again ms"],
        rows=rows,
    )


def _memory() -> Table:
    noise = SecureNoise()
    rows: list[list[str]] = []
    for law in ("laplace", "gaussian"):
        for scale in (10, 10**4):
            for count in (DRAWS, MANY):
                laplace_plan.cache_clear()
                gaussian_plan.cache_clear()
                tracemalloc.start()
                getattr(noise, law)(scale, count)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                rows.append([law, f"{scale:,}", f"{count:,}", f"{peak / count:.1f}"])
                progress(f"memory, {law} {scale:,}, {count:,} draws: {peak / count:.1f} bytes per draw")
    return Table(
        title="Peak memory",
        notes="Traced, with the result (8 bytes per draw) and the building of tables. Aim: at most 64.",
        columns=["law", "scale", "draws", "bytes per draw"],
        rows=rows,
    )


def _selection(peer: np.random.Generator) -> Table:  # noqa: TID251
    noise = SecureNoise()
    rows: list[list[str]] = []
    for count in (1000, 10**5, MANY):
        gaps = peer.integers(0, 10**6, count)
        for rate in ("1/1000", "1/2"):
            factor = float(Fraction(rate))

            def gumbel(gaps: Any = gaps, factor: float = factor) -> object:
                return np.argmax(peer.gumbel(size=gaps.size) - factor * gaps)

            own = best_seconds(partial(noise.select, gaps, rate), REPEATS)
            insecure = best_seconds(gumbel, SLOW_REPEATS)
            rows.append([f"{count:,}", rate, f"{own * 1e3:.2f}", f"{insecure * 1e3:.2f}", f"{insecure / own:.1f}×"])
            progress(f"select of {count:,} at {rate}: {own * 1e3:.2f} ms, {insecure / own:.1f}× numpy")
    return Table(
        title="Exponential mechanism, one choice",
        notes="Exact selection against the Gumbel trick in `numpy.random` (neither exact nor secure).",
        columns=["candidates", "rate", "veilstream ms", "numpy Gumbel ms", "speed against numpy"],
        rows=rows,
    )


def _ciphers() -> Table:
    size = 1 << 18
    zeros, out = bytes(size), bytearray(size)
    ciphers = {
        "AES-256-CTR": Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16))),
        "ChaCha20": Cipher(algorithms.ChaCha20(os.urandom(32), os.urandom(16)), mode=None),
    }
    rows: list[list[str]] = []
    for name, cipher in ciphers.items():
        encryptor = cipher.encryptor()
        seconds = best_seconds(partial(encryptor.update_into, zeros, out), 50)
        rows.append([name, f"{size / seconds / 1e9:.1f}"])
        progress(f"{name}: {size / seconds / 1e9:.1f} GB/s")
    return Table(
        title="Generators",
        notes="Key stream in pieces of 256 KiB; veilstream uses AES-256-CTR.",
        columns=["generator", "GB/s"],
        rows=rows,
    )
