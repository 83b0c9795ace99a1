"""Moving objects on a road network, after Brinkhoff's generator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from research.workloads.base import Counts, at_least, generator
from veilstream.errors import InvalidInputError, UnreadableFileError

Reals = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RoadNetwork:
    """Nodes with coordinates, and edges between their positions 0, 1, 2, ... with a class (0 is the fastest)."""

    x: Reals
    y: Reals
    start: Whole
    end: Whole
    road_class: Whole

    @classmethod
    def read(cls, nodes: Path, edges: Path) -> RoadNetwork:
        """From CSV files with columns node_id, x, y and node_a, node_b, road_class (gzip is fine)."""
        try:
            points = pl.read_csv(nodes, columns=["node_id", "x", "y"])
            roads = pl.read_csv(edges, columns=["node_a", "node_b", "road_class"])
        except (OSError, pl.exceptions.PolarsError):
            raise UnreadableFileError(
                f"{nodes.name} and {edges.name}: CSV files with columns node_id, x, y and node_a, node_b, "
                "road_class are needed"
            ) from None
        ids = points["node_id"].to_numpy()
        order = np.argsort(ids)
        ends: list[Whole] = []
        for name in ("node_a", "node_b"):
            wanted = roads[name].to_numpy()
            at = order[np.searchsorted(ids, wanted, sorter=order).clip(0, ids.size - 1)]
            if not np.array_equal(ids[at], wanted):
                raise UnreadableFileError(f"{edges.name}: an edge ends at a node that {nodes.name} lacks")
            ends.append(at.astype(np.int64))
        x, y = (points[name].to_numpy().astype(np.float64) for name in ("x", "y"))
        return cls(x, y, ends[0], ends[1], roads["road_class"].to_numpy().astype(np.int64))

    @property
    def extent(self) -> float:
        """The longer side of the map."""
        return float(max(np.ptp(self.x), np.ptp(self.y)))

    def travel_times(self, top_speed: float) -> Any:
        """Steps that each road takes, as a sparse symmetric matrix; the quickest of parallel roads counts."""
        length = np.hypot(self.x[self.start] - self.x[self.end], self.y[self.start] - self.y[self.end])
        speed = top_speed * self.extent * 2.0 ** (-self.road_class / 2)
        # Roads of no length still take a moment, as a zero in a sparse graph would be no road.
        times = np.maximum(length / speed, 1e-6)
        both = pl.DataFrame(
            {
                "a": np.concatenate([self.start, self.end]),
                "b": np.concatenate([self.end, self.start]),
                "time": np.concatenate([times, times]),
            }
        ).filter(pl.col("a") != pl.col("b"))
        quickest = both.group_by("a", "b").agg(pl.col("time").min()).sort("a", "b")
        nodes = quickest["a"].to_numpy(), quickest["b"].to_numpy()
        return csr_array((quickest["time"].to_numpy(), nodes), shape=(self.x.size, self.x.size))


@dataclass(frozen=True, slots=True, eq=False)
class MovingObjects:
    """``objects`` that drive from random nodes to random destinations by the quickest way, counted on a grid.

    The paper: the Oldenburg map, 1000 timestamps, 500,000 objects at the beginning, 1024 × 1024 cells. After Brinkhoff:
    roads have classes with their own speed, and every object takes the quickest path to its destination.

    Assumed: half of the speed is lost every second class; class 0 crosses ``top_speed`` of the map in a step;
    destinations are ``destinations`` nodes drawn once (a path to each is then one table look-up); an object that has
    arrived is replaced by a new one elsewhere, so that there are always as many; objects start somewhere along their
    first road. Left out: the load on a road does not slow it down, and no object is slower than its road allows.

    Brinkhoff: A framework for generating network-based moving objects, GeoInformatica 6(2), 2002; Li, Xiong, Jiang,
    Liu, CIKM 2015, section 7.1.
    """

    network: RoadNetwork
    steps: int = 1000
    objects: int = 500_000
    side: int = 1024
    destinations: int = 256
    top_speed: float = 0.02

    def __post_init__(self) -> None:
        for name in ("steps", "objects", "side", "destinations"):
            at_least(getattr(self, name), 1, name)
        if not 0 < self.top_speed <= 1:
            raise InvalidInputError(
                f"top_speed {self.top_speed} of moving objects: a share of the map above 0 and up to 1 is needed"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.side, self.side)

    def snapshots(self, seed: int) -> Iterator[Counts]:
        for x, y in self.positions(seed):
            yield self._cells(x, y)

    def positions(self, seed: int) -> Iterator[tuple[Reals, Reals]]:
        """Where all objects are, step by step."""
        rng = generator(seed)
        times = self.network.travel_times(self.top_speed)
        _, part = cast(Any, connected_components)(times, directed=False)
        nodes = np.flatnonzero(part == np.bincount(part).argmax())
        goals = rng.choice(nodes, min(self.destinations, nodes.size), replace=False)
        distance, onward = cast(Any, dijkstra)(times, directed=False, indices=goals, return_predecessors=True)
        fleet = _Fleet(nodes, goals, distance, onward.astype(np.int64))
        at, goal = fleet.trips(rng, self.objects)
        ahead = onward[goal, at].astype(np.int64)
        needs = fleet.time_to(goal, at, ahead)
        left = needs * rng.random(self.objects)
        for step in range(self.steps):
            if step:
                left -= 1
                while (due := np.flatnonzero(left <= 0)).size:
                    at[due] = ahead[due]
                    there = due[at[due] == goals[goal[due]]]
                    at[there], goal[there] = fleet.trips(rng, there.size)
                    ahead[due] = fleet.onward[goal[due], at[due]]
                    needs[due] = fleet.time_to(goal[due], at[due], ahead[due])
                    left[due] += needs[due]
            share = 1 - left / needs
            x, y = self.network.x, self.network.y
            yield x[at] + share * (x[ahead] - x[at]), y[at] + share * (y[ahead] - y[at])

    def _cells(self, x: Reals, y: Reals) -> Counts:
        columns, rows = (
            ((value - ends.min()) / np.ptp(ends) * self.side).astype(np.int64).clip(0, self.side - 1)
            for value, ends in ((x, self.network.x), (y, self.network.y))
        )
        return np.bincount(rows * self.side + columns, minlength=self.side**2).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Fleet:
    """Quickest ways to every goal: ``onward[g, v]`` is the node after v on the way to goal g."""

    nodes: Whole
    goals: Whole
    distance: Reals
    onward: Whole

    def trips(self, rng: Any, count: int) -> tuple[Whole, Whole]:
        """New starts and goals, never the same node."""
        at, goal = rng.choice(self.nodes, count), rng.integers(0, self.goals.size, count)
        while (same := np.flatnonzero(at == self.goals[goal])).size:
            at[same] = rng.choice(self.nodes, same.size)
        return at, goal

    def time_to(self, goal: Whole, at: Whole, ahead: Whole) -> Reals:
        return np.maximum(self.distance[goal, at] - self.distance[goal, ahead], 1e-6)
