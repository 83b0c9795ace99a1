"""Random small programs through the real Meter: none that the accountant admits loses more than its guarantee."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilstream.audit.exact import search
from veilstream.audit.exact.dice import Dice
from veilstream.audit.exact.losses import divergence, gaussian_excess, pure_losses
from veilstream.audit.exact.neighbours import moves, neighbours, reachable
from veilstream.audit.exact.programs import Kind
from veilstream.audit.exact.reads import counts_of
from veilstream.audit.exact.running import Added, Compared, Path
from veilstream.audit.exact.search import ProgramAudit, attack_in_parallel, attack_programs
from veilstream.audit.exact.sparse_vector import log_chance
from veilstream.privacy.guarantee import Guarantee

from .enumeration import laplace_pmf, laplace_tail
from .known_bad.charge_rules import (
    BuffersOfOneStep,
    HalfOfStepTwenty,
    OldDataForFree,
    PositivesForgotten,
    RowsOfOneStep,
    RowsOfThePresent,
    parts_by_position,
)

QUICK, TWINS, DEEP = 1_000, 400, 100_000
FAR, DEEP_FAR, DEEP_SHARES = 60, 10_000, 20
SHARE = 25
"""Programs of a wrong rule that are tried before the next ones."""
SEED = 22
"""Looked for: with it a few hundred programs are enough to find out every wrong rule below."""


def test_no_admitted_program_loses_more_than_its_guarantee() -> None:
    """Exact losses: a failure is one, whatever the seed."""
    found = attack_programs(QUICK, SEED)
    assert found.passed, str(found)
    # Some programs spend all that they may: the promise is tight, and the attack would see a larger loss.
    assert found.largest == pytest.approx(1, abs=1e-6)
    assert all(found.attacked[kind] > 40 for kind in Kind)
    for what in ("Laplace answers", "choices", "looks with a block of noise", "positive comparisons"):
        assert found.attacked[what] > 100
    for what in (
        "failed steps",
        "restarts",
        "skipped steps",
        "refused questions",
        "negative comparisons",
        "Gaussian answers",
    ):
        assert found.attacked[what] > 100


@pytest.mark.audit
def test_no_admitted_program_of_a_hundred_thousand_loses_more_than_its_guarantee() -> None:
    found = attack_in_parallel(DEEP, SEED + 1)
    assert found.programs == DEEP
    assert found.passed, str(found)


def test_no_program_of_many_steps_loses_more_than_its_guarantee() -> None:
    found = attack_programs(FAR, SEED, far=True)
    assert found.programs == FAR
    assert found.passed, str(found)
    assert found.largest == pytest.approx(1, abs=1e-6)
    for what in ("Laplace answers", "Gaussian answers", "restarts", "failed steps", "refused questions", "choices"):
        assert found.attacked[what] > FAR


@pytest.mark.audit
@pytest.mark.parametrize("share", range(DEEP_SHARES))
def test_no_program_of_many_steps_of_ten_thousand_loses_more_than_its_guarantee(share: int) -> None:
    each = DEEP_FAR // DEEP_SHARES
    found = attack_programs(each, SEED + 2, first=share * each, far=True)
    assert found.programs == each
    assert found.passed, str(found)


@pytest.mark.parametrize(
    ("rule", "loss"),
    [
        ({"make_meter": PositivesForgotten}, 1.05),
        ({"make_meter": OldDataForFree}, 1.05),
        ({"parts_of": parts_by_position}, 1.3),
        ({"make_meter": RowsOfThePresent, "kinds": [Kind.TOTALS]}, 1.1),
        ({"make_meter": RowsOfOneStep, "kinds": [Kind.TOTALS]}, 1.3),
        ({"make_meter": RowsOfThePresent, "kinds": [Kind.BUFFERS]}, 1.1),
        ({"make_meter": BuffersOfOneStep, "kinds": [Kind.BUFFERS]}, 1.3),
        ({"make_meter": HalfOfStepTwenty, "far": True}, 1.1),
    ],
    ids=[
        "positives forgotten",
        "old data for free",
        "parts by position",
        "rows of the present",
        "rows of one step",
        "buffers of the present",
        "buffers of one step",
        "half of step twenty",
    ],
)
def test_a_wrong_rule_of_charging_is_found_out(rule: dict[str, Any], loss: float) -> None:
    found = ProgramAudit()
    for first in range(0, TWINS, SHARE):
        found.add(attack_programs(SHARE, SEED, first=first, **rule))
        if found.largest > loss:
            break
    assert found.largest > loss
    assert not found.passed


@settings(max_examples=40, deadline=None)
@given(
    gaps=st.lists(st.integers(-6, 6), min_size=1, max_size=5),
    data=st.data(),
    epsilons=st.tuples(st.sampled_from([0.25, 1.0, 2.0]), st.sampled_from([0.25, 1.0, 1.5])),
)
def test_the_closed_form_is_the_sum_over_the_secret(
    gaps: list[int], data: st.DataObject, epsilons: tuple[float, float]
) -> None:
    """Against the sum over every secret that matters, on a coarse grid so that few are left out."""
    answers = data.draw(st.lists(st.booleans(), min_size=len(gaps), max_size=len(gaps)))
    scale_rho, scale_nu = (3 / epsilon for epsilon in epsilons)
    rho = np.arange(-600, 601)
    law = laplace_pmf(scale_rho, rho)
    for gap, answer in zip(gaps, answers, strict=True):
        above = laplace_tail(scale_nu, rho - gap)
        law = law * (above if answer else 1 - above)
    found = log_chance(np.array([gaps]), np.array(answers), scale_rho, scale_nu)[0]
    assert found == pytest.approx(math.log(math.fsum(law.tolist())), abs=1e-10)


def test_all_answers_of_a_block_together_have_probability_one() -> None:
    gaps = np.array([[0, 256, -512, 300]])
    chances = [math.exp(log_chance(gaps, np.array(a), 500.0, 700.0)[0]) for a in product((False, True), repeat=4)]
    assert math.fsum(chances) == pytest.approx(1, abs=1e-12)


def test_the_divergence_is_the_sum_over_all_transcripts() -> None:
    """A noisy count, a comparison and then Gaussian noise: enumerated over outputs, the Gaussian one on a fine grid."""
    read, counts, change = counts_of(0, 0, 1, 1), np.array([[3]]), np.array([[1]])
    laplace, sigma, epsilon = 2.0, 1.5, 0.7
    unit = 256.0
    total = 0.0
    taken: list[Path] = []
    for answer in (False, True):
        compared = Compared(1, read.total(), 2.0, unit, unit, answer)
        events = (Added(read, laplace, gaussian=False), compared, Added(read, sigma, gaussian=True))
        taken.append(Path(events, (answer,), 0))
        chance = [math.exp(log_chance(np.array([[(x - 2) * 256]]), np.array([answer]), unit, unit)[0]) for x in (3, 4)]
        numbers = np.arange(-60, 70)
        p, q = (laplace_pmf(laplace, numbers - x) * c for x, c in zip((3, 4), chance, strict=True))
        z = np.linspace(-12, 15, 27_001)
        density = [np.exp(-((z - x) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi)) for x in (0, 1)]
        excess = np.maximum(np.outer(p, density[0]) - math.exp(epsilon) * np.outer(q, density[1]), 0)
        total += float(excess.sum() * (z[1] - z[0]))
    assert divergence(taken, counts, change, epsilon) == pytest.approx(total, rel=1e-4)


def test_gaussian_noise_that_does_not_move_tells_nothing() -> None:
    assert gaussian_excess(np.array([0.5, 0.0, -math.log(2)]), 0.0).tolist() == pytest.approx([0, 0, 0.5])


def test_the_loss_of_a_path_is_the_worst_transcript() -> None:
    """Two noisy sums and a comparison, one unit in both timestamps: by hand."""
    both, last = counts_of(0, 1, 2, 1), counts_of(1, 1, 2, 1)
    path = Path((Added(both, 4.0, gaussian=False), Added(last, 2.0, gaussian=False)), (), 0)
    forth, back = pure_losses(path, np.array([[2], [3]]), np.array([[[1], [1]], [[1], [-1]]]))
    assert forth.tolist() == back.tolist() == [2 / 4 + 1 / 2, 0 + 1 / 2]


@pytest.mark.parametrize(("w", "windows"), [(1, 3), (2, 2), (None, 1)])
def test_neighbours_lie_in_one_window_and_are_all_there(w: int | None, windows: int) -> None:
    changes = neighbours(reachable(Guarantee(1, w=w), 3), 3, 1, 1, Dice(1))
    width = w or 3
    inside = {tuple(np.flatnonzero(change.any(axis=1))) for change in changes}
    assert all(not where or where[-1] - where[0] < width for where in inside)
    every = set(product((-1, 0, 1), repeat=width))
    for first in range(windows):
        assert {tuple(change[first : first + width, 0]) for change in changes} == every
    assert {tuple(move) for move in moves(2, 1)} == {(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)}


def test_an_audit_says_what_it_attacked() -> None:
    found = attack_programs(30, SEED)
    assert "30 programs" in str(found)
    assert "pass" in str(found)
    assert "Laplace answers" in str(found)
    wrong = attack_programs(1, SEED, first=94, parts_of=parts_by_position)
    found.add(wrong)
    assert found.programs == 31
    assert "FAIL: program 94 (parts of rows" in str(found)


def test_programs_shared_among_processes_are_the_same_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SHARE", 4)
    alone, shared = attack_programs(10, SEED), attack_in_parallel(10, SEED, workers=2)
    assert (alone.programs, alone.attacked, alone.largest) == (shared.programs, shared.attacked, shared.largest)
