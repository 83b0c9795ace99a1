"""Generated streams and tables for experiments, each the same for the same seed."""

from veilstream.evaluate.workloads.base import First, Workload, as_array
from veilstream.evaluate.workloads.census import Census
from veilstream.evaluate.workloads.dependence import Margin, dependent_table, random_correlation
from veilstream.evaluate.workloads.roads import MovingObjects, RoadNetwork
from veilstream.evaluate.workloads.taxi import TaxiGrid
from veilstream.evaluate.workloads.visits import StationVisits, WebRequests
from veilstream.evaluate.workloads.zipf import Zipf

__all__ = [
    "Census",
    "First",
    "Margin",
    "MovingObjects",
    "RoadNetwork",
    "StationVisits",
    "TaxiGrid",
    "WebRequests",
    "Workload",
    "Zipf",
    "as_array",
    "dependent_table",
    "random_correlation",
]
