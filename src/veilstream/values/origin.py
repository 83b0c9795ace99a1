"""Public facts about counts as they were sealed: which time they are of, and in which steps people count in them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTime:
    """The public time of one step: when it begins, how long steps are, and in which zone."""

    begins: str
    every: str
    zone: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the counts of one step come from; a publisher refuses counts that do not belong to its stream.

    ``time`` is None for counts without a calendar. ``presence_rule`` says in which steps people count, see
    ``Guarantee.presence_rule``; None if in all.
    """

    time: StepTime | None = None
    presence_rule: str | None = None


UNKNOWN = Origin()
"""Counts of a step that says nothing about itself."""
