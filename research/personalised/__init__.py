"""Chapter 5 of the thesis: everybody their own epsilon."""

from research.personalised.figures import PERSONALISED_PAPER

__all__ = ["PERSONALISED_PAPER"]
