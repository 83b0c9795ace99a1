"""Private synthetic tables: a model of margins and dependence is published, rows are drawn from it."""

from veilstream.synthesis.choice import Choice
from veilstream.synthesis.copula import DPCopula
from veilstream.synthesis.domain import TableDomain
from veilstream.synthesis.fitting import TablePublisher, fit
from veilstream.synthesis.graph import MarginalGraph
from veilstream.synthesis.graph_model import GraphModel
from veilstream.synthesis.graph_stream import MarginalStream
from veilstream.synthesis.kendall import Kendall
from veilstream.synthesis.kinds import refreshed
from veilstream.synthesis.mle import BlockMLE
from veilstream.synthesis.model import CopulaModel
from veilstream.synthesis.over_time import fit_over_time
from veilstream.synthesis.rows import read_rows

__all__ = [
    "BlockMLE",
    "Choice",
    "CopulaModel",
    "DPCopula",
    "GraphModel",
    "Kendall",
    "MarginalGraph",
    "MarginalStream",
    "TableDomain",
    "TablePublisher",
    "fit",
    "fit_over_time",
    "read_rows",
    "refreshed",
]
