"""Attacks on privacy claims: lower bounds on epsilon from runs of real mechanisms on neighbouring streams."""

from veilstream.audit.attack import AttackResult, Claim, attack, stream_claim
from veilstream.audit.bounds import Bound, Event, choose_event, lower_bound
from veilstream.audit.events import EVENTS
from veilstream.audit.pairs import Pair

__all__ = [
    "EVENTS",
    "AttackResult",
    "Bound",
    "Claim",
    "Event",
    "Pair",
    "attack",
    "choose_event",
    "lower_bound",
    "stream_claim",
]
