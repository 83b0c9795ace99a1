"""Sources of bits for tests: a seeded one, and one that plays back given words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class SeededBits:
    """Reproducible words."""

    def __init__(self, seed: int) -> None:
        # Tests need a seed, and the package has none to offer below the simulation module.
        self._generator = np.random.Generator(np.random.Philox(seed))  # noqa: TID251

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, count, dtype=np.uint64)


class ScriptedBits:
    """Plays back ``script`` word by word and fails when it is used up."""

    def __init__(self, script: list[int]) -> None:
        self.left = list(script)

    def words(self, count: int) -> NDArray[np.uint64]:
        assert count <= len(self.left), "the sampler asked for more words than the script holds"
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, dtype=np.uint64)
