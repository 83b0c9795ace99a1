"""The public conformance suite: what every stream and histogram mechanism must obey, ours or yours.

>>> from veilstream.mechanisms.streams import Uniform
>>> check_stream(Uniform(horizon=12))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import CheckFailedError, InvalidInputError, VeilstreamError
from veilstream.mechanisms.identity import describe
from veilstream.mechanisms.protocols import HistogramMechanism, StreamMechanism, divided
from veilstream.mechanisms.session import MakeMeter, StreamSession
from veilstream.mechanisms.streams.sample import Sample
from veilstream.mechanisms.traits import Traits
from veilstream.noise import ExactSampler
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.presence_windows import fullest
from veilstream.storage.codec import decode, encode
from veilstream.testing.recording import Recording, RecordingMeter, ReplayingMeter
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.counts import seal
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

STEPS: Final = 12
"""The length of the streams that the suite runs."""
BINS: Final = 8
"""Their number of bins."""
GUARANTEES: Final = (
    Guarantee(1, w=1),
    Guarantee("1/3", w=5),
    Guarantee(2, w=40),
    Guarantee(1, w=None),
    Guarantee(1, w=4, delta="1e-6"),
)
"""Guarantees that the suite tries: event level, windows, user level, and a Gaussian part."""
SELDOM: Final = (
    Guarantee(1, w=5, presence=2),
    Guarantee(1, w=None, delta="1e-6", presence=3),
    Guarantee(1, per=4, presence=2),
)
"""Guarantees for people who count in few steps, tried on streams alone: to a single step they are no news."""


def adversarial_streams(steps: int = STEPS, bins: int = BINS) -> dict[str, NDArray[np.int64]]:
    """Streams that push a mechanism to its corners, all with the same shape."""
    t, b = np.mgrid[0:steps, 0:bins]
    return {
        "zeros": np.zeros((steps, bins), dtype=np.int64),
        "constant": np.full((steps, bins), 50, dtype=np.int64),
        "alternating": np.where(t % 2 == 0, 1_000, 0).astype(np.int64),
        "bursts": np.where((t % 5 == 4) & (b == 1), 100_000, 3).astype(np.int64),
        "growing": (t * t * 10 + b).astype(np.int64),
        "one bin": np.where(b == 0, 10 * t, 0).astype(np.int64),
    }


@dataclass(slots=True)
class _Walk:
    """One run of a mechanism, with all that it leaves behind."""

    values: list[Values]
    charges: list[Charge]
    states: list[Any]


Walks: TypeAlias = Mapping[str, _Walk]
"""Runs by the names of the streams that they published."""


def _walk(
    mechanism: StreamMechanism[Any],
    guarantee: Guarantee,
    stream: NDArray[np.int64],
    *,
    make_meter: MakeMeter = Meter,
    through_codec: bool = False,
) -> _Walk:
    noise = ExactSampler(SeededSource(20_150_000))
    session = StreamSession(mechanism, guarantee, stream.shape[1], noise, make_meter)
    first_kind = _class_of(session.state)
    walk = _Walk([], [], [])
    for t, counts in enumerate(stream):
        walk.values.append(session.step(seal(counts, t), t))
        if through_codec:
            stored = encode(session.state)
            session.state = decode(stored.header, stored.arrays, first_kind)
        walk.charges.extend(session.charges)
        walk.states.append(session.state)
    return walk


def _walks(mechanism: StreamMechanism[Any], guarantee: Guarantee) -> Walks:
    """The mechanism on every adversarial stream, as it would publish them."""
    return {name: _walk(mechanism, guarantee, stream) for name, stream in adversarial_streams().items()}


def _class_of(state: object) -> type[Any]:
    return type(state)


def check_parameters(mechanism: StreamMechanism[Any], guarantee: Guarantee) -> None:
    """Parameters are a frozen dataclass that a ledger can record; the first state is a plain dataclass."""
    parameters: Any = getattr(type(mechanism), "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        raise CheckFailedError(f"{type(mechanism).__name__}: parameters must be a frozen dataclass")
    if describe(mechanism) != describe(mechanism):
        raise CheckFailedError(f"{type(mechanism).__name__}: its description changes from call to call")
    state: object = mechanism.start(guarantee, BINS)
    if not is_dataclass(state):
        raise CheckFailedError(f"{type(mechanism).__name__}: its state must be a dataclass")


def check_charges(mechanism: StreamMechanism[Any], guarantee: Guarantee, walks: Walks | None = None) -> None:
    """No window costs more than the guarantee, whatever the data, recomputed from the charges alone."""
    for name, walk in (walks or _walks(mechanism, guarantee)).items():
        per_timestamp = Traits.of(mechanism).per_timestamp
        pure, squared = fullest(walk.charges, guarantee, BINS, per_timestamp=per_timestamp)
        budget = divided(mechanism, guarantee, BINS)
        if pure > budget.pure or squared > budget.mu_squared:
            raise CheckFailedError(f"{type(mechanism).__name__} on {name!r}: a window costs {pure} under {guarantee}")


def check_values(mechanism: StreamMechanism[Any], guarantee: Guarantee, walks: Walks | None = None) -> None:
    """Every step has one finite number per bin; noise is declared; what is not fresh was published before."""
    for name, walk in (walks or _walks(mechanism, guarantee)).items():
        seen: list[NDArray[Any]] = []
        for values in walk.values:
            numbers, std = values.numbers, np.asarray(values.std)
            if numbers.shape != (BINS,) or not np.isfinite(numbers).all():
                raise CheckFailedError(
                    f"{type(mechanism).__name__} on {name!r}: values of shape {numbers.shape}, or not finite"
                )
            if std.shape not in ((), (BINS,)) or not (std >= 0).all():
                raise CheckFailedError(f"{type(mechanism).__name__} on {name!r}: standard deviation {std}")
            if not values.fresh and not any(np.array_equal(numbers, old) for old in seen):
                raise CheckFailedError(f"{type(mechanism).__name__} on {name!r}: republished what it never published")
            seen.append(numbers)


def check_state(mechanism: StreamMechanism[Any], guarantee: Guarantee, walks: Walks | None = None) -> None:
    """A state read back from bytes goes on exactly as the state itself would."""
    streams = adversarial_streams()
    for name, straight in (walks or _walks(mechanism, guarantee)).items():
        resumed = _walk(mechanism, guarantee, streams[name], through_codec=True)
        for a, b in zip(straight.values, resumed.values, strict=True):
            if not np.array_equal(a.numbers, b.numbers) or a.fresh != b.fresh:
                raise CheckFailedError(f"{type(mechanism).__name__} on {name!r}: resuming changes what is published")
        if straight.charges != resumed.charges:
            raise CheckFailedError(f"{type(mechanism).__name__} on {name!r}: resuming changes what is charged")


def check_reads_only_the_meter(mechanism: StreamMechanism[Any], guarantee: Guarantee) -> None:
    """Given the same answers from the meter, other data bring the same questions and the same publication.

    This catches an author who reads exact values by any road at all.
    """
    streams = adversarial_streams()
    for name, stream in streams.items():
        recording = Recording()
        first = _walk(mechanism, guarantee, stream, make_meter=partial(RecordingMeter, recording=recording))
        other = stream[::-1] * 3 + streams["one bin"] + 1
        second = _walk(mechanism, guarantee, other, make_meter=partial(ReplayingMeter, recording=recording))
        for a, b in zip(first.values, second.values, strict=True):
            same = np.array_equal(a.numbers, b.numbers) and np.array_equal(a.std, b.std) and a.fresh == b.fresh
            if not same:
                raise CheckFailedError(
                    f"{type(mechanism).__name__} on {name!r}: exact data reach its values past the meter"
                )
        if recording.entries:
            raise CheckFailedError(f"{type(mechanism).__name__} on {name!r}: other data bring fewer questions")


def applicable(
    mechanism: StreamMechanism[Any], guarantees: Sequence[Guarantee] = (*GUARANTEES, *SELDOM)
) -> list[Guarantee]:
    """The guarantees of the suite that the mechanism accepts; it must accept one, and refuse with a clear error."""
    accepted: list[Guarantee] = []
    for guarantee in guarantees:
        try:
            _walk(mechanism, guarantee, adversarial_streams()["constant"])
        except InvalidInputError:
            continue
        except VeilstreamError as error:
            raise CheckFailedError(f"{type(mechanism).__name__} under {guarantee}: {error}") from error
        accepted.append(guarantee)
    if not accepted:
        raise CheckFailedError(f"{type(mechanism).__name__}: it accepts none of the suite's guarantees")
    return accepted


def check_stream(mechanism: StreamMechanism[Any], guarantees: Sequence[Guarantee] = (*GUARANTEES, *SELDOM)) -> None:
    """Run every check of a stream mechanism; ``CheckFailedError`` on the first rule broken.

    >>> from veilstream.mechanisms.streams import Uniform
    >>> check_stream(Uniform(), [Guarantee(1, w=2)])
    """
    for guarantee in applicable(mechanism, guarantees):
        check_parameters(mechanism, guarantee)
        walks = _walks(mechanism, guarantee)
        for check in (check_charges, check_values, check_state):
            check(mechanism, guarantee, walks)
        check_reads_only_the_meter(mechanism, guarantee)


def check_histogram(histogram: HistogramMechanism) -> None:
    """Run every check of a one-time histogram, as the release step of a stream; ``CheckFailedError`` as above.

    >>> from veilstream.mechanisms.histograms import Geometric
    >>> check_histogram(Geometric())
    """
    check_stream(Sample(histogram), GUARANTEES)
