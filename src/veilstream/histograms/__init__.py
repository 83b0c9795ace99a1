"""One-time histograms: each publishes one vector for an exact epsilon and plugs into any stream mechanism."""

from typing import Final

from veilstream.histograms.barak import Barak
from veilstream.histograms.dpcube import DPCube
from veilstream.histograms.efpa import EFPA
from veilstream.histograms.filter_priority import FilterPriority
from veilstream.histograms.gaussian import Gaussian
from veilstream.histograms.geometric import Geometric
from veilstream.histograms.noise_first import NoiseFirst
from veilstream.histograms.p_hp import PHP
from veilstream.histograms.privelet import Privelet
from veilstream.histograms.psd import PSD
from veilstream.histograms.structure_first import StructureFirst
from veilstream.mechanism import HistogramMechanism

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
}

__all__ = [
    "EFPA",
    "HISTOGRAMS",
    "PHP",
    "PSD",
    "Barak",
    "DPCube",
    "FilterPriority",
    "Gaussian",
    "Geometric",
    "NoiseFirst",
    "Privelet",
    "StructureFirst",
]
