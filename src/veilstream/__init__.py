"""Keep publishing statistics about people from a changing dataset, under differential privacy.

>>> import numpy as np, veilstream as vs
>>> publisher = vs.Publisher(
...     bins=4, guarantee=vs.Guarantee(epsilon="1", w=24), mechanism=vs.STREAMS["uniform"]()
... )
>>> release = publisher.feed(np.array([310, 275, 12, 0]), t=0)
>>> low, high = release.interval(0.95)
>>> release.spent, bool((low < release.values).all())
(Fraction(1, 24), True)
"""

from veilstream import noise
from veilstream.data import Domain
from veilstream.errors import VeilstreamError
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS
from veilstream.privacy.charge import Charge, Span
from veilstream.privacy.guarantee import Guarantee
from veilstream.release.publisher import Publisher
from veilstream.storage.ledger import Ledger
from veilstream.testing.simulation import simulate, simulate_many
from veilstream.values.release import Release
from veilstream.values.values import Values

__all__ = [
    "HISTOGRAMS",
    "STREAMS",
    "Charge",
    "Domain",
    "Guarantee",
    "Ledger",
    "Publisher",
    "Release",
    "Span",
    "Values",
    "VeilstreamError",
    "noise",
    "simulate",
    "simulate_many",
]
