"""How a budget is best spread over time: offline for weights known beforehand, online for weights that arrive."""

from veilstream.allocation.errors_of_budget import ErrorFunction, GeometricError, PowerError
from veilstream.allocation.offline import optimal_schedule
from veilstream.allocation.online import OnlineRule, OnlineState
from veilstream.allocation.schedule import Schedule, fullest_window

__all__ = [
    "ErrorFunction",
    "GeometricError",
    "OnlineRule",
    "OnlineState",
    "PowerError",
    "Schedule",
    "fullest_window",
    "optimal_schedule",
]
