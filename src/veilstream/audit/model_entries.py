"""Claims of the model-based release and of the block noise that it draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final

from veilstream.audit.attack import Claim, stream_claim
from veilstream.audit.pairs import Pair, border_burst, constant, every_bin, moving, one_event
from veilstream.mechanisms.streams import ModelBased
from veilstream.privacy.guarantee import Guarantee
from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.counts import Sealed
from veilstream.trusted.meter import Meter
from veilstream.values.values import Values

USER: Final = Guarantee(1, w=None)
BLOCK_OF_TWO: Final = Fraction(1, 2)
"""A window of two steps touches two blocks of two steps."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockState:
    block: NoiseBlock | None = None


@dataclass(frozen=True, slots=True)
class Blocks:
    """Publishes looks in blocks of ``length`` as they are, each block for ``epsilon``: block noise and nothing else."""

    length: int
    epsilon: Fraction
    oblivious: ClassVar[bool] = True

    def start(self, guarantee: Guarantee, bins: int) -> BlockState:
        return BlockState()

    def step(self, state: BlockState, now: Sealed, meter: Meter) -> tuple[BlockState, Values]:
        block = state.block if state.block is not None and state.block.left else None
        values, block = meter.block_laplace(now, self.epsilon, self.length, "look", block)
        return BlockState(block), values


def model() -> list[Claim]:
    """Single looks, Gaussian looks, looks in blocks, and the blocks alone."""
    cases: list[tuple[str, ModelBased | Blocks, Guarantee, Pair]] = [
        ("", ModelBased(), Guarantee(1, w=1), one_event(3)),
        ("", ModelBased(), Guarantee(1, w=3), border_burst(3)),
        ("", ModelBased(), Guarantee(1, w=3), every_bin(3)),
        ("", ModelBased(), Guarantee(1, w=3), moving(3)),
        (" (Gaussian)", ModelBased(), Guarantee(1, w=60, delta="1e-3"), constant(60, steps=3)),
        (" (blocks)", ModelBased(horizon=4), USER, constant(None)),
        (" (blocks alone)", Blocks(4, Fraction(1)), USER, constant(None)),
        (" (blocks alone)", Blocks(3, Fraction(1)), USER, moving(None, steps=3)),
        (" (blocks alone)", Blocks(2, BLOCK_OF_TWO), Guarantee(1, w=2), border_burst(2, steps=4)),
        (" (blocks alone)", Blocks(2, BLOCK_OF_TWO), Guarantee(1, w=2), every_bin(2, steps=2, bins=2)),
    ]
    return [
        stream_claim(mechanism, guarantee, pair, name=f"{pair.name}{variant}, {guarantee}", quick=20_000)
        for variant, mechanism, guarantee, pair in cases
    ]


MODEL_CLAIMS: Final[dict[str, Callable[[], list[Claim]]]] = {"model": model}
"""Name in ``STREAMS`` -> its claims."""
