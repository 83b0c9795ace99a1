"""The open block of a sparse vector: a secret noise with which many numbers are compared."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from veilstream.trusted.opening import opened
from veilstream.trusted.sealed import Opaque

THRESHOLD_GRID: Final = 8
"""Comparisons are made on multiples of 2⁻⁸."""


class SealedThreshold(Opaque[NDArray[np.int64]]):
    """An open sparse-vector block: a secret noise ρ that is compared with again and again.

    All but ρ is public. Close it with ``Meter.close`` when it will not be used any more.
    """

    __slots__ = ("block", "epsilon_nu", "epsilon_rho", "opened", "purpose", "sensitivity")
    contents: ClassVar[str] = "noise"

    def __init__(
        self,
        rho: NDArray[np.int64],
        block: int,
        opened: int,
        sensitivity: Fraction,
        epsilon_rho: Fraction,
        epsilon_nu: Fraction,
        purpose: str,
    ) -> None:
        super().__init__(rho)
        self.block = block
        self.opened = opened
        self.sensitivity = sensitivity
        self.epsilon_rho = epsilon_rho
        self.epsilon_nu = epsilon_nu
        self.purpose = purpose

    def of_runs(self, runs: NDArray[np.int64]) -> SealedThreshold:
        """The same block for some of many simulated runs, each of which has a ρ of its own."""
        return SealedThreshold(
            opened(self)[runs],
            self.block,
            self.opened,
            self.sensitivity,
            self.epsilon_rho,
            self.epsilon_nu,
            self.purpose,
        )

    def __repr__(self) -> str:
        return (
            f"SealedThreshold(block={self.block}, opened={self.opened}, sensitivity={self.sensitivity}, "
            f"epsilon_rho={self.epsilon_rho}, epsilon_nu={self.epsilon_nu}, purpose={self.purpose!r})"
        )
