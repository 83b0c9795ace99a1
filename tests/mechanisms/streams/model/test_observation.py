"""What a look says to a belief is what probability theory says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from veilstream.mechanisms.streams.model import observation
from veilstream.mechanisms.streams.model.observation import Look, likelihood, remaining

NOTHING = np.zeros(1)


@pytest.mark.parametrize("variance", [0.01, 1.0, 20.0, 400.0])
@pytest.mark.parametrize("gap", [-30.0, 0.0, 0.7, 12.0])
def test_laplace_likelihood_is_the_convolution(variance: float, gap: float) -> None:
    scale = 2.0
    look = Look(NOTHING, 2 * scale**2, scale)

    def density(v: float) -> float:
        root = float(np.sqrt(variance))
        law = stats.norm(0, root).pdf
        return float(
            integrate.quad(
                lambda u: law(u) * stats.laplace(0, scale).pdf(v - u), -9 * root, 9 * root, points=[0.0, v], limit=400
            )[0]
        )

    log_density, score = likelihood(np.array([gap]), np.array([variance]), look)
    assert float(np.exp(log_density[0])) == pytest.approx(density(gap), rel=3e-2)
    slope = (np.log(density(gap - 0.01)) - np.log(density(gap + 0.01))) / 0.02
    assert float(score[0]) == pytest.approx(slope, abs=2e-2)


def test_the_table_agrees_with_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    look = Look(NOTHING, 18.0, 3.0)
    gaps = np.linspace(-300, 300, 997)[None, :].repeat(5, axis=0)
    variances = np.array([1e-3, 0.1, 3.0, 100.0, 1e5])
    exact = likelihood(gaps, variances, look)
    monkeypatch.setattr(observation, "MANY", 1)
    near = likelihood(gaps, variances, look)
    assert np.abs(exact[0] - near[0]).max() < 0.1
    assert np.abs(exact[1] - near[1]).max() < 0.02


@pytest.mark.parametrize("scale", [None, 3.0])
def test_looks_only_sharpen_beliefs(scale: float | None) -> None:
    look = Look(NOTHING, 18.0, scale)
    variance = np.array([1e-6, 0.1, 1.0, 30.0, 899.0, 901.0, 1e7])
    after = remaining(variance, look)
    assert (after > 0).all()
    assert (after < variance).all()
    assert (np.diff(after) > -0.2).all()
    # Laplace noise tells at most twice as much as Gaussian noise of its variance.
    plain = variance * look.variance / (variance + look.variance)
    assert (after <= plain * 1.001).all()
    assert (after >= 0.49 * plain).all()
