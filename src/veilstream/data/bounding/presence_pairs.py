"""Tables of people by pairs of hashes, sorted by the first: finding, inserting, telling apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]


def find_pairs(
    known_first: Words, known_second: Words, first: Words, second: Words
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The places of pairs in a table that is sorted by the first, and which of them are there."""
    place = np.searchsorted(known_first, first)
    known = np.zeros(len(first), dtype=np.bool_)
    if not len(known_first):
        return place, known
    open_ = np.arange(len(first))
    while len(open_):
        open_ = open_[place[open_] < len(known_first)]
        open_ = open_[known_first[place[open_]] == first[open_]]
        same = known_second[place[open_]] == second[open_]
        known[open_[same]] = True
        # Two people with one first hash: the next place may be the other's.
        open_ = open_[~same]
        place[open_] += 1
    return place, known


def insert_pairs(columns: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> list[NDArray[Any]]:
    """Columns of a table with new entries; the first column is sorted, and so are the new entries by it."""
    known, new = columns[0]
    # Both are sorted: the new ones go where they would be among the old ones, one after another.
    place = np.searchsorted(known, new) + np.arange(len(new))
    old = np.ones(len(known) + len(new), dtype=np.bool_)
    old[place] = False
    merged: list[NDArray[Any]] = []
    for before, added in columns:
        column = np.empty((len(old), *before.shape[1:]), dtype=before.dtype)
        column[old], column[~old] = before, added
        merged.append(column)
    return merged


def distinct_pairs(first: Words, second: Words) -> tuple[Words, Words, NDArray[np.int64]]:
    """The different pairs, sorted by the first, and which of them each row has."""
    order, fresh = order_of_pairs(first, second)
    person = np.empty(len(order), dtype=np.int64)
    person[order] = np.cumsum(fresh) - 1
    distinct = order[fresh]
    return first[distinct], second[distinct], person


def order_of_pairs(first: Words, second: Words) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The order that puts pairs one after another, equal ones as they came, and which of them begin another pair."""
    order = np.argsort(first, kind="stable")
    a, b = first[order], second[order]
    if ((a[1:] == a[:-1]) & (b[1:] != b[:-1])).any():
        order = np.lexsort((second, first))
        a, b = first[order], second[order]
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (a[1:] != a[:-1]) | (b[1:] != b[:-1])
    return order, fresh
