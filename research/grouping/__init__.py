"""The paper on retroactive grouping: histograms of sliding windows over an endless stream."""

from research.grouping.figures import GROUPING_PAPER

__all__ = ["GROUPING_PAPER"]
