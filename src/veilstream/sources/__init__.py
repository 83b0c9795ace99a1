"""Where events and counts come from: files, frames, Arrow data and iterators of batches."""

from veilstream.sources.counts import read_counts
from veilstream.sources.encoding import Dropped, Policy
from veilstream.sources.events import Events, read_events

__all__ = ["Dropped", "Events", "Policy", "read_counts", "read_events"]
