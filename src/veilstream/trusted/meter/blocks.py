"""Answers that share one secret over a block of steps: rows of noise, and thresholds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Final

from veilstream.errors import InvalidInputError
from veilstream.noise.spread import bounded_scale
from veilstream.privacy.charge import Charge, Span
from veilstream.trusted.block_noise import NoiseBlock, block_variance, drawn_rows
from veilstream.trusted.counts import Sealed
from veilstream.trusted.frames import hide_frames
from veilstream.trusted.grids import coarser, finer
from veilstream.trusted.meter.questions import Questions
from veilstream.trusted.opening import open_counts, opened
from veilstream.trusted.threshold import THRESHOLD_GRID, SealedThreshold
from veilstream.values.values import Values

HIGHEST_LEVEL: Final = 1 << 53
"""No distance between two histograms is larger."""


class BlockAnswers(Questions):
    """Looks and comparisons that go on with what was drawn when their block was opened."""

    @hide_frames
    def block_laplace(
        self, x: Sealed, epsilon: Fraction, length: int, purpose: str, block: NoiseBlock | None = None
    ) -> tuple[Values, NoiseBlock]:
        """``x`` plus the next row of a block of ``length`` rows of noise, charged once to every window that touches it.

        Without ``block`` a new one is drawn, with P(z) ∝ e^(−ε·max ‖z_t‖₁/l1): a unit that moves every one of its rows
        by l1 changes that by e^ε at most, in however many of them it is. No row is added to two vectors, whose
        difference would be exact: a block of which other looks are on record is refused (see ``is_open``). PROOF.md,
        "Noise over a block of steps", has the theorem.
        """
        if x.span.steps != 1 or x.grid or x.bins is not None:
            raise InvalidInputError(name="look for", value=purpose, limit="whole counts of one step are needed")
        if block is None:
            self._positive(epsilon, purpose)
            number = self._accountant.new_block()
            self._admit([Charge(epsilon, Span(self.t, self.t), purpose, block=number)])
            rows = drawn_rows(self._noise, epsilon / x.l1, length, x.size, self._draw_shape(0)[:-1], purpose)
            block = NoiseBlock(rows, number, self.t, epsilon, x.l1, purpose)
        elif not BlockAnswers.is_open(self, block):  # not a question of the mechanism's, which a subclass may record
            raise InvalidInputError(
                name="look for",
                value=purpose,
                limit="the block was closed, or rows of it were used by another look; open another",
            )
        if block.left < 1 or block.size != x.size or x.l1 > block.max_contribution or x.span.first < block.opened:
            raise InvalidInputError(name="look for", value=purpose, limit=f"it does not fit to {block!r}")
        self._admit([charge for charge in block.charges(self.t) if charge not in self.charges])
        self._rows_used.add((block.block, block.used))
        std = math.sqrt(block_variance(block.length, block.size, float(block.epsilon / block.max_contribution)))
        return Values(open_counts(x) + opened(block)[..., block.used, :], std), block.after_look(self.t)

    @hide_frames
    def open_threshold(
        self, epsilon_rho: Fraction, epsilon_nu: Fraction, sensitivity: Fraction, purpose: str
    ) -> SealedThreshold:
        """Draw the secret noise of a sparse-vector block for queries of at most ``sensitivity``.

        Opening charges ``epsilon_rho``, and every positive answer ``epsilon_nu`` more, to each window that any
        comparison of the block reads, be it before or after the positive: a unit there can move ρ, and then all of the
        block's positives make good for it. A positive charges ``epsilon_nu`` once more for what it reads itself.
        Negative answers are free. A block with c positives: epsilon_rho + 2c·epsilon_nu. See PROOF.md, "Sparse vector".
        """
        for amount in (epsilon_rho, epsilon_nu):
            self._positive(amount, purpose)
        unit = sensitivity * (1 << THRESHOLD_GRID)
        bounded_scale(unit / epsilon_nu, purpose)
        scale = bounded_scale(unit / epsilon_rho, purpose)
        block = self._accountant.new_block()
        self._admit([Charge(epsilon_rho, Span(self.t, self.t), purpose, block=block)])
        rho = self._noise.laplace(scale, self._draw_shape(1))
        return SealedThreshold(rho, block, self.t, sensitivity, epsilon_rho, epsilon_nu, purpose)

    @hide_frames
    def above(self, threshold: SealedThreshold, x: Sealed, level: float) -> bool:
        """Whether x + ν ≥ level + ρ, for a one-number ``x`` and a public ``level``.

        A finer ``x`` is rounded down to the grid of thresholds: numbers that are at most D apart are so after it as
        well if D is on that grid, to which it is rounded up here.
        """
        moved = self._sensitivity(x.span, x.l1)
        if x.grid > THRESHOLD_GRID:
            moved = Fraction(math.ceil(moved * (1 << THRESHOLD_GRID)), 1 << THRESHOLD_GRID)
        if x.size != 1 or moved > threshold.sensitivity:
            raise InvalidInputError(
                name="comparison for",
                value=threshold.purpose,
                limit=f"{x.size} values of sensitivity {moved}, where one value of at most {threshold.sensitivity} is "
                "needed",
            )
        block = self._accountant.open_block(threshold.block)
        if block is None:
            raise InvalidInputError(
                name="comparison for",
                value=threshold.purpose,
                limit="the block was closed; open another threshold (see Meter.is_open)",
            )
        purpose, nu = threshold.purpose, threshold.epsilon_nu
        read = self._until_now(x.span)
        # At event level a block that was not compared for some time has not read what lay between.
        span = read if self.guarantee.w == 1 else Span(min(block.first, read.first), self.t)
        grown = Charge(block.amount, span, purpose, block=threshold.block)
        everywhere = Span(min(block.first, read.first), self.t)
        own = Charge(nu, read, purpose)
        self._admit([] if grown in self.charges else [grown], tentative=[Charge(nu, everywhere, purpose), own])
        scale = bounded_scale(threshold.sensitivity * (1 << THRESHOLD_GRID) / nu, purpose)
        noise = self._noise.laplace(scale, self._draw_shape(1))
        value = coarser(finer(open_counts(x), THRESHOLD_GRID - x.grid), x.grid - THRESHOLD_GRID) + noise
        # The proof holds for every public level; one above all counts that there can be need not fit either.
        public = round(min(level, HIGHEST_LEVEL) * (1 << THRESHOLD_GRID))
        answer = bool(self.branch((value >= public + opened(threshold))[..., 0]))
        if answer:
            self._admit([replace(grown, epsilon=block.amount + nu), own])
        return answer

    def is_open(self, block: SealedThreshold | NoiseBlock) -> bool:
        """Whether a block can still be asked, by the charges on record: a public fact.

        A step that failed keeps its charges, and so the end of blocks that it closed and the rows of noise that it
        used, though not the mechanism's state.
        """
        known = self._accountant.open_block(block.block)
        if known is None or isinstance(block, SealedThreshold):
            return known is not None
        return known.last == block.looked and (block.block, block.used) not in self._rows_used

    def close(self, threshold: SealedThreshold) -> None:
        """The block will not be compared with any more; what it cost stays."""
        block = Span(threshold.opened, self.t)
        self._admit([Charge(Fraction(0), block, threshold.purpose, block=threshold.block)])
