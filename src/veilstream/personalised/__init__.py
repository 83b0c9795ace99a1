"""Personalised privacy: every person their own epsilon, from a public roster.

>>> import numpy as np
>>> from veilstream.personalised import PersonalAccounts, PersonalMeter, Roster, Stretching, count_people
>>> roster = Roster(["ann", "bob", "eve"], ["0.5", "0.1", "2"])
>>> accounts = PersonalAccounts(roster)
>>> x = count_people(roster, ["eve", "ann"], [1, 0], bins=2)
>>> Stretching().estimate(x, PersonalMeter(accounts)).numbers.shape
(2,)
>>> [str(left) for left in accounts.left()]
['0', '0', '0']
"""

from veilstream.personalised.accounts import LevelCosts, PersonalAccounts
from veilstream.personalised.checked import Checked
from veilstream.personalised.counts import (
    CountMechanism,
    ExponentialCount,
    ExponentialMedian,
    Minimum,
    Partitioned,
    Sampling,
    Stretching,
    Threshold,
)
from veilstream.personalised.estimators import PrivateLogisticRegression, PrivateSVM
from veilstream.personalised.meter import PersonalMeter, SimulatedMeter
from veilstream.personalised.partition import Group, privacy_aware, rounds, utility_based
from veilstream.personalised.people import PeopleCounts, count_levels, count_people
from veilstream.personalised.recorded import LedgerAccounts, PersonalRelease
from veilstream.personalised.release import CountRelease, release_counts
from veilstream.personalised.roster import Levels, Roster
from veilstream.personalised.stream import GroupedRelease, PersonalisedPublisher

__all__ = [
    "Checked",
    "CountMechanism",
    "CountRelease",
    "ExponentialCount",
    "ExponentialMedian",
    "Group",
    "GroupedRelease",
    "LedgerAccounts",
    "LevelCosts",
    "Levels",
    "Minimum",
    "Partitioned",
    "PeopleCounts",
    "PersonalAccounts",
    "PersonalMeter",
    "PersonalRelease",
    "PersonalisedPublisher",
    "PrivateLogisticRegression",
    "PrivateSVM",
    "Roster",
    "Sampling",
    "SimulatedMeter",
    "Stretching",
    "Threshold",
    "count_levels",
    "count_people",
    "privacy_aware",
    "release_counts",
    "rounds",
    "utility_based",
]
