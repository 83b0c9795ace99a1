"""Where data come from and what is public about them: domain, calendar, readers, and bounding of contributions."""

from veilstream.data.axes import Axis, Categories, Edges, Grid
from veilstream.data.calendar import MISSING, OUTSIDE, Calendar
from veilstream.data.counts import read_counts
from veilstream.data.domain import MAX_BINS, Domain
from veilstream.data.encoding import Dropped, Policy
from veilstream.data.events import Events, read_events
from veilstream.data.ranges import RangeQuery
from veilstream.data.read_options import ReadOptions

__all__ = [
    "MAX_BINS",
    "MISSING",
    "OUTSIDE",
    "Axis",
    "Calendar",
    "Categories",
    "Domain",
    "Dropped",
    "Edges",
    "Events",
    "Grid",
    "Policy",
    "RangeQuery",
    "ReadOptions",
    "read_counts",
    "read_events",
]
