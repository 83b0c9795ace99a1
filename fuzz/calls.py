"""Calls of the Python API: every public name with usual arguments, some of them replaced."""

from __future__ import annotations

import re
from random import Random
from typing import Final

from fuzz.case import Case
from fuzz.recipes import RECIPES
from fuzz.values import DURATIONS, OBJECTS, TIMES, ZONES

HOLE: Final = re.compile(r"\{(\w+)\}")
MECHANISMS: Final = {
    "DSAT": "releases histogram horizon burn_in decision_share margin spacing controller",
    "DSFT": "releases histogram horizon burn_in decision_share margin spacing threshold",
    "BudgetAbsorption": "histogram horizon columns",
    "BudgetDistribution": "histogram horizon columns",
    "Fast": "samples filter sampling process_variance horizon theta set_point proportional integral derivative memory "
    "hurry particles histogram",
    "FixedRate": "interval histogram horizon",
    "ModelBased": "horizon periods safe revise",
    "MovingSum": "window detail",
    "RetroactiveGrouping": "window monitor tail factor sampling revise largest_group",
    "RunningTotal": "horizon decay detail nondecreasing",
    "Sample": "histogram",
    "Scheduled": "weights online bounds power horizon histogram",
    "SlidingWindow": "window histogram",
    "TimeUnit": "window histogram horizon",
    "Uniform": "histogram horizon",
}
ESTIMATORS: Final = {
    "EFPA": "fallback",
    "PHP": "depth structure",
    "PSD": "kind height count_every median_share prune",
    "AdaptiveGrid": "first constant",
    "Auto": "use",
    "Barak": "order marginals",
    "DAWA": "workload structure patience",
    "DPCube": "cell_share height",
    "FilterPriority": "levels spurious keep",
    "Gaussian": "",
    "Geometric": "",
    "HB": "prune",
    "Haar": "",
    "Marginals": "order marginals noise",
    "Matrix": "workload noise",
    "NoiseFirst": "price",
    "Privelet": "direct",
    "StructureFirst": "buckets structure",
}
SPECIAL: Final = {
    "every": DURATIONS, "zone": ZONES, "start": TIMES, "end": TIMES, "moment": TIMES, "when": TIMES, "delay": DURATIONS,
    "grace": DURATIONS, "per": DURATIONS,
}  # fmt: skip
KEYWORDS: Final = (
    "level", "value", "per_person", "counts_per_user", "bins_per_user", "stream", "out", "plot", "set", "delta", "zone",
    "presence", "per", "key_file", "unknown", "missing_time", "decimal", "encoding", "delimiter", "time_format", "sums",
    "nonsense", "plot_kind", "plot_bins", "allow_empty", "row_per_person", "exhausted",
)  # fmt: skip


def any_call(rng: Random) -> Case:
    """A call with up to three arguments replaced."""
    groups = (RECIPES, RECIPES, MECHANISMS, ESTIMATORS)
    group = groups[rng.randrange(len(groups))]
    name = rng.choice(sorted(group))
    if group is RECIPES:
        template, usual = rng.choice(RECIPES[name])
        given = {**usual, **_replaced(sorted(usual), rng)}
        return Case("call", expression=HOLE.sub(lambda hole: given[hole[1]], template))
    given = _replaced(str(group[name]).split(), rng)
    made = f"vs.{name}({', '.join(f'{key}={value}' for key, value in given.items())})"
    if group is ESTIMATORS:
        made = f"vs.Sample({made})"
    if rng.random() < 0.7:
        window = rng.choice(["3", "1", "None", "3, delta='1e-6'"])
        data = rng.choice(["np.ones((4, 3), dtype=int)", "np.zeros((5, 1), dtype=int)", "np.full((3, 8), 10**9)"])
        made = f"vs.simulate({made}, vs.Guarantee(1, w={window}), {data}, seed=1)"
    return Case("call", expression=made)


def _replaced(names: list[str], rng: Random) -> dict[str, str]:
    if not names:
        return {}
    chosen = rng.sample(names, min(len(names), rng.randint(0, 3)))
    return {name: _value(name, rng) for name in chosen}


def _value(name: str, rng: Random) -> str:
    if name == "option":
        return rng.choice(KEYWORDS)
    if name in SPECIAL and rng.random() < 0.5:
        return repr(rng.choice(SPECIAL[name]))
    return rng.choice(OBJECTS)
