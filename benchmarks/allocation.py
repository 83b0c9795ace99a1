"""Schedules: time against a generic solver, online cost against the optimum, weighted error against Uniform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize

import veilstream as vs
from benchmarks.report import PAGE, Table, best_seconds, progress
from veilstream.mechanisms.allocation import OnlineRule, OnlineState, PowerError, optimal_schedule
from veilstream.mechanisms.protocols import StreamMechanism
from veilstream.mechanisms.streams import Scheduled, Uniform
from veilstream.release.plots import LINE, STYLE, TRUTH

Reals = NDArray[np.float64]
FIGURE: Final = PAGE.parent / "figures" / "allocation_ratios.png"
WINDOW: Final = 50
PARTS: Final = (Fraction(1), Fraction(1, 2), Fraction(1, 4), Fraction(0))


def run() -> Sequence[Table]:
    """All tables of the suite; it draws the figure of online costs as well."""
    online, ratios = _online()
    _draw(ratios, FIGURE)
    return [_speed(), online, _streams(), _steps()]


def _random_weights(steps: int, sigma: float = 1.5) -> list[float]:
    # Public weights for a measurement; nothing is released.
    draws = np.random.default_rng(7).normal(size=steps)  # noqa: TID251
    return [float(w) for w in np.clip(np.exp(sigma * draws), 0.01, 100)]


def _generic(weights: list[float], window: int, method: str) -> float:
    n, error, w = len(weights), PowerError(), np.array(weights)
    rows = np.arange(n - window + 1)[:, None]
    matrix = ((np.arange(n) >= rows) & (np.arange(n) < rows + window)).astype(np.float64)
    start = np.full(n, 0.9 / window)
    scale = float(w @ error.value(start))
    solver: Any = minimize
    found = solver(
        lambda x: float(w @ error.value(x)) / scale,
        start,
        jac=lambda x: w * error.slope(x) / scale,
        method=method,
        bounds=[(1e-6, 1.0)] * n,
        constraints=[LinearConstraint(matrix, -np.inf, 1.0)],
        options={"maxiter": 1000, "ftol": 1e-10},
    )
    return float(w @ error.value(found.x))


def _speed() -> Table:
    rows: list[list[str]] = []
    for steps, window in ((100, 10), (300, 20), (2000, 50), (10_000, 100), (10_000, 1000), (10_000, 9_900)):
        weights = _random_weights(steps)
        schedule = optimal_schedule(weights, 1, window)
        own = best_seconds(partial(optimal_schedule, weights, 1, window), 1 if window == 1000 else 3)
        cells = [f"{steps:,}", f"{window:,}", f"{own:.2f}", f"{schedule.gap:.0e}"]
        if steps <= 300:
            other = _generic(weights, window, "SLSQP")
            slow = best_seconds(partial(_generic, weights, window, "SLSQP"), 1)
            cells += [f"{slow:.2f}", f"{slow / own:.0f}×", f"{other / schedule.cost - 1:+.0e}"]
        else:
            cells += ["", "", ""]
        rows.append(cells)
        progress("offline " + ", ".join(cells))
    return Table(
        title="Offline schedule, Laplace error",
        notes=(
            "Log-normal weights between 0.01 and 100. The gap is certified by a lower bound and includes rounding to "
            "2⁻³⁰. The peer is `scipy.optimize.minimize(method='SLSQP')` with exact gradients; its cost minus ours is "
            "in the last column. One BLAS thread (`OPENBLAS_NUM_THREADS=1`): blocks of a band are too small to share. "
            "Aim: 10,000 steps with a window of 100 in seconds."
        ),
        columns=["steps", "window", "seconds", "gap", "SLSQP seconds", "speed against SLSQP", "cost of SLSQP"],
        rows=rows,
    )


@dataclass(frozen=True, slots=True)
class _Profile:
    name: str
    weights: Reals


def _profiles(steps: int = 1000) -> list[_Profile]:
    t = np.arange(steps)
    # Public weights for a measurement; nothing is released.
    rng = np.random.default_rng(2)  # noqa: TID251
    return [
        _Profile("equal", np.ones(steps)),
        _Profile("log-normal", np.array(_random_weights(steps))),
        _Profile("day and night, 64:1", np.where(t % 24 < 8, 1.0, 64.0)),
        _Profile("5% bursts, 1000:1", np.where(rng.random(steps) < 0.05, 1000.0, 1.0)),
        _Profile("10% of steps, others 0", np.where(rng.random(steps) < 0.1, 1.0, 0.0)),
        _Profile("rising, 1000:1 in 100 steps", 10 ** (3 * (t % 100) / 99)),
        _Profile("falling, 1000:1 in 100 steps", 10 ** (3 - 3 * (t % 100) / 99)),
        _Profile("×8 a step, 10 steps of 50", 8.0 ** np.maximum(0, t % 50 - 39)),
        _Profile("×8 a step, 20 steps of 200", 8.0 ** np.maximum(0, t % 200 - 179)),
        _Profile("1 of 200 is 10⁹", np.where(t % 200 == 199, 1e9, 1.0)),
    ]


def _cost(weights: Reals, budgets: Reals) -> float:
    used = weights > 0
    return float(weights[used] @ PowerError().value(budgets[used]))


def _online_budgets(weights: Reals, steady: Fraction) -> tuple[Reals, float]:
    used = weights[weights > 0]
    rule = OnlineRule(Fraction(1), WINDOW, (float(used.min()), float(used.max())), 2, steady)
    state, budgets = OnlineState(), []
    for weight in weights:
        state, epsilon = rule.next(state, float(weight))
        budgets.append(float(epsilon))
    return np.array(budgets), float(rule.slowness)


def _online() -> tuple[Table, dict[str, tuple[float, float]]]:
    rows: list[list[str]] = []
    ratios: dict[str, tuple[float, float]] = {}
    for profile in _profiles():
        w = profile.weights
        best = optimal_schedule([float(x) for x in w], 1, WINDOW).lower
        equal = _cost(w, np.full(w.size, 1 / WINDOW)) / best
        found: list[float] = []
        slowness = 0.0
        for steady in PARTS:
            budgets, slowness = _online_budgets(w, steady)
            found.append(_cost(w, np.maximum(budgets, 1e-12)) / best)
        ratios[profile.name] = (found[1], equal)
        rows.append([profile.name, f"{4 * slowness**2:,.0f}", *(f"{r:,.3g}" for r in found), f"{equal:,.3g}"])
        progress(f"online, {rows[-1]}")
    table = Table(
        title="Online schedules: cost as a multiple of the optimum",
        notes=(
            f"1,000 steps, windows of {WINDOW}, Laplace error, bounds of the weights known. `steady` is the part of "
            "the budget on the rule with the guarantee 4L² (at steady = 1; 16L² at 1/2); the rest shares out what "
            "remains. Less than 1/2 is better on tame weights and worse on weights that keep growing. **Equal shares "
            "(Uniform) win unless few steps matter far more than the rest, or many do not matter at all**: an online "
            "rule pays for not knowing what comes."
        ),
        columns=["weights", "4L²", *(f"steady = {part}" for part in PARTS), "equal shares"],
        rows=rows,
    )
    return table, ratios


def _streams() -> Table:
    rows: list[list[str]] = []
    cases = {
        "week, 8:1": ("1 1 1 1 1 8 8", 7),
        "day and night, 64:1": (" ".join(["1"] * 8 + ["64"] * 16), 24),
        "one hour of a day": (" ".join(["1000"] + ["1"] * 23), 24),
        "every fourth step": ("1 0 0 0", 24),
    }
    for name, (text, window) in cases.items():
        guarantee = vs.Guarantee(1, w=window)
        weights = np.array([float(part) for part in text.split()])
        counts = np.full((weights.size, 20_000), 1_000)
        errors: list[float] = []
        for mechanism in (Scheduled(text), Scheduled(text, online=True), Uniform()):
            repeated = np.tile(counts, (4, 1))
            y = np.asarray(vs.simulate(mechanism, guarantee, repeated, seed=1))
            squared = ((y - repeated) ** 2).mean(axis=1)[-weights.size :]
            errors.append(float(weights @ squared / weights.sum()))
        rows.append([name, str(window), *(f"{e:,.1f}" for e in errors), f"{errors[0] / errors[2]:.2f}"])
        progress(f"streams, {rows[-1]}")
    return Table(
        title="Scheduled against Uniform: weighted squared error per bin",
        notes="ε = 1, 20,000 bins of 1,000 people, simulated; the fourth period, when online budgets have settled.",
        columns=["weights", "w", "Scheduled", "Scheduled online", "Uniform", "Scheduled / Uniform"],
        rows=rows,
    )


def _steps() -> Table:
    counts = np.full((200, 1000), 100)
    guarantee = vs.Guarantee(1, w=24)
    mechanisms: dict[str, StreamMechanism[Any]] = {
        "Uniform": Uniform(),
        "Scheduled": Scheduled("1 1 1 1 1 8 8"),
        "Scheduled online": Scheduled("1 1 1 1 1 8 8", online=True),
    }
    seconds = {
        name: best_seconds(partial(vs.simulate, mechanism, guarantee, counts, 1), 3) / 200
        for name, mechanism in mechanisms.items()
    }
    progress(f"steps: {seconds}")
    return Table(
        title="Time of a step",
        notes="1,000 bins, simulated. Budgets that never repeat cost new noise tables at every step.",
        columns=["mechanism", "ms a step", "against Uniform"],
        rows=[[name, f"{value * 1e3:.2f}", f"{value / seconds['Uniform']:.1f}×"] for name, value in seconds.items()],
    )


def _draw(ratios: dict[str, tuple[float, float]], path: Path) -> None:
    matplotlib: Any = import_module("matplotlib")
    figures: Any = import_module("matplotlib.figure")
    agg: Any = import_module("matplotlib.backends.backend_agg")
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(figsize=(8.5, 4.6), layout="constrained")
        agg.FigureCanvasAgg(figure)
        axes = figure.subplots()
        place = np.arange(len(ratios))[::-1]
        axes.plot([r[0] for r in ratios.values()], place, "o", color=LINE, label="online rule (default)")
        axes.plot([r[1] for r in ratios.values()], place, "D", color=TRUTH, label="equal shares", fillstyle="none")
        axes.axvline(1, color="#8a949e", linewidth=1)
        axes.set(xscale="log", xlabel="cost as a multiple of the optimum that knows all weights", yticks=place)
        axes.set_yticklabels(list(ratios))
        axes.legend(loc="upper right")
        figure.suptitle("What not knowing the weights costs: 1,000 steps, windows of 50", fontsize=11)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
