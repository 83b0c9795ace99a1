"""Models of real tables against dpmm's MST and AIM: marginals, ranges, correlations, classifiers, time.

With DPMM_PYTHON (see ``private_pgm``) MST and AIM are fitted in the same run; without it their kept figures are taken.
``rdatasets_tables`` says which tables nothing was tuned on.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from benchmarks.held_back_tables import held_back_tables
from benchmarks.private_pgm import DELTA, PYTHON, GraphicalModel, kept_draw, may_draw
from benchmarks.rdatasets_tables import HELD_BACK, JUDGED, LOOKED_AT, tables_of
from benchmarks.report import Table, progress
from benchmarks.table_errors import MOST_MARGINALS, errors_of
from benchmarks.table_records import PeerFigures, Records
from benchmarks.table_sources import ROWS, RealTable, real_tables
from veilstream.data import Categories, Grid
from veilstream.data.bounding.keyed import Key
from veilstream.mechanisms.session import Session
from veilstream.noise import ExactSampler
from veilstream.privacy.accountant import Accountant
from veilstream.synthesis import DPCopula, MarginalGraph, TableDomain
from veilstream.synthesis.fitting import guarantee_of
from veilstream.synthesis.graph_budget import Budget
from veilstream.synthesis.junction import evenly
from veilstream.synthesis.kinds import TableMechanism, TableModel, automatic, for_domain, model_of
from veilstream.synthesis.rows import content_hashes
from veilstream.testing.simulation import SeededSource
from veilstream.trusted.rows import ordered_rows

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]
Cell = tuple[str, str, str]
EPSILONS: Final = ("1", "1/10", "10")
TESTED: Final = ("1", "1/10")
"""ε at which models are held against independence on all tables."""
RUNS: Final = int(os.environ.get("TABLES_RUNS", "5"))
PEER_RUNS: Final = 5
RUNS_OF_OTHERS: Final = min(RUNS, 3)
"""Of models that are not held against independence, at the first ε."""
MANY: Final = 10_000
"""Tables get one of so many stretches of seeds."""
FEWER_RUNS: Final = 2
"""At other ε than the first."""
ITSELF: Final = "the table itself"
ALONE: Final = "margins alone"
PEERS: Final = tuple(os.environ.get("DPMM_PEERS", "AIM,MST").split(","))
LEAST_MISSING: Final = 0.01
OURS: Final = ("auto", "auto, target", "auto, δ")
NEEDED: Final = (ITSELF, "auto", ALONE)
MEASURES: Final = ("2-way", "3-way", "ranges", "correlations", "AUC", "seconds")
WRONG: Final = ("2-way", "3-way", "ranges", "correlations", "AUC", "AUC gap", "seconds")


@dataclass(frozen=True, slots=True)
class Ours:
    """One of this package's mechanisms, with simulated noise."""

    mechanism: TableMechanism
    delta: float = 0.0

    def model(self, table: RealTable, epsilon: Fraction, seed: int) -> TableModel:
        """The model of a table."""
        domain = table_domain_of(table)
        mechanism = for_domain(self.mechanism, domain)
        layout = mechanism.layout(domain.shape)
        columns = [np.ascontiguousarray(column) for column in table.codes.T]
        rows = ordered_rows(columns, content_hashes(columns, Key(bytes(16))), domain.shape, 0)
        guarantee = guarantee_of(epsilon, Fraction(str(self.delta)), self.mechanism)
        meter = Session(Accountant(guarantee, layout.size), ExactSampler(SeededSource(seed))).at(0)
        values = mechanism.estimate(layout.seal(rows), guarantee.pure, meter)
        return model_of(domain, layout, np.asarray(values.numbers, dtype=np.float64), epsilon)

    def draw(self, table: RealTable, epsilon: Fraction, seed: int) -> Codes:
        """As many rows as the table has."""
        return np.stack(self.model(table, epsilon, seed).sample_codes(len(table.codes), seed=seed), axis=1)


@dataclass(frozen=True, slots=True)
class MarginsAlone:
    """A histogram per attribute for all of ε, as a graph measures them, and columns that are independent."""

    def draw(self, table: RealTable, epsilon: Fraction, seed: int) -> Codes:
        """As many rows as the table has."""
        columns = [np.ascontiguousarray(column) for column in table.codes.T]
        rows = ordered_rows(columns, content_hashes(columns, Key(bytes(16))), table.shape, 0)
        size, select, measure = MarginalGraph().shares(epsilon)
        guarantee = guarantee_of(epsilon, 0, MarginalGraph())
        meter = Session(Accountant(guarantee, 1), ExactSampler(SeededSource(seed))).at(0)
        counted = meter.laplace(rows.counts(()), size, "total")
        total = max(float(counted.numbers[0]), 1.0)
        budget = Budget.of("laplace", select + measure, rows.l1, meter)
        thin = budget.thin(table.shape, table.ordered, total, Fraction(1))
        noisy = budget.margins(rows, None, Fraction(1), meter, thin=thin, counted=counted)
        rng = np.random.default_rng(seed)  # noqa: TID251 (no release)
        one = np.zeros(len(table.codes), dtype=np.int64)
        return np.stack([evenly(counts[None] + 1e-12, one, rng) for counts in noisy.margins(total).counts], axis=1)


def table_domain_of(table: RealTable) -> TableDomain:
    """Numbers for ordered attributes, categories for the others."""
    sizes = zip(table.shape, table.ordered, strict=True)
    axes = {
        f"x{i}": Grid(0, size, size) if ordered else Categories(range(size)) for i, (size, ordered) in enumerate(sizes)
    }
    return TableDomain(axes)


def run(quick: bool = False, finished: bool = False) -> Sequence[Table]:
    """Errors on every table and ratios to the peers: first on tables that nothing was tuned on, then on the others.

    Finished: of what the records hold, without a further measurement.
    """
    judged = tables_of(JUDGED)
    others = {**real_tables(), **tables_of(LOOKED_AT), **held_back_tables(), **tables_of(HELD_BACK)}
    found, records, figures = Found(), Records(finished), PeerFigures()
    tables = {name: judged[name] for name in sorted(judged, key=lambda name: judged[name].codes.size)} | others
    for epsilon, name in itertools.product(EPSILONS, tables):
        if name in others and (quick or epsilon not in TESTED):
            continue
        for label, method in _ours(tables[name]).items():
            if epsilon != EPSILONS[0] and (label == "copula" or (name in others and label not in NEEDED)):
                continue
            part = "any" if label in (ITSELF, "independent") else epsilon
            for seed in range(_runs(label, epsilon, name in others, quick)):
                measure = partial(_measured, name, tables[name], method, epsilon, seed)
                found.add((name, epsilon, label), records.get(f"{name}|{part}|{label}|{seed}", measure))
            progress(f"tables {name} {epsilon} {label} {found.shown(name, epsilon, label)}")
        for label in () if quick else PEERS:
            for measured in _of_peer(label, name, tables[name], epsilon, figures):
                found.add((name, epsilon, label), measured)
            progress(f"tables {name} {epsilon} {label} {found.shown(name, epsilon, label)}")
    notes = _notes(list(others))
    return [
        _errors("Models of tables that nothing was tuned on", notes, found, list(judged)),
        *_ratios("Against the peers, on tables that nothing was tuned on", found, list(judged)),
        *([_errors("Models of tables that were looked at", "As above.", found, list(others))] if others else []),
        *_ratios("Against the peers, on tables that were looked at", found, list(others)),
        _independence(found, list(judged), list(others)),
    ]


def _runs(label: str, epsilon: str, looked_at: bool, quick: bool) -> int:
    if quick or label in (ITSELF, "independent", "copula"):
        return 1
    if label in ("auto", ALONE) and epsilon in TESTED:
        return RUNS
    if looked_at:
        return 1
    return RUNS_OF_OTHERS if epsilon == EPSILONS[0] else FEWER_RUNS


class Found:
    """Errors of every run, by table, ε and model."""

    def __init__(self) -> None:
        self.runs: dict[Cell, list[list[float]]] = {}

    def add(self, key: Cell, measured: list[float]) -> None:
        if measured:
            self.runs.setdefault(key, []).append(measured)

    def mean(self, key: Cell) -> Reals:
        return np.asarray(np.mean(self.runs[key], axis=0), dtype=np.float64)

    def shown(self, *key: str) -> str:
        known = (key[0], key[1], key[2])
        return str(self.mean(known).round(4).tolist()) if known in self.runs else "left out"


def _ours(table: RealTable) -> dict[str, Any]:
    domain = table_domain_of(table)
    target = domain.names[-1]
    methods: dict[str, Any] = {
        ITSELF: ITSELF,
        "independent": None,
        "auto": Ours(automatic(domain)),
        "auto, target": Ours(automatic(domain, target=target)),
        "copula": Ours(DPCopula()),
        ALONE: MarginsAlone(),
    }
    if automatic(domain, DELTA) != automatic(domain):
        methods["auto, δ"] = Ours(automatic(domain, DELTA), DELTA)
    return methods


def _of_peer(peer: str, name: str, table: RealTable, epsilon: str, figures: PeerFigures) -> list[list[float]]:
    """What a peer reaches, run by run: measured where it can be, else as it was measured before."""
    method = GraphicalModel(peer)
    seeds = [seed for seed in range(PEER_RUNS) if PYTHON and may_draw(method, Fraction(epsilon), seed, name)]
    measured = [_measured(name, table, method, epsilon, seed) for seed in seeds]
    return figures.get(f"{name}|{epsilon}|{peer}", measured)


def _notes(looked_at: Sequence[str]) -> str:
    return (
        f"At most {ROWS:,} rows of each; means over models, whose number stands beside. Total variation of "
        f"{MOST_MARGINALS} marginals of 2 and of 3 attributes, mean error of 200 ranges over single "
        "attributes in shares of the rows, mean error of correlations, area under the curve of three classifiers "
        "trained on drawn rows, processor seconds. The tables here were picked by their columns and measured when all "
        "rules were fixed; what the question costs and when its answer counts was changed after that, on the others. "
        f"{', '.join(looked_at)}, which stand below, were looked at while "
        "rules and limits were chosen; 'Breast cancer, worst' and 'Digits, other pixels' are other columns of the "
        f"same people and digits. {', '.join(PEERS)} and 'auto, δ' have δ = {DELTA:g}, the others 0; 'auto, δ' stands "
        "where it differs, which is from 14 attributes on. 'auto, target' is told what classifiers will predict, the "
        f"others are not. 'independent' has the exact margins and no noise, '{ALONE}' has noisy margins for all of ε; "
        f"'{ITSELF}' says what classifiers trained on real rows reach. The "
        "peers (dpmm 0.1.9) draw by its sampler that does not round; AIM's "
        "model has at most 4 MB and its fits between rounds 50 steps. Where a peer is missing, its fit was not made; "
        "their figures are kept from runs of their own."
    )


def _errors(title: str, notes: str, found: Found, names: Sequence[str]) -> Table:
    listed = [key for key in found.runs if key[0] in names]
    listed.sort(key=lambda key: (names.index(key[0]), EPSILONS.index(key[1])))
    rows = [[*key, str(len(found.runs[key])), *(f"{number:.3g}" for number in found.mean(key))] for key in listed]
    return Table(title, notes, ["table", "ε", "model", "runs", *MEASURES], rows)


def _ratios(title: str, found: Found, names: Sequence[str]) -> list[Table]:
    """Of what is wrong: below 1 is better than the peer."""
    rows: list[list[str]] = []
    for peer, epsilon, ours in itertools.product((*PEERS, ALONE), EPSILONS, OURS):
        ratios = {
            name: _wrong(found, (name, epsilon, ours)) / np.maximum(_wrong(found, (name, epsilon, peer)), 1e-4)
            for name in names
            if all((name, epsilon, label) in found.runs for label in (peer, ours, ITSELF))
        }
        for name, ratio in ratios.items():
            rows.append([peer, epsilon, ours, name, *(f"{number:.2f}" for number in ratio)])
        if ratios:
            mean = np.exp(np.nanmean(np.log(np.maximum(list(ratios.values()), 1e-4)), axis=0))
            rows.append([peer, epsilon, ours, "geometric mean", *(f"**{number:.2f}**" for number in mean)])
    if not rows:
        return []
    notes = (
        "Mean error divided by the peer's (dpmm), whose figures are kept from runs of their own in "
        f"benchmarks/table_peers.json; of AUC what is missing to 1, and as AUC gap what is missing to '{ITSELF}', both "
        f"at least {LEAST_MISSING}. Below 1 is better. '{ALONE}' is what independence costs at the same ε."
    )
    return [Table(title, notes, ["peer", "ε", "model", "table", *WRONG], rows)]


def _independence(found: Found, judged: Sequence[str], others: Sequence[str]) -> Table:
    """Where 'auto' is worse than margins alone by more than the two of them vary."""
    rows: list[list[str]] = []
    for epsilon, (kind, names) in itertools.product(TESTED, (("not tuned on", judged), ("looked at", others))):
        for name in names:
            keys = [(name, epsilon, label) for label in ("auto", ALONE)]
            if any(len(found.runs.get(key, [])) < 2 for key in keys):
                continue
            ours, alone = (np.asarray(found.runs[key], dtype=np.float64)[:, :3] for key in keys)
            error = np.sqrt(ours.var(axis=0, ddof=1) / len(ours) + alone.var(axis=0, ddof=1) / len(alone))
            worse = (ours.mean(axis=0) - alone.mean(axis=0)) / np.maximum(error, 1e-9)
            ratios = ours.mean(axis=0) / np.maximum(alone.mean(axis=0), 1e-9)
            shown = [f"{ratio:.2f}{'*' if beyond > 2 else ''}" for ratio, beyond in zip(ratios, worse, strict=True)]
            rows.append([epsilon, name, kind, f"{len(ours)}, {len(alone)}", *shown])
    notes = (
        f"Mean error of 'auto' divided by that of '{ALONE}', which has all of ε for histograms of single attributes; "
        "a star where 'auto' is worse by more than two standard errors of the difference. Ranges are over single "
        "attributes, so that any budget for tables of several is taken from them. Of "
        f"{3 * len(rows)} comparisons one in forty-four would have a star by chance if both were alike."
    )
    return Table("Against independence", notes, ["ε", "table", "kind", "runs", *MEASURES[:3]], rows)


def _wrong(found: Found, key: Cell) -> Reals:
    numbers, reached = found.mean(key), float(found.mean((key[0], key[1], ITSELF))[4])
    missing = [max(most - float(numbers[4]), LEAST_MISSING) for most in (1.0, reached)]
    return np.asarray([*numbers[:4], *missing, numbers[5]], dtype=np.float64)


def _measured(name: str, table: RealTable, method: Any, epsilon: str, seed: int) -> list[float]:
    begun = time.process_time()
    seconds = float("nan")
    # Tables have noise of their own: with the same seeds, one unlucky answer would be every table's.
    seed = seed if isinstance(method, GraphicalModel) else seed + RUNS * (crc32(name.encode()) % MANY)
    if method == ITSELF:
        drawn = table.codes
    elif method is None:
        rng = np.random.default_rng(seed)  # noqa: TID251 (no release)
        drawn = np.stack([rng.permutation(column) for column in table.codes.T], axis=1)
    elif isinstance(method, GraphicalModel):
        peer = kept_draw(method, table, Fraction(epsilon), seed, name)
        drawn, seconds = peer.codes, peer.seconds
    else:
        drawn = method.draw(table, Fraction(epsilon), seed)
    if not isinstance(method, GraphicalModel):
        seconds = time.process_time() - begun
    return [*errors_of(table, drawn), seconds]
