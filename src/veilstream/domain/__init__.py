"""What is public before any data are read: the bins of the attributes and the steps of the calendar."""

from veilstream.domain.axes import Axis, Categories, Edges, Grid
from veilstream.domain.calendar import MISSING, OUTSIDE, Calendar
from veilstream.domain.product import MAX_BINS, Domain
from veilstream.domain.ranges import RangeQuery

__all__ = [
    "MAX_BINS",
    "MISSING",
    "OUTSIDE",
    "Axis",
    "Calendar",
    "Categories",
    "Domain",
    "Edges",
    "Grid",
    "RangeQuery",
]
