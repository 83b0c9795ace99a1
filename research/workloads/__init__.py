"""Generated streams and tables for experiments, each the same for the same seed."""

from research.workloads.base import First, Workload, as_array
from research.workloads.census import Census
from research.workloads.dependence import Margin, dependent_table, random_correlation
from research.workloads.roads import MovingObjects, RoadNetwork
from research.workloads.taxi import TaxiGrid
from research.workloads.visits import StationVisits, WebRequests
from research.workloads.zipf import Zipf

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
