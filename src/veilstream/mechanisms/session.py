"""The loop under every kind of release: an accountant, a source of noise, a state, and one step after the other.

Nothing here knows of ledgers. A simulation goes through its steps in memory; a publisher makes each one inside a
transaction (``veilstream.release.transacting``), which replays the recorded charges first.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilstream.mechanisms.protocols import StreamMechanism, accountant_for
from veilstream.privacy.accountant import Accountant
from veilstream.privacy.charge import Charge
from veilstream.privacy.guarantee import Guarantee
from veilstream.privacy.population_limit import ChargeLimit
from veilstream.privacy.snapshots import AccountantSnapshot
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter, NoiseSource
from veilstream.values.values import Values

S = TypeVar("S")
MakeMeter: TypeAlias = Callable[[Accountant, NoiseSource, int], Meter]


class Session:
    """An accountant, a source of noise, and the meter of the present step.

    >>> from veilstream.noise import SecureNoise
    >>> from veilstream.trusted.counts import seal
    >>> import numpy as np
    >>> session = Session(Accountant(Guarantee(1, w=2), bins=1), SecureNoise())
    >>> _ = session.at(0).laplace(seal(np.array([7]), 0), Fraction(1, 4), "publish")
    >>> session.spent, session.left
    (Fraction(1, 4), Fraction(3, 4))
    """

    def __init__(self, accountant: Accountant, noise: NoiseSource, make_meter: MakeMeter = Meter) -> None:
        self.accountant = accountant
        self._noise = noise
        self._make_meter = make_meter
        self._meter: Meter | None = None
        self._blocks = 0

    @property
    def charges(self) -> Sequence[Charge]:
        """What the present step was charged so far."""
        return self._meter.charges if self._meter is not None else ()

    @property
    def opened(self) -> list[int]:
        """The blocks of comparisons that the present step began."""
        return [block for block in _blocks(self.charges) if block > self._blocks]

    @property
    def spent(self) -> Fraction:
        """What the present step adds to the window that ends with it."""
        return newly_spent(self.charges, self.accountant.guarantee)

    @property
    def left(self) -> Fraction:
        """Epsilon left in the fullest window that includes the present step."""
        return self.accountant.nominal_left

    def at(self, t: int) -> Meter:
        """The meter of step ``t``, which is the present one from now on."""
        self._blocks = max([self._blocks, *_blocks(self.charges)])
        self._meter = None
        self._meter = self._make_meter(self.accountant, self._noise, t)
        return self._meter

    def limit(self, other: ChargeLimit | None) -> None:
        """Let something else than the guarantee refuse charges too."""
        self.accountant.limit(other)

    def snapshot(self) -> AccountantSnapshot:
        """What the accountant knows, the present step included."""
        return self.accountant.snapshot()

    def restore(self, known: AccountantSnapshot) -> None:
        """Begin with what an accountant of this stream knew, in place of the charges that it had counted."""
        self.accountant.restore(known)
        self._blocks = known.last_block

    def replay(self, t: int, charge: Charge) -> None:
        """Count what was charged at step ``t`` before, as a ledger recorded it."""
        self.accountant.replay_at(t, charge)
        self._blocks = max([self._blocks, *_blocks([charge])])


class StreamSession(Session, Generic[S]):
    """A session of a stream mechanism, with its state.

    >>> from veilstream.mechanisms.streams import Uniform
    >>> from veilstream.noise import SecureNoise
    >>> from veilstream.trusted.counts import seal
    >>> import numpy as np
    >>> session = StreamSession(Uniform(), Guarantee(1, w=4), 3, SecureNoise())
    >>> session.step(seal(np.array([5, 0, 9]), 0), 0).numbers.shape, session.spent
    ((3,), Fraction(1, 4))
    """

    def __init__(
        self,
        mechanism: StreamMechanism[S],
        guarantee: Guarantee,
        bins: int,
        noise: NoiseSource,
        make_meter: MakeMeter = Meter,
    ) -> None:
        super().__init__(accountant_for(mechanism, guarantee, bins), noise, make_meter)
        self._mechanism = mechanism
        self.state: S = mechanism.start(guarantee, bins)

    def step(self, now: Sealed, t: int) -> Values:
        """Publish ``now`` at step ``t`` and go on to the next state."""
        self.state, values = self._mechanism.step(self.state, now, self.at(t))
        return values


def newly_spent(charges: Sequence[Charge], guarantee: Guarantee) -> Fraction:
    """What charges of one step add to the present window in epsilon: Gaussian ones by their share of μ².

    Of a block that was open before, only what its cost rose by is new. Charges that name bins run in parallel: what
    counts is the bin that pays most.

    >>> from veilstream.privacy.charge import Span
    >>> import numpy as np
    >>> halves = [Charge(Fraction(1, 2), Span(0, 0), "part", bins=np.array([part])) for part in (0, 1)]
    >>> newly_spent(halves, Guarantee(1, w=1))
    Fraction(1, 2)
    """
    single = [charge for charge in charges if charge.block is None]
    spent = _fullest_bin(single, [charge.epsilon for charge in single])
    blocks: dict[int, list[Charge]] = {}
    for charge in charges:
        if charge.block is not None and charge.epsilon:
            blocks.setdefault(charge.block, []).append(charge)
    for same in blocks.values():
        spent += same[-1].epsilon - (same[0].epsilon if same[0].span.steps > 1 else 0)
    gaussian = [charge for charge in charges if charge.mu_squared]
    squared = _fullest_bin(gaussian, [charge.mu_squared for charge in gaussian])
    if squared:
        spent += (guarantee.epsilon - guarantee.pure) * squared / guarantee.mu_squared
    return spent


def _fullest_bin(charges: Sequence[Charge], amounts: Sequence[Fraction]) -> Fraction:
    """The sum of the amounts that concern all bins, and of those that name the bin where they add up to most."""
    everywhere = Fraction(0)
    named: list[tuple[Fraction, NDArray[np.int64]]] = []
    for charge, amount in zip(charges, amounts, strict=True):
        positions = charge.positions
        if positions is None:
            everywhere = everywhere + amount if everywhere else amount
        elif amount and positions.size:
            named.append((amount, positions))
    if len(named) < 2:
        return everywhere + sum((amount for amount, _ in named), Fraction(0))
    sums: dict[Fraction, NDArray[np.int64]] = {}
    bins = 1 + max(int(positions.max()) for _, positions in named)
    for amount, positions in named:
        sums[amount] = sums.get(amount, np.zeros(bins, dtype=np.int64)) + np.bincount(positions, minlength=bins)
    combinations: list[list[int]] = np.unique(np.stack(list(sums.values())), axis=1).T.tolist()
    return everywhere + max(sum(map(operator.mul, sums, times), Fraction(0)) for times in combinations)


def _blocks(charges: Iterable[Charge]) -> list[int]:
    return [charge.block for charge in charges if charge.block is not None]
