"""One-time histograms: each publishes one vector for an exact epsilon and plugs into any stream mechanism."""

from typing import Final

from veilstream.histograms.gaussian import Gaussian
from veilstream.histograms.geometric import Geometric
from veilstream.mechanism import HistogramMechanism

HISTOGRAMS: Final[dict[str, type[HistogramMechanism]]] = {
    "geometric": Geometric,
    "gaussian": Gaussian,
}

__all__ = ["HISTOGRAMS", "Gaussian", "Geometric"]
