"""The only door from sealed counts to numbers: it charges first and draws afterwards."""

from veilstream.trusted.meter.blocks import BlockAnswers
from veilstream.trusted.meter.choosing import ChoosingAnswers
from veilstream.trusted.meter.gaussian import GaussianAnswers
from veilstream.trusted.meter.laplace import LaplaceAnswers
from veilstream.trusted.meter.questions import MAX_SCALE, NoiseSource

__all__ = ["MAX_SCALE", "Meter", "NoiseSource"]


class Meter(LaplaceAnswers, GaussianAnswers, ChoosingAnswers, BlockAnswers):
    """Answers questions about sealed data, each for a charge that says what it bought.

    A unit moves a vector with ``l1`` per timestamp by at most min(w, steps of its span) · l1: that is the
    sensitivity to which noise is scaled, and the charge then counts in every window which the span touches. Where the
    stream pays per timestamp, all of this holds with the share of one timestamp in the place of the guarantee.
    PROOF.md has the theorems. What a method raises carries no frame that holds exact data.
    """
