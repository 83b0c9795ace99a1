"""What each mechanism does in a few words, when to use it, and which page of its family says more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Use:
    """A line of the catalogue: ``models`` are the privacy models, ``family`` the page with proofs and measurements."""

    does: str
    when: str
    avoid: str
    paper: str
    family: str
    tables: str
    models: str = "any"


_ANY: Final = "event, w-event, user level with a public horizon"
STREAM_USES: Final = {
    "model": Use(
        "looks where it pays, models in between; intervals of the true count",
        "you do not know the stream: `publish` takes it by default",
        "you need unbiased numbers, or an argument that fits on a page",
        "this project", "model", "model", "event, w-event, user level",
    ),
    "uniform": Use(
        "every step, equal shares", "counts are large or change quickly", "windows are long and counts small",
        "Kellaris et al., VLDB 2014", "adaptive", "stream-utility", _ANY,
    ),
    "sample": Use(
        "once per window, all of the budget", "data change slowly", "a change must show within a window",
        "Kellaris et al., VLDB 2014", "adaptive", "stream-utility", "event, w-event, user level",
    ),
    "fixed-rate": Use(
        "every `interval` steps", "you know how fast data change", "changes come at no fixed pace",
        "Fan and Xiong, TKDE 2014", "adaptive", "stream-utility", _ANY,
    ),
    "scheduled": Use(
        "a budget of its own for every step", "some steps matter more than others", "all steps matter alike",
        "Fang and Chang, ASIACCS 2014, section 7", "allocation", "allocation", _ANY,
    ),
    "dsft": Use(
        "anew when the data have moved from the last release", "changes come in bursts and their size is known",
        "you cannot name a distance: take `dsat`", "Li et al., CIKM 2015", "adaptive", "stream-utility", _ANY,
    ),
    "dsat": Use(
        "as `dsft`, with a threshold that follows the releases made", "changes come in bursts",
        "counts are large and always move", "Li et al., CIKM 2015", "adaptive", "stream-utility", _ANY,
    ),
    "budget-distribution": Use(
        "anew when a release would be nearer than the last; budgets halve",
        "the classic baseline, few changes a window",
        "many changes come within a window", "Kellaris et al., VLDB 2014", "adaptive", "stream-utility", _ANY,
    ),
    "budget-absorption": Use(
        "anew when a release would be nearer than the last; takes the budget of steps left out",
        "the classic baseline, changes far apart", "changes follow one another", "Kellaris et al., VLDB 2014",
        "adaptive", "stream-utility", _ANY,
    ),
    "fast": Use(
        "noisy looks, filtered; `--set samples=N` makes them few", "count series and small budgets",
        "single jumps matter: a filter lags behind them", "Fan and Xiong, TKDE 2014", "fast", "fast", _ANY,
    ),
    "running-total": Use(
        "totals so far, or decayed ones", "readers ask for “cases so far”", "steps matter, not their sum",
        "Fichtenberger et al., ICML 2023", "measures", "totals", "event, w-event",
    ),
    "moving-sum": Use(
        "sums of the last steps, from rows of a running sum", "readers ask for “the last 24 hours”, with delta",
        "there is no delta", "Fichtenberger et al., ICML 2023", "measures", "totals", "event, w-event",
    ),
    "retroactive-grouping": Use(
        "sliding windows; calm units share one noise", "many bins, most of them slow", "bins are few or always move",
        "Chen et al., CIKM 2015", "retroactive_grouping", "grouping", "event, w-event",
    ),
    "time-unit": Use(
        "sliding windows from one noisy release per unit", "the baseline of grouping", "bins are slow: group them",
        "Chen et al., CIKM 2015", "retroactive_grouping", "grouping", _ANY,
    ),
    "sliding-window": Use(
        "sliding windows, noise on each sum", "comparisons alone: its error is ω times that of `time-unit`",
        "anything else", "Chen et al., CIKM 2015", "retroactive_grouping", "grouping", "event, w-event",
    ),
}  # fmt: skip
HISTOGRAM_USES: Final = {
    "geometric": Use(
        "two-sided geometric noise per bin, unbiased", "any data: it is the default", "sums over many bins",
        "Ghosh et al., STOC 2009", "histograms", "histograms",
    ),
    "gaussian": Use(
        "discrete Gaussian noise per bin (needs `--delta`)", "many releases that share a budget", "promises with δ = 0",
        "Canonne et al., NeurIPS 2020", "histograms", "histograms",
    ),
    "efpa": Use(
        "few Fourier coordinates", "smooth or periodic histograms, small ε", "isolated peaks",
        "Ács et al., ICDM 2012", "histograms", "histograms",
    ),
    "p-hp": Use(
        "private bisection into clusters", "sparse or stepwise histograms",
        "histograms in which every bin differs", "Ács et al., ICDM 2012", "histograms", "histograms",
    ),
    "privelet": Use(
        "Haar wavelets, any dimension", "range counts over long axes", "single bins",
        "Xiao et al., ICDE 2010", "histograms", "histograms",
    ),
    "noise-first": Use(
        "bins merged after noise", "plateaus, single bins", "counts far above their noise",
        "Xu et al., ICDE 2012", "histograms", "histograms",
    ),
    "structure-first": Use(
        "bins merged before noise", "plateaus, ranges", "fine structure", "Xu et al., ICDE 2012", "histograms",
        "histograms",
    ),
    "barak": Use(
        "Walsh-Hadamard marginals", "consistent marginals of few attributes", "single cells",
        "Barak et al., PODS 2007", "histograms", "histograms",
    ),
    "psd": Use(
        "quad, kd and hybrid trees", "spatial data, also domains too large to list", "single cells",
        "Cormode et al., ICDE 2012", "sparse", "sparse-histograms",
    ),
    "fp": Use(
        "cells that reach a level", "sparse data, also domains too large to list", "tables with most cells filled",
        "Cormode et al., ICDT 2012", "sparse", "sparse-histograms",
    ),
    "dpcube": Use(
        "kd partition of a noisy cube", "clustered tables", "even tables", "Xiao et al., TDP 2014", "sparse",
        "sparse-histograms",
    ),
    "hb": Use(
        "a tree of few levels, made consistent", "ranges of a line", "single bins",
        "Qardaji et al., VLDB 2013", "histograms", "histograms",
    ),
    "matrix": Use(
        "a tree optimised for the declared use", "ranges and prefixes", "uses that are not known before",
        "McKenna et al., VLDB 2018", "histograms", "histograms",
    ),
    "marginals": Use(
        "budgets of marginals optimised together", "marginals of two attributes", "cells or ranges",
        "McKenna et al., VLDB 2018", "histograms", "histograms",
    ),
    "dawa": Use(
        "a private partition, then ranges", "stretches of equal counts, small ε",
        "histograms in which every bin differs", "Li et al., VLDB 2014", "histograms", "histograms",
    ),
    "ag": Use(
        "a grid that is finer where records are", "points of a plane, small ε", "lines, or many dimensions",
        "Qardaji et al., ICDE 2013", "histograms", "histograms",
    ),
    "haar": Use(
        "noise, smoothed by wavelets", "single bins, of lines and tables", "long ranges",
        "Coifman and Donoho, 1995", "histograms", "held-back",
    ),
    "auto": Use(
        "one of these, by the declared use and a noisy total", "data that you do not know",
        "data that you know: the choice costs a fiftieth of ε", "this project", "histograms", "histograms",
    ),
}  # fmt: skip
