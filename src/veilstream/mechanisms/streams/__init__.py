"""Stream mechanisms: each publishes a vector at every timestamp within one guarantee."""

from typing import Any, Final

from veilstream.arguments import check_arguments_of
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams.budget_absorption import BudgetAbsorption
from veilstream.mechanisms.streams.budget_distribution import BudgetDistribution
from veilstream.mechanisms.streams.by_distance import DSAT, DSFT
from veilstream.mechanisms.streams.fast import Fast
from veilstream.mechanisms.streams.fixed_rate import FixedRate
from veilstream.mechanisms.streams.model import ModelBased
from veilstream.mechanisms.streams.retroactive_grouping import RetroactiveGrouping
from veilstream.mechanisms.streams.running import MovingSum, RunningTotal
from veilstream.mechanisms.streams.sample import Sample
from veilstream.mechanisms.streams.scheduled import Scheduled
from veilstream.mechanisms.streams.sliding_window import SlidingWindow
from veilstream.mechanisms.streams.time_unit import TimeUnit
from veilstream.mechanisms.streams.uniform import Uniform

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
    "model": ModelBased,
    "running-total": RunningTotal,
    "moving-sum": MovingSum,
}
check_arguments_of(STREAMS.values(), limited=True)

__all__ = [
    "DSAT",
    "DSFT",
    "STREAMS",
    "BudgetAbsorption",
    "BudgetDistribution",
    "Fast",
    "FixedRate",
    "ModelBased",
    "MovingSum",
    "RetroactiveGrouping",
    "RunningTotal",
    "Sample",
    "Scheduled",
    "SlidingWindow",
    "TimeUnit",
    "Uniform",
]
