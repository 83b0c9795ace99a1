"""Bound what one person contributes to a step, and in how many steps, and count."""

from veilstream.data.bounding.bounded import Bounded, bound
from veilstream.data.bounding.presence import PresenceHistory
from veilstream.data.bounding.presence_store import load_history, store_history

__all__ = ["Bounded", "PresenceHistory", "bound", "load_history", "store_history"]
