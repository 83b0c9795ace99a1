"""Stream mechanisms: each publishes a vector at every timestamp within one guarantee."""

from typing import Any, Final

from veilstream.mechanism import StreamMechanism
from veilstream.streams.fixed_rate import FixedRate
from veilstream.streams.sample import Sample
from veilstream.streams.uniform import Uniform

STREAMS: Final[dict[str, type[StreamMechanism[Any]]]] = {
    "uniform": Uniform,
    "sample": Sample,
    "fixed-rate": FixedRate,
}

__all__ = ["STREAMS", "FixedRate", "Sample", "Uniform"]
