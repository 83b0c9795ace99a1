"""Attacks on privacy claims: lower bounds on epsilon from runs of real mechanisms on neighbouring streams."""

from veilstream.audit.bounds import Bound, Event, choose_event, lower_bound
from veilstream.audit.events import EVENTS

__all__ = ["EVENTS", "Bound", "Event", "choose_event", "lower_bound"]
