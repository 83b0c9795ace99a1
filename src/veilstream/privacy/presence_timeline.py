"""The book for the sets of timestamps that one unit can reach where people count in few steps."""

from __future__ import annotations

from veilstream.privacy.presence import Anywhere, Rule
from veilstream.privacy.presence_base import PresenceTimeline
from veilstream.privacy.presence_lifelong import LifelongTimeline
from veilstream.privacy.presence_passing import PassingTimeline


def presence_timeline(rule: Rule) -> PresenceTimeline:
    """The book for the sets of timestamps of ``rule``."""
    return LifelongTimeline(rule) if isinstance(rule, Anywhere) else PassingTimeline(rule)
