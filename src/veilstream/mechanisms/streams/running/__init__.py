"""Running totals: what happened so far, at every step."""

from veilstream.mechanisms.streams.running.moving import MovingSum
from veilstream.mechanisms.streams.running.total import RunningTotal

__all__ = ["MovingSum", "RunningTotal"]
