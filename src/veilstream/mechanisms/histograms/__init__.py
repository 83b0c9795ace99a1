"""One-time histograms: each publishes one vector for an exact epsilon and plugs into any stream mechanism."""

from typing import Final

from veilstream.arguments import check_arguments_of
from veilstream.mechanisms.histograms.automatic import Auto
from veilstream.mechanisms.histograms.barak import Barak
from veilstream.mechanisms.histograms.dawa import DAWA
from veilstream.mechanisms.histograms.dpcube import DPCube
from veilstream.mechanisms.histograms.efpa import EFPA
from veilstream.mechanisms.histograms.filter_priority import FilterPriority
from veilstream.mechanisms.histograms.gaussian import Gaussian
from veilstream.mechanisms.histograms.geometric import Geometric
from veilstream.mechanisms.histograms.grids import AdaptiveGrid
from veilstream.mechanisms.histograms.haar import Haar
from veilstream.mechanisms.histograms.hb import HB
from veilstream.mechanisms.histograms.marginals import Marginals
from veilstream.mechanisms.histograms.matrix import Matrix
from veilstream.mechanisms.histograms.noise_first import NoiseFirst
from veilstream.mechanisms.histograms.p_hp import PHP
from veilstream.mechanisms.histograms.privelet import Privelet
from veilstream.mechanisms.histograms.psd import PSD
from veilstream.mechanisms.histograms.structure_first import StructureFirst
from veilstream.mechanisms.protocols import HistogramMechanism

HISTOGRAMS: Final[dict[str, type[HistogramMechanism]]] = {
    "geometric": Geometric,
    "gaussian": Gaussian,
    "efpa": EFPA,
    "p-hp": PHP,
    "privelet": Privelet,
    "noise-first": NoiseFirst,
    "structure-first": StructureFirst,
    "barak": Barak,
    "psd": PSD,
    "fp": FilterPriority,
    "dpcube": DPCube,
    "hb": HB,
    "matrix": Matrix,
    "marginals": Marginals,
    "dawa": DAWA,
    "ag": AdaptiveGrid,
    "haar": Haar,
    "auto": Auto,
}
check_arguments_of(HISTOGRAMS.values(), limited=True)

__all__ = [
    "DAWA",
    "EFPA",
    "HB",
    "HISTOGRAMS",
    "PHP",
    "PSD",
    "AdaptiveGrid",
    "Auto",
    "Barak",
    "DPCube",
    "FilterPriority",
    "Gaussian",
    "Geometric",
    "Haar",
    "Marginals",
    "Matrix",
    "NoiseFirst",
    "Privelet",
    "StructureFirst",
]
