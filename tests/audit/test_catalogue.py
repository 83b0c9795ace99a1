"""Everything that publishes is attacked, and no attack finds more than was claimed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from veilstream.audit import Claim, attack, stream_claim
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
    for claim in claims_of(name):
        attack(claim, confidence=SURE).require()


def test_claims_differ_by_name_and_are_those_of_the_mechanism() -> None:
    for name in AUDITS:
        claims = claims_of(name)
        assert all(claim.epsilon > 0 and claim.quick >= 64 and claim.deep >= claim.quick for claim in claims)


def test_a_broken_claim_fails_with_pair_and_event() -> None:
    """Sample spends 1, and says 1/2."""
    claim = stream_claim(Sample(), Guarantee(1, w=3), constant(3), epsilon="1/2")
    verdict = attack(claim, 20_000, confidence=SURE)
    assert not verdict.passed
    with pytest.raises(CheckFailedError, match=r"FAIL on 'constant history.*claimed 0.5 \(event: "):
        verdict.require()


def test_a_pair_must_be_neighbours_under_the_guarantee() -> None:
    with pytest.raises(InvalidInputError, match="within 4 steps, neighbours differ within 3"):
        stream_claim(Uniform(), Guarantee(1, w=3), constant(4))


def test_trials_in_pieces_are_trials() -> None:
    """Chunks are other draws: the same number of trials is counted whatever their size."""
    claim = stream_claim(Sample(), Guarantee(1, w=3), constant(3))
    found = [attack(claim, 30_000, chunk=chunk).bound for chunk in (700, 100_000)]
    assert [bound.trials for bound in found] == [15_000, 15_000]
    assert found[0].event == found[1].event
    assert abs(found[0].epsilon - found[1].epsilon) < 0.2


def test_each_side_and_each_piece_has_its_own_seed() -> None:
    seen: list[object] = []

    def draw(present: bool, trials: int, seed: object) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        seen.append(seed)
        return np.zeros((trials, 1))

    attack(Claim("silence", Fraction(1), draw), 1_000, chunk=100)
    assert len(seen) == len(set(map(str, seen))) == 2 + 2 * 5


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 64"):
        attack(replace(claims_of("sample")[0], quick=10))


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'uniform'"):
        claims_of("unifrom")
