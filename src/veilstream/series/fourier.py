"""A whole series published at once, when its end is known and nobody needs it earlier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilstream.errors import InvalidInputError
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.trusted.statistics.fourier_series import series_coordinates
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True)
class FourierSeries:
    """Publishes the lowest frequencies of a series with noise, and from them the series: offline, and at once.

    Of T steps, the first d = ``coefficients`` Fourier coefficients are K = 2d − 1 real orthonormal coordinates. A
    person moves T counts by l1 each, so the coordinates by √T·l1 in the L2 norm and √(K·T)·l1 in the L1 norm: each
    gets Lap(√(K·T)·l1/ε). A person who appears in at most s = ``appearances`` steps, which the holder must enforce,
    moves them by √(K·s)·l1. The inverse transform spreads the noise: each value has variance K/T times that of a
    coordinate. What the higher frequencies held is lost, and the standard deviation does not speak of it.

    >>> from veilstream.privacy.accountant import Accountant
    >>> from veilstream.privacy.guarantee import Guarantee
    >>> from veilstream.noise import SecureNoise
    >>> from veilstream.trusted.counts import seal
    >>> steps = [seal(np.array([1000]), t) for t in range(100)]
    >>> meter = Meter(Accountant(Guarantee(1, w=None), 1), SecureNoise(), t=99)
    >>> y = FourierSeries(coefficients=3).estimate(steps, Fraction(1), meter)
    >>> y.numbers.shape, round(float(y.std), 1)
    ((100, 1), 7.1)

    Rastogi, Nath: Differentially private aggregation of distributed time-series with transformation and encryption,
    SIGMOD 2010, as algorithm 2 of Fan and Xiong, TKDE 2014, prints it. Corrected: the printed noise Lap(d/ε) on
    unnormalised complex coefficients ignores that each of them sums T counts; at T=1000, d=20 it loses 125ε and more.
    """

    coefficients: int = 20
    appearances: int | None = None

    def __post_init__(self) -> None:
        for name in ("coefficients", "appearances"):
            value: int | None = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidInputError(
                    name=name, of="FourierSeries", value=value, limit="a whole number of at least 1 is needed"
                )

    def estimate(self, snapshots: Sequence[Sealed], epsilon: Fraction, meter: Meter) -> Values:
        """All steps × bins of successive snapshots, for one charge of ``epsilon`` over all of them."""
        steps, coordinates = len(snapshots), 2 * self.coefficients - 1
        if coordinates > steps:
            raise InvalidInputError(
                name="coefficients",
                of="FourierSeries",
                value=self.coefficients,
                limit=f"{coordinates} real coordinates of {steps} steps, at most {(steps + 1) // 2} can be published",
            )
        spectrum = series_coordinates(snapshots, coordinates, meter.guarantee, self.appearances)
        noisy = meter.laplace(spectrum, epsilon, "fourier")
        batch = noisy.numbers.shape[:-1]
        numbers = from_coordinates(np.asarray(noisy.numbers, dtype=np.float64).reshape(-1, coordinates), steps)
        table = np.swapaxes(numbers.reshape(*batch, -1, steps), -1, -2)
        return Values(np.ascontiguousarray(table), float(np.mean(noisy.std)) * (coordinates / steps) ** 0.5)


def from_coordinates(coordinates: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """Series of ``steps`` from their first orthonormal coordinates [mean, cos 1, sin 1, ...]; an odd number of these.

    >>> from_coordinates(np.array([[4.0]]), 4)
    array([[2., 2., 2., 2.]])
    """
    spectrum = np.zeros((len(coordinates), steps // 2 + 1), dtype=np.complex128)
    spectrum[:, 0] = coordinates[:, 0]
    pairs = coordinates.shape[1] // 2
    spectrum[:, 1 : pairs + 1] = (coordinates[:, 1::2] + 1j * coordinates[:, 2::2]) / np.sqrt(2)
    # Slow to load, and nothing else needs it.
    from scipy.fft import irfft

    series: NDArray[np.float64] = irfft(spectrum, n=steps, axis=1, norm="ortho")
    return series
