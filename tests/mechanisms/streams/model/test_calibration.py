"""Widths of intervals: learned from looks outside of them, and wider where looks cannot tell."""

from __future__ import annotations

import numpy as np

from veilstream.mechanisms.streams.model.bank import Mixture
from veilstream.mechanisms.streams.model.calibration import Calibration
from veilstream.mechanisms.streams.model.observation import Look

PRIOR = Mixture(np.full(5, 1000.0), np.full(5, 400.0))


def after(gap: float, variance: float, looks: int = 30) -> Calibration:
    """What is learned of looks so far from what was foreseen, with noise of this variance."""
    look = Look(PRIOR.mean + gap, variance)
    calibration = Calibration.begun(look)
    for _ in range(looks):
        calibration = calibration.learned(look, PRIOR)
    return calibration


def test_looks_outside_of_their_interval_widen_it_and_looks_inside_never_narrow_it() -> None:
    usual = Calibration.begun(Look(PRIOR.mean, 25.0)).factor
    assert (after(4000.0, 25.0).factor > usual).all()
    assert (after(0.0, 25.0).factor == usual).all()
    assert (after(4000.0, 25.0).variance(PRIOR, None) > after(4000.0, 25.0, looks=1).variance(PRIOR, None)).all()


def test_noise_hides_what_a_look_says_of_the_interval() -> None:
    assert (after(4000.0, 1e9).factor == 0).all()


def test_intervals_are_wider_where_looks_could_not_check_them() -> None:
    quiet, noisy = after(0.0, 1.0, looks=1), after(0.0, 1e8, looks=1)
    assert (noisy.variance(PRIOR, None) > 1.3 * quiet.variance(PRIOR, None)).all()


def test_after_a_look_at_what_nobody_foresaw_the_interval_is_that_of_its_noise() -> None:
    unknown = Mixture(PRIOR.mean, np.full(5, 1e12))
    look = Look(PRIOR.mean, 200.0, scale=10.0)
    half = 1.96 * np.sqrt(Calibration.begun(look).variance(unknown, look))
    assert np.allclose(half, 10.0 * np.log(20), rtol=0.01)


def test_an_error_that_all_bins_share_shows_in_their_sum() -> None:
    """Noise of a bin is far larger than the error, that of a mean over 400 bins is not."""
    bins, looks, error = 400, 40, 500.0
    prior = Mixture(np.full(bins, 1000.0), np.full(bins, 400.0))
    signs = np.where(np.arange(bins) % 2 == 0, 1.0, -1.0)

    def shared(error_of: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        calibration = Calibration.begun(Look(prior.mean, 1e8))
        for number in range(looks):
            noise = 1e4 * np.roll(signs, number)
            calibration = calibration.learned(Look(prior.mean + error_of + noise, 1e8), prior)
        return float(calibration.shared(prior.variance)[0])

    together, apart = shared(np.full(bins, 3 * error)), shared(3 * error * signs)
    assert apart == 0
    assert error**2 < together < (3 * error) ** 2
    assert Calibration.begun(Look(prior.mean, 1e8)).shared(prior.variance) == 0
