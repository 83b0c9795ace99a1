"""Every figure of the papers, run again under the corrected guarantees."""

from veilstream.experiments.catalogue import PAPERS, chosen
from veilstream.experiments.figure import Drawing, Figure, Finding, Paper, Scale, Setting, Verdict
from veilstream.experiments.reproduce import reproduce

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
