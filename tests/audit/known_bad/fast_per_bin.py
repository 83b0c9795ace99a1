"""FAST run on every bin by itself, each with a schedule of its own: the next thought after one series (TKDE 2014).

The paper treats one series and is right about it. Now every bin takes M samples of Lap(M/α) and spends α. A person is
in one bin at a time, so bins seem to compose in parallel; but a person who is always in a bin that looks at the data
just then is seen in more than M samples. Both bins look at steps 0 and 1 and then go ways of their own: 2M − 2
different steps in all, (2 − 2/M)·α.

Pair. Bin 0 jumps up and down, so that its controller looks at every step; bin 1 is constant, and its intervals grow.
One person is in bin 0 for the first M steps and in bin 1 from then on. Event: all the samples with the person are high.

Filter and controller are those of the paper with the exponent's sign set right. A published posterior is
prior + K·(sample − prior) with a public gain K, so the adversary computes the samples; the score is the exact
log-likelihood ratio of those in which the person may be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .example import Floats, Generator, KnownBad, laplace_ratio

EPSILON, SAMPLES, STEPS = 2.0, 4, 24
THETA, SET_POINT, PROPORTIONAL, INTEGRAL, MEMORY = 5.0, 0.1, 0.9, 0.1, 5
PROCESS_VARIANCE = 1e5


def stream(present: bool) -> NDArray[np.int64]:
    """Steps × 2 bins."""
    jumping = np.where(np.arange(STEPS) % 2 == 0, 1_000, 100_000)
    data = np.column_stack([jumping, np.full(STEPS, 100_000)])
    if present:
        data[:SAMPLES, 0] += 1
        data[SAMPLES:, 1] += 1
    return data


def outputs(present: bool, trials: int, generator: Generator) -> Floats:
    """The log-likelihood ratio of the samples that the published series reveals."""
    told = np.zeros(trials)
    visited = [slice(0, SAMPLES), slice(SAMPLES, STEPS)]
    for data, without, visit in zip(stream(present).T, stream(False).T, visited, strict=True):
        ratios = one_bin(data.astype(np.float64), without.astype(np.float64), trials, generator)
        told += ratios[visit].sum(axis=0)
    return np.round(told, 9)[:, None]


def one_bin(data: Floats, without: Floats, trials: int, generator: Generator) -> Floats:
    """FAST with a Kalman filter on one series: what each step's sample tells (0 where there is none)."""
    scale = SAMPLES / EPSILON
    told = np.zeros((len(data), trials))
    estimate, variance = np.zeros(trials), np.full(trials, np.inf)
    errors = np.zeros((MEMORY, trials))
    used, interval, due = np.zeros(trials), np.ones(trials), np.zeros(trials)
    for step, count in enumerate(data):
        variance = variance + PROCESS_VARIANCE
        sampled = (due <= step) & (used < SAMPLES)
        sample = count + generator.laplace(scale=scale, size=trials)
        told[step] = np.where(sampled, laplace_ratio(sample, without[step], scale), 0.0)
        gain = 1 / (1 + 2 * scale**2 / variance)
        posterior = np.where(sampled, estimate + gain * (sample - estimate), estimate)
        variance = np.where(sampled, gain * 2 * scale**2, variance)
        error = np.abs(posterior - estimate) / np.maximum(posterior, 1.0) if step else np.zeros(trials)
        errors = np.where(sampled, np.vstack([errors[1:], error[None]]), errors)
        feedback = PROPORTIONAL * errors[-1] + INTEGRAL * errors.mean(axis=0)
        stretched = interval + THETA * (1 - np.exp(np.minimum((feedback - SET_POINT) / SET_POINT, 50)))
        # The paper begins to control its interval with the second sample.
        adapted = np.maximum(np.rint(stretched), 1.0) if step else interval
        interval = np.where(sampled, adapted, interval)
        due = np.where(sampled, step + interval, due)
        used += sampled
        estimate = posterior
    return told


FAST_PER_BIN = KnownBad(
    name="FAST, a schedule for every bin",
    mistake="a person who changes bins is seen at the looks of all of them",
    pair="in bin 0 while it looks, then in bin 1",
    claimed=EPSILON,
    loss=(2 - 2 / SAMPLES) * EPSILON,
    trials=100_000,
    deep=1_000_000,
    outputs=outputs,
)
