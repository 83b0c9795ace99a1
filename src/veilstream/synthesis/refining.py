"""Values inside groups: they follow the value of another attribute, as far as the tables of groups tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.random import Generator  # noqa: TID251 (what is drawn here reads a public model alone)
from numpy.typing import NDArray

from veilstream.synthesis.bivariate import latent_correlation, pair_probabilities, tau_of_table
from veilstream.synthesis.graph_layout import MOST_GROUPS, grouped
from veilstream.synthesis.junction import Scope, evenly, evenly_inside
from veilstream.synthesis.margins import shares
from veilstream.synthesis.tree import spanning_tree

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]
LARGEST_CORRELATION: Final = 0.995
SWEEPS: Final = 8
SMALLEST: Final = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One attribute: shares of its values, the group of each, and finer groups inside of those."""

    values: Reals
    groups: Integers
    fine: Integers
    """The finer group of every value."""
    ordered: bool

    @classmethod
    def of(cls, counts: Reals, groups: Integers, law: Reals, ordered: bool) -> Part:
        """Values by a published margin, with the shares of groups that a law says."""
        values = shares(counts) + SMALLEST
        values = values * (law / np.maximum(np.bincount(groups, values, minlength=law.size), 1e-300))[groups]
        inside = grouped(shares(values), MOST_GROUPS, ordered)
        fine = np.unique(groups * (1 + int(inside.max())) + inside, return_inverse=True)[1]
        return cls(values, groups, np.asarray(fine, dtype=np.int64).reshape(-1), ordered and values.size > 2)

    @property
    def masses(self) -> Reals:
        """Shares of the finer groups."""
        return np.asarray(np.bincount(self.fine, self.values), dtype=np.float64)

    @property
    def coarse(self) -> Integers:
        """The group of every finer one."""
        found = np.zeros(1 + int(self.fine.max()), dtype=np.int64)
        found[self.fine] = self.groups
        return found

    @property
    def told(self) -> bool:
        """Whether groups are as fine as it goes."""
        return int(self.fine.max()) == int(self.groups.max())


def refined(
    parts: Sequence[Part], pairs: Mapping[Scope, Reals], drawn: Sequence[Integers], generator: Generator
) -> list[Integers]:
    """Values for rows whose groups were drawn.

    A spanning tree joins the attributes that depend most on one another by the tables of their groups. Along it, the
    finer group of an attribute is drawn given its group and the finer group of the one before it, by the table that
    ``fine_table`` predicts; values inside finer groups follow the margin.
    """
    count = len(parts)
    strength = np.zeros((count, count))
    for (j, k), table in pairs.items():
        apart = np.outer(table.sum(axis=1), table.sum(axis=0))
        strength[j, k] = strength[k, j] = float(np.abs(table - apart).sum())
    fine: list[Integers] = [np.zeros(0, dtype=np.int64)] * count
    fine[0] = evenly_inside(parts[0].coarse, parts[0].masses, drawn[0], generator)
    for before, at in spanning_tree(strength) if count > 1 else ():
        part, groups = parts[at], 1 + int(parts[at].groups.max())
        if part.told:
            fine[at] = evenly_inside(part.coarse, part.masses, drawn[at], generator)
            continue
        table = pairs[before, at] if before < at else pairs[at, before].T
        weights = np.zeros((parts[before].masses.size, groups, part.masses.size))
        # Where a table says nothing of a group, its values follow the margin.
        weights[:, part.coarse, np.arange(part.masses.size)] = fine_table(table, parts[before], part) + (
            SMALLEST * (part.masses + SMALLEST)
        )
        given = fine[before] * groups + drawn[at]
        fine[at] = evenly(weights.reshape(-1, part.masses.size), given, generator)
    return [evenly_inside(part.fine, part.values, column, generator) for part, column in zip(parts, fine, strict=True)]


def fine_table(table: Reals, one: Part, other: Part) -> Reals:
    """The table of the finer groups of two attributes that goes with the table of their groups.

    Between two ordered attributes lies a normal copula, with the correlation under which it has Kendall's τ of the
    groups; else the ratio to independence runs in straight lines from the middle of a group to the next one's, along
    an ordered attribute. Then the table is fitted to its margins and to the groups in turn.
    """
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    if one.ordered and other.ordered:
        rho = float(latent_correlation(tau_of_table(table), rows, columns))
        rho = min(max(rho, -LARGEST_CORRELATION), LARGEST_CORRELATION)
        found = pair_probabilities(one.masses, other.masses, rho) + SMALLEST
    else:
        apart = np.outer(rows, columns)
        ratio = np.divide(table, apart, out=np.ones_like(table), where=apart > SMALLEST)
        found = np.outer(one.masses, other.masses) * (_between(one) @ ratio @ _between(other).T) + SMALLEST
    inside = [np.eye(size)[part.coarse] for part, size in ((one, rows.size), (other, columns.size))]
    for _ in range(SWEEPS):
        found *= (one.masses / np.maximum(found.sum(axis=1), 1e-300))[:, None]
        found *= (other.masses / np.maximum(found.sum(axis=0), 1e-300))[None, :]
        sums = inside[0].T @ found @ inside[1]
        found *= inside[0] @ (table / np.maximum(sums, 1e-300)) @ inside[1].T
    return found


def _between(part: Part) -> Reals:
    """For every finer group the weights of the groups around it: of its own and of the next one in order."""
    coarse, masses = part.coarse, part.masses
    groups = 1 + int(coarse.max())
    if not part.ordered or groups < 2:
        return np.eye(groups)[coarse]
    middle = np.cumsum(masses) - masses / 2
    weights = masses + SMALLEST
    centres = np.bincount(coarse, weights * middle, minlength=groups) / np.bincount(coarse, weights, minlength=groups)
    first = np.clip(np.searchsorted(centres, middle) - 1, 0, groups - 2)
    apart = np.maximum(centres[first + 1] - centres[first], SMALLEST)
    share = np.clip((middle - centres[first]) / apart, 0.0, 1.0)
    found = np.zeros((masses.size, groups))
    at = np.arange(masses.size)
    found[at, first] = 1 - share
    found[at, first + 1] = share
    return found
