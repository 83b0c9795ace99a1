"""The exact privacy loss of a path of questions, for every neighbour at once.

Given the answers of the comparisons, all other noise is independent. So the largest ln P(transcript)/P'(transcript)
over transcripts with these answers is the sum of the largest loss of every noisy number and choice, which are attained
together, and of the loss of the answers themselves. With Gaussian noise the divergence max Σ (P − e^ε·P')₊ is the
mean, over the losses of all else, of that of Gaussian noise (``divergence``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from veilstream.audit.exact.reads import Integers
from veilstream.audit.exact.running import Added, Chosen, Compared, Event, Looked, Path
from veilstream.audit.exact.sparse_vector import log_chance
from veilstream.trusted.threshold import THRESHOLD_GRID

Floats: TypeAlias = NDArray[np.float64]
Atoms: TypeAlias = tuple[Floats, Floats]
"""Losses and their probabilities."""


def pure_losses(path: Path, counts: Integers, changes: Integers) -> tuple[Floats, Floats]:
    """The largest loss of all but Gaussian noise, with the counts against their neighbours and the other way round."""
    streams = np.concatenate([counts[None], counts + changes])
    forth, back = np.zeros(len(changes)), np.zeros(len(changes))
    for event in path.events:
        if isinstance(event, Added) and not event.gaussian:
            lost = np.abs(event.read.values(streams[1:]) - event.read.values(streams[:1])).sum(axis=1) / event.scale
            forth += lost
            back += lost
        elif isinstance(event, Chosen):
            logs = _log_choices(event, streams)
            forth += (logs[0] - logs[1:]).max(axis=1)
            back += (logs[1:] - logs[0]).max(axis=1)
    lost = _block_losses(path.events, streams)
    logs = answer_chances(path.events, streams)
    return forth + lost + logs[0] - logs[1:], back + lost + logs[1:] - logs[0]


def _block_losses(events: Sequence[Event], streams: Integers) -> Floats:
    """At most what the rows of each block that was looked at move, in the largest L1 norm; rows not used only hide."""
    moved: dict[int, Floats] = {}
    for event in events:
        if isinstance(event, Looked):
            row = np.abs(event.read.values(streams[1:]) - event.read.values(streams[:1])).sum(axis=1) * event.rate
            moved[event.block] = np.maximum(moved.get(event.block, np.zeros(len(row))), row)
    return np.asarray(sum(moved.values(), np.zeros(len(streams) - 1)))


def answer_chances(events: Sequence[Event], streams: Integers) -> Floats:
    """ln P(answers of all comparisons) for every stream."""
    logs = np.zeros(len(streams))
    unit = 1 << THRESHOLD_GRID
    blocks: dict[int, list[Compared]] = {}
    for event in events:
        if isinstance(event, Compared):
            blocks.setdefault(event.block, []).append(event)
    for same in blocks.values():
        # What is finer than thresholds is rounded down to their grid.
        gaps = [(event.read.values(streams) * unit >> event.grid) - round(event.level * unit) for event in same]
        answers = np.array([event.answer for event in same])
        logs += log_chance(np.concatenate(gaps, axis=1), answers, same[0].scale_rho, same[0].scale_nu)
    return logs


def _log_choices(event: Chosen, streams: Integers) -> Floats:
    """ln of the chances of every bin to be chosen as a median."""
    below = np.cumsum(event.read.values(streams), axis=1)
    scores = -event.rate * np.abs(2 * below - below[:, -1:])
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def divergence(paths: Sequence[Path], counts: Integers, change: Integers, epsilon: float) -> float:
    """Σ (P − e^ε·P')₊ over all transcripts of a program, for one neighbour."""
    streams = np.stack([counts, counts + change])
    total = 0.0
    for path in paths:
        logs = answer_chances(path.events, streams)
        losses, chances = np.array([logs[0] - logs[1]]), np.array([np.exp(logs[0])])
        squared = 0.0
        for event in path.events:
            if isinstance(event, Added):
                moved = event.read.values(streams[1:])[0] - event.read.values(streams[:1])[0]
                if event.gaussian:
                    squared += float((moved.astype(np.float64) ** 2).sum()) / event.scale**2
                    continue
                atoms = [_laplace_atoms(int(abs(k)), event.scale) for k in moved.tolist() if k]
            elif isinstance(event, Chosen):
                choices = _log_choices(event, streams)
                atoms = [(choices[0] - choices[1], np.exp(choices[0]))]
            else:
                continue
            for more, weights in atoms:
                losses, chances = _merged(np.add.outer(losses, more), np.multiply.outer(chances, weights))
        total += float((chances * gaussian_excess(epsilon - losses, squared**0.5)).sum())
    return total


def gaussian_excess(epsilon: Floats, mu: float) -> Floats:
    """Σ (P − e^ε·P')₊ of Gaussian noise whose mean moves by ``mu`` standard deviations, for any sign of ε."""
    if mu == 0:
        return np.maximum(-np.expm1(np.minimum(epsilon, 700.0)), 0.0)
    return np.asarray(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def _laplace_atoms(shift: int, scale: float) -> Atoms:
    """The losses of discrete Laplace noise against the same moved by ``shift``: finitely many."""
    q = np.exp(-1 / scale)
    x = np.arange(shift + 1)
    chances = (1 - q) / (1 + q) * q**x
    chances[0], chances[-1] = 1 / (1 + q), q**shift / (1 + q)
    return (shift - 2 * x) / scale, chances


def _merged(losses: Floats, chances: Floats) -> Atoms:
    """Equal losses as one."""
    distinct, inverse = np.unique(np.round(losses.reshape(-1), 12), return_inverse=True)
    total = np.bincount(inverse.reshape(-1), weights=chances.reshape(-1), minlength=distinct.size)
    return distinct, total.astype(np.float64)
