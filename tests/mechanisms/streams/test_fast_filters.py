"""The filters against a case by hand, against conditioning of the whole joint law, and against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from veilstream.mechanisms.streams.filters import KalmanBank, ParticleCloud
from veilstream.mechanisms.streams.filters.particle import _permutation, _resampled
from veilstream.values.values import NoiseLaw

TIMES = np.array([0, 1, 4, 5, 9, 10, 16])
SEEN = np.array([[100.0, 7.0], [104.0, 3.0], [90.0, 9.0], [97.0, 1.0], [130.0, 4.0], [128.0, 8.0], [131.0, 2.0]])


def filtered(q: float, r: float) -> KalmanBank:
    noise = np.array([r])
    bank = KalmanBank.start(SEEN[0], noise, np.array([[q]]))
    for k in range(1, len(TIMES)):
        bank = bank.corrected(SEEN[k], noise, gap=int(TIMES[k] - TIMES[k - 1]))
    return bank


def test_kalman_by_hand() -> None:
    """R=2, Q=1: P⁻ = 2+2·1 = 4, K = 4/6; x̂ = 10 + (2/3)·6 = 14, P = 4/3. Then P⁻ = 7/3, K = 7/13."""
    noise = np.array([2.0])
    bank = KalmanBank.start(np.array([10.0]), noise, np.array([[1.0]])).corrected(np.array([16.0]), noise, gap=2)
    assert bank.belief().level == pytest.approx([14.0])
    assert bank.belief().variance == pytest.approx([4 / 3])
    assert bank.belief().std_after(3) == pytest.approx((4 / 3 + 3) ** 0.5)
    bank = bank.corrected(np.array([1.0]), noise, gap=1)
    assert bank.belief().level == pytest.approx([14 - 7 / 13 * 13])
    assert bank.belief().variance == pytest.approx([6 / 13 * 7 / 3])


@pytest.mark.parametrize(("q", "r"), [(1.0, 2.0), (100.0, 3.0), (0.01, 50.0)])
def test_kalman_is_the_law_of_the_last_level_given_all_samples(q: float, r: float) -> None:
    """Generalised least squares on the whole path at once: precision matrix of samples and moves, then solve."""
    n = len(TIMES)
    precision = np.eye(n) / r
    for k in range(1, n):
        move = np.zeros(n)
        move[[k - 1, k]] = -1, 1
        precision += np.outer(move, move) / (q * (TIMES[k] - TIMES[k - 1]))
    covariance = np.linalg.inv(precision)
    belief = filtered(q, r).belief()
    assert belief.level == pytest.approx((covariance @ (SEEN / r))[-1])
    assert belief.variance == pytest.approx([covariance[-1, -1]])


def test_candidates_are_weighed_by_the_likelihood_of_all_samples() -> None:
    """Against the joint normal law of the later samples around the first, for each candidate."""
    q, r = np.array([[0.5, 5.0, 50.0]]), np.array([4.0])
    bank = KalmanBank.start(SEEN[0], r, q)
    for k in range(1, len(TIMES)):
        bank = bank.corrected(SEEN[k], r, gap=int(TIMES[k] - TIMES[k - 1]))
    for b in range(2):
        logs: list[float] = []
        for variance in q[0]:
            joint = variance * np.minimum.outer(TIMES[1:], TIMES[1:]) + 4.0 * (1 + np.eye(len(TIMES) - 1))
            around = SEEN[1:, b] - SEEN[0, b]
            logs.append(float(-(around @ np.linalg.solve(joint, around) + np.linalg.slogdet(joint)[1]) / 2))
        assert bank.score[b] - bank.score[b].max() == pytest.approx(np.array(logs) - max(logs))
    weight = np.exp(bank.score) / np.exp(bank.score).sum(axis=1, keepdims=True)
    assert bank.belief().level == pytest.approx((weight * bank.mean).sum(axis=1))


WALK = np.array([100.0, 104.0, 95.0, 97.0, 107.0, 104.0, 111.0])


def quadrature(q: float, std: float, law: NoiseLaw) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Posterior means and variances at every sample of ``WALK``, on a fine grid."""
    x = np.linspace(-200, 400, 6001)

    def likelihood(z: float) -> NDArray[np.float64]:
        far = np.abs(z - x) / std
        density: NDArray[np.float64] = np.exp(-np.sqrt(2) * far if law is NoiseLaw.LAPLACE else -(far**2) / 2)
        return density

    density = likelihood(WALK[0])
    means, variances = list[float](), list[float]()
    for k in range(len(TIMES)):
        if k:
            spread = q * (TIMES[k] - TIMES[k - 1])
            kernel = np.exp(-((x - x[len(x) // 2]) ** 2) / (2 * spread))
            density = np.convolve(density, kernel, mode="same") * likelihood(WALK[k])
        density /= density.sum()
        means.append(float(density @ x))
        variances.append(float(density @ (x - means[-1]) ** 2))
    return np.array(means), np.array(variances)


def particle_means(q: float, std: float, law: NoiseLaw, particles: int, shift: int) -> tuple[list[float], list[float]]:
    """The particle filter's means and variances; ``shift`` moves the steps, hence the public randomness."""
    deviation, drift = np.array([std]), np.array([q])
    cloud = ParticleCloud.start(WALK[:1], deviation, particles, law)
    believed = [cloud.belief(drift)]
    for k in range(1, len(TIMES)):
        gap = int(TIMES[k] - TIMES[k - 1])
        cloud, belief = cloud.corrected(WALK[k : k + 1], deviation, drift, gap, int(TIMES[k]) + shift, law)
        believed.append(belief)
    return [float(b.level[0]) for b in believed], [float(b.variance[0]) for b in believed]


@pytest.mark.parametrize("law", [NoiseLaw.LAPLACE, NoiseLaw.GAUSSIAN])
@pytest.mark.parametrize(("q", "std"), [(4.0, 5.0), (25.0, 12.0), (1.0, 20.0)])
def test_particles_have_the_posterior_mean_of_quadrature(law: NoiseLaw, q: float, std: float) -> None:
    """Averaged over 20 shifts of the public randomness; nothing here is drawn, so it cannot fail by chance."""
    means, variances = quadrature(q, std, law)
    runs = np.array([particle_means(q, std, law, 2_000, 1_000 * shift) for shift in range(20)])
    assert (np.abs(runs[:, 0].mean(axis=0) - means) < 0.01 * np.sqrt(variances)).all()
    assert runs[:, 1].mean(axis=0) == pytest.approx(variances, rel=0.02)


def test_a_thousand_particles_are_enough() -> None:
    """One run is off by a small part of the posterior's own width."""
    means, variances = quadrature(4.0, 5.0, NoiseLaw.LAPLACE)
    for shift in range(5):
        one, _ = particle_means(4.0, 5.0, NoiseLaw.LAPLACE, 1_000, 1_000 * shift)
        assert (np.abs(np.array(one) - means) < 0.15 * np.sqrt(variances)).all()


def test_series_are_filtered_as_if_alone() -> None:
    """Pieces of a large cloud and single series agree to the last bit."""
    z = np.linspace(0, 500, 300)
    std, drift = np.array([9.0]), np.array([16.0])
    many, belief = ParticleCloud.start(z, std, 1000, NoiseLaw.LAPLACE).corrected(
        z + 5, std, drift, 2, 7, NoiseLaw.LAPLACE
    )
    for b in (0, 130, 299):
        start = ParticleCloud.start(z[b : b + 1], std, 1000, NoiseLaw.LAPLACE)
        alone, believed = start.corrected(z[b : b + 1] + 5, std, drift, 2, 7, NoiseLaw.LAPLACE)
        assert np.array_equal(alone.particles[0], many.particles[b])
        assert believed.level[0] == belief.level[b]


def test_systematic_resampling_keeps_shares_within_one_particle() -> None:
    weight = np.array([[0.5, 0.25, 0.125, 0.125], [0.0, 0.0, 1.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
    x = np.tile(np.arange(4.0), (3, 1))
    for offset in (0.0, 0.3, 0.999):
        new = _resampled(x, np.cumsum(3 * weight, axis=1), offset)
        assert len(new) > 0
        for row, shares in zip(new, weight, strict=True):
            copies = np.bincount(row.astype(int), minlength=4)
            assert copies.sum() == 4
            assert (np.abs(copies - 4 * shares) <= 1).all()


def test_public_shuffles_are_permutations_that_differ_from_step_to_step() -> None:
    shuffles = [_permutation(1000, step) for step in range(20)]
    for shuffle in shuffles:
        assert np.array_equal(np.sort(shuffle), np.arange(1000))
    assert len({tuple(shuffle) for shuffle in shuffles}) == 20
    assert np.array_equal(shuffles[3], _permutation(1000, 3))


def test_a_sample_far_from_the_cloud_moves_it_without_overflow() -> None:
    std = np.array([1.0])
    cloud = ParticleCloud.start(np.array([0.0]), std, 100, NoiseLaw.LAPLACE)
    cloud, belief = cloud.corrected(np.array([1e9]), std, np.array([1.0]), 1, 1, NoiseLaw.LAPLACE)
    assert np.isfinite(cloud.particles).all()
    assert 1 < belief.level[0] < 100
