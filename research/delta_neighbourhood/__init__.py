"""The δ-neighbourhood paper: privacy for points that move little."""

from __future__ import annotations

from typing import Final

from research.delta_neighbourhood.line import (
    draw_medians,
    draw_sorted,
    judge_medians,
    judge_sorted,
    median_measurements,
    sorted_measurements,
)
from research.delta_neighbourhood.plane import draw_ranges, judge_ranges, range_measurements
from research.delta_neighbourhood.points import GRID_FILE, TAXI_FILE
from research.figure import Figure, Paper

DELTA_PAPER: Final = Paper(
    "delta-neighbourhood",
    "δ-neighbourhood: points that move little",
    "C. Fang, E.-C. Chang: Differential privacy with δ-neighbourhood for spatial and dynamic datasets. ASIACCS 2014 "
    "(its sections 5.4 to 7.1; the construction of section 5.3 was not at hand and is reconstructed).",
    (
        Figure(
            "delta-neighbourhood-4",
            "range counts in the plane by the width of the range",
            "on three sets of points, the mean square error at δ = 0.001 and 0.0001 (0.01 and 0.001 on one of them) is "
            "ten to a hundred times smaller than that of a histogram at its best bin width; at width 0.1 it is 6,726 "
            "there, and 543 and 109.",
            "500 random squares of each width; a mixture of 50 Gaussian clusters (200,000 points) at ε = 1 and 1/10, "
            "136,112 positions of Beijing taxis (side 34 km, so that δ = 0.001 is 34 m) and 193,563 of DPBench's "
            "TWITTER grid, spread evenly in its cells. The baseline hides a person's presence with Lap(1/ε) on each of "
            "10 to 400 cells a side, the best chosen afterwards for every width; ours (`HatGrid`) chooses before.",
            range_measurements,
            draw_ranges,
            judge_ranges,
            (TAXI_FILE, GRID_FILE),
        ),
        Figure(
            "delta-neighbourhood-5",
            "counts from sorted points by the width of the range",
            "the mean square error of range counts falls by about 1/δ², that is by 100 at δ = 0.1.",
            "10,000 points of three kinds on a line, ε = 1, 300 releases each, 500 random stretches of each width.",
            sorted_measurements,
            draw_sorted,
            judge_sorted,
            (TAXI_FILE,),
        ),
        Figure(
            "delta-neighbourhood-6",
            "noise of the median by the number of points",
            "the average smooth sensitivity under 0.02- and 0.005-neighbours is below that under standard ones, most "
            "where points are few.",
            "exponential points scaled to [0, 1], 300 sets of each size, β = 1/2 (half of ε = 1); besides the "
            "sensitivity, the median error of what is published.",
            median_measurements,
            draw_medians,
            judge_medians,
        ),
    ),
)
