"""``mechanism="auto"``: the mechanism that public facts speak for."""

from __future__ import annotations

from typing import Any

from veilstream.errors import InvalidInputError
from veilstream.evaluate.advise import Facts, best, mechanism_choices
from veilstream.evaluate.compare import candidates
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.privacy.guarantee import Guarantee

AUTO = "auto"


def automatic_mechanism(
    guarantee: Guarantee, bins: int, steps: int, max_contribution: int, expected_count: float | None
) -> StreamMechanism[Any]:
    """The mechanism with the least error on a synthetic stream of the expected size; nothing private is read.

    The same facts give the same mechanism, so that a stream goes on with the one that it began with.

    >>> automatic_mechanism(Guarantee(1, w=1), bins=6, steps=24, max_contribution=1, expected_count=500)
    Uniform(histogram=Geometric(), horizon=None)
    """
    if expected_count is None:
        raise InvalidInputError(
            name="expected_count",
            limit="missing; mechanism 'auto' chooses by public facts, and how many people a bin holds is one of them",
            outcome="nothing was read",
            next_step="give --expected-count with a public guess, or name a mechanism ('veilstream advise' helps)",
        )
    facts = Facts(
        count=expected_count,
        bins=bins,
        w=guarantee.w,
        steps=steps if guarantee.w is None else None,
        per_person=max_contribution,
    )
    chosen = best(mechanism_choices(facts, guarantee.epsilon))
    return candidates([guarantee], steps, bins)[chosen.mechanism]
