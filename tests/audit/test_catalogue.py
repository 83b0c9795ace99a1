"""Everything that publishes is attacked, and no attack finds more than was claimed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from veilstream.audit import Claim, attack, stream_claim
from veilstream.audit.bounds import FEWEST_TRIALS
from veilstream.audit.catalogue import AUDITS, claims_of, publishing
from veilstream.audit.pairs import constant
from veilstream.errors import CheckFailedError, InvalidInputError
from veilstream.mechanisms.streams import Sample, Uniform
from veilstream.privacy.guarantee import Guarantee

SURE = 1 - 1e-9


def test_every_mechanism_that_publishes_has_an_audit() -> None:
    """A new mechanism needs a line in one of the ``*_CLAIMS`` of veilstream.audit."""
    wanted = list(publishing())
    missing = [name for name in wanted if name not in AUDITS]
    assert not missing
    assert len(wanted) > 40
    assert all(AUDITS[name]() for name in wanted)


def test_names_are_not_shared_by_two_catalogues() -> None:
    wanted = list(publishing())
    assert len(set(wanted)) == len(wanted)
    assert set(AUDITS) == set(wanted)


@pytest.mark.parametrize("name", AUDITS)
def test_a_quick_audit_finds_no_more_than_was_claimed(name: str) -> None:
    """Seconds' worth of trials at seeds that never change; each claim that is kept fails with probability 1e-9."""
    claims = claims_of(name)
    assert claims
    for claim in claims:
        attack(claim, confidence=SURE).require()


@pytest.mark.parametrize("name", AUDITS)
def test_claims_differ_by_name(name: str) -> None:
    """A report names a claim: two of one mechanism must not have the same name."""
    names = [claim.name for claim in claims_of(name)]
    assert names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", AUDITS)
def test_claims_are_about_a_positive_epsilon_and_plan_enough_trials(name: str) -> None:
    claims = claims_of(name)
    assert claims
    for claim in claims:
        assert claim.epsilon > 0
        assert claim.deep >= claim.quick >= FEWEST_TRIALS


def test_a_broken_claim_fails_with_pair_and_event() -> None:
    """Sample spends 1, and says 1/2."""
    claim = stream_claim(Sample(), Guarantee(1, w=3), constant(3), epsilon="1/2")
    result = attack(claim, 20_000, confidence=SURE)
    assert not result.passed
    with pytest.raises(CheckFailedError, match=r"FAIL on 'constant history.*claimed 0.5 \(event: "):
        result.require()


def test_a_pair_must_be_neighbours_under_the_guarantee() -> None:
    pair = constant(4)
    with pytest.raises(InvalidInputError) as refused:
        stream_claim(Uniform(), Guarantee(1, w=3), pair)
    assert (refused.value.name, refused.value.value) == ("pair", pair.name)


def test_trials_in_pieces_are_trials() -> None:
    """Chunks are other draws: the same number of trials is counted whatever their size."""
    claim = stream_claim(Sample(), Guarantee(1, w=3), constant(3))
    small, large = (attack(claim, 30_000, chunk=chunk).bound for chunk in (700, 100_000))
    assert small.trials == large.trials == 15_000
    assert small.event == large.event
    assert abs(small.epsilon - large.epsilon) < 0.2


def test_each_side_and_each_piece_has_its_own_seed() -> None:
    seen: list[object] = []

    def draw(present: bool, trials: int, seed: object) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        seen.append(seed)
        return np.zeros((trials, 1))

    attack(Claim("silence", Fraction(1), draw), 1_000, chunk=100)
    assert len(seen) == len(set(map(str, seen))) == 2 + 2 * 5


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(InvalidInputError) as refused:
        attack(replace(claims_of("sample")[0], quick=10))
    assert (refused.value.name, refused.value.value) == ("trials", 10)


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(InvalidInputError) as refused:
        claims_of("unifrom")
    assert (refused.value.name, refused.value.value) == ("mechanism", "unifrom")
    assert "'uniform'" in str(refused.value.limit)
