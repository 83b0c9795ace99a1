"""A patient attacker of private classifiers, made by ``make audit``."""

from __future__ import annotations

import pytest

from tests.personalised.test_objective import attacked
from veilstream.personalised.meter import Perturbation

pytestmark = pytest.mark.audit


@pytest.mark.parametrize("perturbation", ["objective", "output"])
@pytest.mark.parametrize("level", [0, 1])
def test_a_patient_attacker_learns_nearly_what_each_person_allows(perturbation: Perturbation, level: int) -> None:
    """60,000 models a person; the bound is above the truth with probability 1e-7."""
    own = (1, 2)[level]
    assert 0.75 * own < attacked(perturbation, level, 2, runs=30_000) <= own
