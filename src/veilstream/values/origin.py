"""Public facts about counts as they were sealed: which time they are of, and by which rule rows were counted."""

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

    ``time`` is None for counts without a calendar. The others are the rule by which rows were counted:
    ``presence_rule`` says in which steps people count, see ``Guarantee.presence_rule`` (None if in all), ``distinct``
    in how many steps one visit shows, ``measures`` what columns were measured and how sums were bounded (JSON; None for
    counts), and ``key`` is the id of the key that chose among a person's rows, where there was one.
    """

    time: StepTime | None = None
    presence_rule: str | None = None
    distinct: int = 1
    measures: str | None = None
    key: str | None = None


UNKNOWN = Origin()
"""Counts of a step that says nothing about itself."""
