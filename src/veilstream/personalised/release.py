"""One release of counts on a ledger: asked again, it is given again and costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from veilstream.mechanisms.identity import describe, recognises
from veilstream.personalised.counts import CountMechanism
from veilstream.personalised.people import PeopleCounts
from veilstream.personalised.recorded import LedgerAccounts
from veilstream.values.values import Values


@dataclass(frozen=True, slots=True, eq=False)
class CountRelease:
    """Estimates for everybody, what people of each level were charged for them, and the number of the commit."""

    values: Values
    charged: list[Fraction]
    seq: int


def release_counts(x: PeopleCounts, mechanism: CountMechanism, accounts: LedgerAccounts, of: str = "") -> CountRelease:
    """Publish ``x`` once by any mechanism for counts, with noise from the secure source.

    People are charged on their own accounts, whatever the mechanism: groups what the group costs, *Stretching* and
    *Sampling* everybody their own, T rounds the sum. The question is the mechanism with its parameters, the timestamp,
    the number of bins and ``of`` (say, a domain's fingerprint); another one is charged on top, and refused where
    anybody could not pay.

    >>> import numpy as np
    >>> from veilstream.personalised import Minimum, Partitioned, Roster, count_levels
    >>> roster = Roster.of_budgets(["1/8"] * 50 + ["1"] * 950)
    >>> x = count_levels(roster, np.repeat([0, 1], [50, 950]), np.arange(1000) % 2, bins=2)
    >>> with LedgerAccounts(roster) as accounts:
    ...     rounds = release_counts(x, Partitioned(by="waste", k=1, number=2), accounts)
    ...     print([str(paid) for paid in rounds.charged], [str(left) for left in accounts.left()])
    ['1/8', '1'] ['0', '0']
    """
    data = f" of {x.bins} bins at t={x.table.span.last}{of and f' of {of}'}"
    answer = accounts.release(
        describe(mechanism) + data,
        lambda meter: mechanism.estimate(x, meter),
        lambda asked: asked.endswith(data) and recognises(asked.removesuffix(data), mechanism),
    )
    return CountRelease(answer.values, answer.charged, answer.release.seq)
