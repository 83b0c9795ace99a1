"""Every figure of the papers, run again under the corrected guarantees."""

from research.experiments.catalogue import PAPERS, chosen
from research.experiments.figure import Drawing, Figure, Finding, Paper, Scale, Setting, Verdict
from research.experiments.reproduce import reproduce

__all__ = [
    "PAPERS",
    "Drawing",
    "Figure",
    "Finding",
    "Paper",
    "Scale",
    "Setting",
    "Verdict",
    "chosen",
    "reproduce",
]
