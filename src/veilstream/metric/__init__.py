"""Privacy for points that move little: neighbouring sets in which one point moves by at most a public distance."""

from veilstream.metric.dynamic import cost_of_stay
from veilstream.metric.grid import GridRanges, HatGrid, best_grid, nodes
from veilstream.metric.guarantee import MetricGuarantee
from veilstream.metric.median import ChosenMedian, SmoothMedian
from veilstream.metric.release import PointMechanism, person_price, release_points, simulate_points
from veilstream.metric.sorted_points import SortedPoints, count_between
from veilstream.metric.space import Space
from veilstream.trusted.points import Metric

__all__ = [
    "ChosenMedian",
    "GridRanges",
    "HatGrid",
    "Metric",
    "MetricGuarantee",
    "PointMechanism",
    "SmoothMedian",
    "SortedPoints",
    "Space",
    "best_grid",
    "cost_of_stay",
    "count_between",
    "nodes",
    "person_price",
    "release_points",
    "simulate_points",
]
