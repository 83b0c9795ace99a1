"""MST and AIM of dpmm, the maintained package of private-pgm's mechanisms, as peers for synthetic tables.

dpmm pins versions that do not go together with ours: it lives in an environment of its own (`pip install dpmm` there),
and DPMM_PYTHON names the Python of that environment, in which this very file runs as a script. Both mechanisms
promise (ε, δ) with δ = 1e-9. Rows are drawn by the unbiased sampler: the default rounding invents dependence between
sibling columns.

McKenna, Miklau, Sheldon: Winning the NIST contest, 2021; McKenna, Mullins, Sheldon, Miklau: AIM, VLDB 2022.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from research.tables.methods import Answers
    from research.tables.sources import CodedTable

PYTHON: Final = os.environ.get("DPMM_PYTHON", "")
KEPT: Final = os.environ.get("DPMM_DRAWN", "")
"""A directory in which rows that the peers drew are kept."""
ONLY_KEPT: Final = bool(os.environ.get("DPMM_ONLY_KEPT", ""))
"""Whether peers whose rows are not kept are left out instead of fitted."""
DELTA: Final = 1e-9
FITTINGS: Final = 1000
"""Steps of the last fit of a model, as in AIM's own code; MST's own makes 10000."""
FITTINGS_FIRST: Final = 300
"""Steps of MST's fit of single margins, before it chooses pairs; its own code makes 2500."""
FITTINGS_BETWEEN: Final = 50
"""Steps of a fit between two of AIM's rounds, each beginning where the one before ended; its own code makes 1000."""
MEGABYTES: Final = 4.0
"""Largest model of AIM; its authors use 80 and many hours."""
COARSE: Final = 32
"""Values to which larger domains are gathered, as AIM's authors do with numbers."""
TABLE, DRAWN = "table.npz", "drawn.npy"


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Drawn rows, the processor seconds that fitting and drawing took, and the peak memory of the process (NaN: not
    measured)."""

    codes: NDArray[np.int64]
    seconds: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class GraphicalModel:
    """One of the two mechanisms; with ``coarse``, attributes are first gathered into that many public ranges."""

    name: str
    coarse: int | None = None

    def release(self, table: CodedTable, epsilon: Fraction, seed: int) -> Answers:
        from research.tables.sources import rows_in

        drawn = self.draw(table, epsilon, seed)
        return lambda ranges: rows_in(list(drawn.T), ranges) * (len(table.codes) / len(drawn))

    def draw(self, table: CodedTable, epsilon: Fraction, seed: int) -> NDArray[np.int64]:
        """As many rows as the table has."""
        widths = [-(-size // self.coarse) if self.coarse else 1 for size in table.shape]
        shape = [-(-size // width) for size, width in zip(table.shape, widths, strict=True)]
        with tempfile.TemporaryDirectory() as place:
            np.savez(Path(place) / TABLE, codes=table.codes // np.array(widths), shape=shape)
            command = [PYTHON, __file__, self.name, place, str(float(epsilon)), str(seed)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            coarse: NDArray[np.int64] = np.load(Path(place) / DRAWN)
        rng = np.random.default_rng(seed)  # noqa: TID251 (a peer, not a release)
        inside = (rng.random(coarse.shape) * widths).astype(np.int64)
        return np.asarray(np.minimum(coarse * np.array(widths) + inside, np.array(table.shape) - 1), dtype=np.int64)


def may_draw(model: GraphicalModel, epsilon: Fraction, seed: int, key: str) -> bool:
    """Whether rows are kept already, or peers may be fitted now."""
    return not ONLY_KEPT or _kept(model, epsilon, seed, key).exists()


def _kept(model: GraphicalModel, epsilon: Fraction, seed: int, key: str) -> Path:
    return Path(KEPT) / f"{key}-{model.name}-{epsilon.numerator}_{epsilon.denominator}-{seed}.npz"


def kept_draw(model: GraphicalModel, table: CodedTable, epsilon: Fraction, seed: int, key: str) -> Drawn:
    """Rows of a peer, from DPMM_DRAWN if they were drawn in a run that was broken off: a fit may take many minutes."""
    path = _kept(model, epsilon, seed, key)
    if KEPT and path.exists():
        stored = np.load(path)
        return Drawn(np.asarray(stored["codes"], dtype=np.int64), float(stored["seconds"]), float(stored["megabytes"]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    codes = model.draw(table, epsilon, seed)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    drawn = Drawn(codes, seconds, after.ru_maxrss / 1024)
    if KEPT:
        np.savez(path, codes=codes, seconds=drawn.seconds, megabytes=drawn.megabytes)
    return drawn


def _draw(name: str, place: Path, epsilon: float, seed: int) -> None:
    """Fits and samples with dpmm; runs in its environment."""
    warnings.simplefilter("ignore")
    pandas: Any = import_module("pandas")
    mbi: Any = import_module("dpmm.models.base.mbi")
    stored = np.load(place / TABLE)
    names = [f"x{i}" for i in range(len(stored["shape"]))]
    domain = {name: int(size) for name, size in zip(names, stored["shape"], strict=True)}
    frame = pandas.DataFrame(stored["codes"], columns=names)
    state = np.random.RandomState(seed)  # noqa: TID251 (what the package takes)
    common = {"epsilon": epsilon, "delta": DELTA, "domain": domain, "random_state": state, "n_jobs": 1}
    if name == "MST":
        mst: Any = import_module("dpmm.models.mst")
        # The fit before the choice of pairs takes no number of steps from outside.
        mst.FactoredInference = lambda domain, iters: mbi.FactoredInference(domain, iters=min(iters, FITTINGS_FIRST))
        model = mst.MSTGM(**common, n_iters=FITTINGS)
    else:
        aim: Any = import_module("dpmm.models.aim").AIMGM
        model = aim(**common, n_iters=FITTINGS_BETWEEN, max_model_size=MEGABYTES, max_cells=10**7)
    model.fit(frame, marginals_only=True)
    made = model.generator
    smaller = made.compressor.transform(mbi.Dataset(frame, mbi.Domain(names, [domain[name] for name in names])))
    fitted = mbi.FactoredInference(domain=smaller.domain, iters=FITTINGS, prng=state).estimate(made.measures)
    drawn = made.compressor.reverse(fitted.synthetic_data(rows=len(frame), method="sample"))
    np.save(place / DRAWN, drawn.df[names].to_numpy())


if __name__ == "__main__":
    _draw(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
