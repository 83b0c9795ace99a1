"""Stream mechanisms: each publishes a vector at every timestamp within one guarantee."""

from typing import Any, Final

from veilstream.mechanism import StreamMechanism
from veilstream.streams.fast import Fast
from veilstream.streams.fixed_rate import FixedRate
from veilstream.streams.sample import Sample
from veilstream.streams.uniform import Uniform

STREAMS: Final[dict[str, type[StreamMechanism[Any]]]] = {
    "uniform": Uniform,
    "sample": Sample,
    "fixed-rate": FixedRate,
    "fast": Fast,
}

__all__ = ["STREAMS", "Fast", "FixedRate", "Sample", "Uniform"]
