"""How a budget is best spread over time: offline for weights known beforehand, online for weights that arrive."""

from veilstream.mechanisms.allocation.errors_of_budget import ErrorFunction, GeometricError, PowerError
from veilstream.mechanisms.allocation.offline import optimal_schedule
from veilstream.mechanisms.allocation.online import OnlineRule, OnlineState
from veilstream.mechanisms.allocation.schedule import Schedule, largest_window_sum

__all__ = [
    "ErrorFunction",
    "GeometricError",
    "OnlineRule",
    "OnlineState",
    "PowerError",
    "Schedule",
    "largest_window_sum",
    "optimal_schedule",
]
