"""Stream mechanisms: each publishes a vector at every timestamp within one guarantee."""

from typing import Any, Final

from veilstream.mechanism import StreamMechanism
from veilstream.streams.budget_absorption import BudgetAbsorption
from veilstream.streams.budget_distribution import BudgetDistribution
from veilstream.streams.dsat import DSAT
from veilstream.streams.dsft import DSFT
from veilstream.streams.fast import Fast
from veilstream.streams.fixed_rate import FixedRate
from veilstream.streams.retroactive_grouping import RetroactiveGrouping
from veilstream.streams.sample import Sample
from veilstream.streams.scheduled import Scheduled
from veilstream.streams.sliding_window import SlidingWindow
from veilstream.streams.time_unit import TimeUnit
from veilstream.streams.uniform import Uniform

STREAMS: Final[dict[str, type[StreamMechanism[Any]]]] = {
    "uniform": Uniform,
    "sample": Sample,
    "fixed-rate": FixedRate,
    "fast": Fast,
    "budget-distribution": BudgetDistribution,
    "budget-absorption": BudgetAbsorption,
    "dsft": DSFT,
    "dsat": DSAT,
    "time-unit": TimeUnit,
    "sliding-window": SlidingWindow,
    "retroactive-grouping": RetroactiveGrouping,
    "scheduled": Scheduled,
}

__all__ = [
    "DSAT",
    "DSFT",
    "STREAMS",
    "BudgetAbsorption",
    "BudgetDistribution",
    "Fast",
    "FixedRate",
    "RetroactiveGrouping",
    "Sample",
    "Scheduled",
    "SlidingWindow",
    "TimeUnit",
    "Uniform",
]
