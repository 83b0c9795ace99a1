"""Chapter 3 of the thesis: synthetic tables by copula functions."""

from research.copula.figures import COPULA_THESIS

__all__ = ["COPULA_THESIS"]
