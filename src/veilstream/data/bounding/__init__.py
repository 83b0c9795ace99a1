"""Bound what one person contributes to a step, and count."""

from veilstream.data.bounding.bounded import Bounded, bound

__all__ = ["Bounded", "bound"]
