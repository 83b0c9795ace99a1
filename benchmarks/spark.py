"""Bounding on Spark and DuckDB against our own path and PipelineDP: processor seconds, wall, bytes moved, executors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import polars as pl

from benchmarks.ingest import BINS, CALENDAR, DOMAIN, HOUR, START, STEPS, events
from benchmarks.processor import processor_seconds
from benchmarks.report import ROOT, Table, machine, progress
from veilstream.data import Calendar, Domain, Grid, read_events
from veilstream.data.bounding import bound
from veilstream.spark.environment import environment

KEY: Final = b"the same key for every engine"
FILE_ROWS: Final = 2_500_000
SAMPLE: Final = 200_000
"""Events that the peers get: at 5 million PipelineDP would take most of an hour."""
WARMING: Final = 2_000_000
"""Events that warm the JVM up where all of them would take too long."""
MANY: Final = 50_000_000
"""More events than this are counted once."""
BUCKET_EVENTS: Final = 5_000_000
RECORDS: Final = ROOT / "build" / "spark-benchmark"
"""Finished measurements: after an interruption the same command goes on, after a change of the code it begins anew."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run took: processor seconds of all its processes, seconds of wall, bytes that the cluster moved."""

    processor: float
    wall: float
    moved: int = 0


def write_folder(folder: Path, rows: int, people: int) -> None:
    """A directory of Parquet files of events."""
    for seed, first in enumerate(range(0, rows, FILE_ROWS)):
        table = events(min(FILE_ROWS, rows - first), people, seed)
        instants = table.with_columns(pl.col("time").dt.replace_time_zone("UTC"))
        instants.write_parquet(folder / f"part-{seed:04}.parquet")


def cost_of(call: Callable[[], object]) -> Cost:
    processor, wall = processor_seconds(), time.perf_counter()
    call()
    return Cost(processor_seconds() - processor, time.perf_counter() - wall)


def own(folder: str) -> Cost:
    def run() -> None:
        source = read_events(folder, user="user", time="time", by=["bin"])
        with bound(source, DOMAIN, CALENDAR, key=KEY) as bounded:
            for _ in bounded.snapshots():
                pass

    return cost_of(run)


def in_duckdb(folder: str) -> Cost:
    duckdb, engine = import_module("duckdb"), import_module("veilstream.data.engines.duckdb")

    def run() -> None:
        relation = duckdb.sql(f"select * from read_parquet('{folder}/*.parquet')")
        steps = engine.snapshots(relation, domain=DOMAIN, calendar=CALENDAR, user="user", time="time", key=KEY)
        assert sum(1 for _ in steps) == STEPS

    return cost_of(run)


def on_spark(
    folder: str, master: str = "local[2]", runs: str = "2", domain: Domain = DOMAIN, calendar: Calendar = CALENDAR
) -> Cost:
    """The cheapest of several runs in a session that has run once before: that one warms the JVM up."""
    spark = import_module("veilstream.spark")
    session = _session(master)
    df = session.read.parquet(folder)
    warming = df.limit(WARMING)
    if domain is not DOMAIN:
        df = df.selectExpr("user", "time", "double(user * 7919 % 10000000) as bin")

    def run(events: Any = df) -> None:
        for _ in spark.snapshots(events, domain=domain, calendar=calendar, user="user", time="time", key=KEY):
            pass

    run(warming if runs == "1" else df)
    before = _moved(session)
    costs = [cost_of(run) for _ in range(int(runs))]
    moved = (_moved(session) - before) // len(costs)
    application = session.sparkContext.applicationId
    session.stop()
    # Workers of a local cluster keep their logs where Spark is installed.
    installed = Path(str(import_module("pyspark").__file__)).parent
    shutil.rmtree(installed / "work" / application, ignore_errors=True)
    best = min(costs, key=lambda cost: cost.processor)
    return Cost(best.processor, best.wall, moved)


def _session(master: str) -> Any:
    warnings.simplefilter("ignore")
    settings = {
        "spark.master": master,
        "spark.driver.memory": "4g",
        "spark.executor.memory": "2g",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.log.level": "ERROR",
    }
    return import_module("veilstream.spark").local_session(settings=settings)


def _moved(session: Any) -> int:
    """Bytes that all tasks so far have written for a shuffle."""
    root = f"{session.sparkContext.uiWebUrl}/api/v1/applications/{session.sparkContext.applicationId}"
    return sum(stage["shuffleWriteBytes"] for stage in json.loads(urlopen(f"{root}/stages").read()))


def many_bins(folder: str) -> Cost:
    """Ten million bins at one step."""
    domain = Domain({"bin": Grid(0, 10_000_000, 10_000_000)})
    return on_spark(folder, "local[2]", "2", domain, Calendar("2024-01-01", "2024-01-08", "1w"))


def pipeline_dp(folder: str) -> Cost:
    """PipelineDP's Spark backend on a sample: one partition-hour and one count per person and hour."""
    peer: Any = import_module("pipeline_dp")
    session = _session("local[2]")
    sample = pl.read_parquet(f"{folder}/part-0000.parquet", n_rows=SAMPLE)
    steps = ((sample["time"].dt.replace_time_zone(None).to_numpy() - START).astype("int64") // HOUR).tolist()
    rows = list(zip(sample["user"].to_list(), steps, sample["bin"].to_list(), strict=True))

    def run() -> None:
        accountant = peer.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-9)
        engine = peer.DPEngine(accountant, peer.SparkRDDBackend(session.sparkContext))
        parameters = peer.AggregateParams(
            noise_kind=peer.NoiseKind.LAPLACE,
            metrics=[peer.Metrics.COUNT],
            max_partitions_contributed=1,
            max_contributions_per_partition=1,
        )
        extract = peer.DataExtractors(
            privacy_id_extractor=lambda row: (row[0], row[1]),
            partition_extractor=lambda row: row[1] * 1000 + row[2],
            value_extractor=lambda _: 0,
        )
        cells = list(range(STEPS * BINS))
        result = engine.aggregate(session.sparkContext.parallelize(rows, 8), parameters, extract, cells)
        accountant.compute_budgets()
        result.count()

    cost = cost_of(run)
    session.stop()
    return cost


def tumult(folder: str) -> Cost:
    """Tumult Analytics on the same sample, in the interpreter that ``VEILSTREAM_TUMULT`` names."""
    sample = pl.read_parquet(f"{folder}/part-0000.parquet", n_rows=SAMPLE)
    steps = (sample["time"].dt.replace_time_zone(None).to_numpy() - START).astype("int64") // HOUR
    rows = sample.select(person=pl.col("user") * STEPS + pl.Series(steps), cell=pl.Series(steps) * BINS + pl.col("bin"))
    with tempfile.TemporaryDirectory() as place:
        rows.write_csv(f"{place}/rows.csv")
        command = [os.environ["VEILSTREAM_TUMULT"], "-m", "benchmarks.tumult_counts", f"{place}/rows.csv"]
        began = time.perf_counter()
        done = subprocess.run([*command, str(STEPS * BINS)], cwd=ROOT, check=True, capture_output=True, text=True)
        return Cost(float(done.stdout.splitlines()[-1]), time.perf_counter() - began)


MEASUREMENTS: Final[dict[str, Callable[..., Cost]]] = {
    "own": own,
    "duckdb": in_duckdb,
    "spark": on_spark,
    "many-bins": many_bins,
    "pipeline-dp": pipeline_dp,
    "tumult": tumult,
}


@dataclass(frozen=True, slots=True)
class Events:
    """A folder of events that is written when the first measurement needs it."""

    folder: Path
    rows: int
    people: int

    def measured(self, name: str, *arguments: str) -> Cost:
        """A measurement in a process of its own, or its record."""
        RECORDS.mkdir(parents=True, exist_ok=True)
        record = self.record(name, *arguments)
        if record.exists():
            return Cost(**json.loads(record.read_text(encoding="utf-8")))
        if not any(self.folder.iterdir()):
            write_folder(self.folder, self.rows, self.people)
        command = [sys.executable, "-m", "benchmarks.spark", name, str(self.folder), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        cost = Cost(**json.loads(done.stdout.splitlines()[-1]))
        record.write_text(json.dumps(asdict(cost)), encoding="utf-8")
        progress(f"{self.rows:,} {name} {' '.join(arguments)}: {cost.processor:.1f} s of processor, {cost.wall:.1f} s")
        return cost

    def record(self, name: str, *arguments: str) -> Path:
        """Where a measurement by the present code is kept."""
        code = environment()["veilstream"]
        return RECORDS / f"{'-'.join([code, name, *arguments, str(self.rows)])}.json"


def engines(events: Events, runs: str) -> Table:
    """Processor seconds and wall of every engine on the same files."""
    costs = {
        "one machine": events.measured("own"),
        "DuckDB": events.measured("duckdb"),
        "Spark local[2]": events.measured("spark", "local[2]", runs),
    }
    base = costs["one machine"].processor
    table = [
        [name, f"{cost.processor:.1f}", f"{cost.processor / base:.1f}", f"{cost.wall:.1f}", _per_event(cost, events)]
        for name, cost in costs.items()
    ]
    warm = f"the cheapest of {runs} runs in a session that has run once: its start is not counted"
    if runs == "1":
        warm = f"in a session that has run {WARMING:,} events before"
    return Table(
        title=f"{events.rows:,} events of {events.people:,} people in Parquet files, {STEPS} steps x {BINS:,} bins",
        notes="Processor seconds of all processes, the JVM's and Python workers' included; Spark "
        f"{warm}. Wanted: Spark at most 6 times our own processor time.",
        columns=["engine", "processor s", "times ours", "wall s", "shuffle bytes per event"],
        rows=table,
    )


def _per_event(cost: Cost, events: Events) -> str:
    return f"{cost.moved / events.rows:.1f}" if cost.moved else ""


def peers(events: Events) -> Table:
    """PipelineDP and Tumult on Spark on a sample, per event."""
    each = [("PipelineDP on Spark", events.measured("pipeline-dp"), SAMPLE)]
    if "VEILSTREAM_TUMULT" in os.environ or events.record("tumult").exists():
        each.append(("Tumult Analytics on Spark 3.5", events.measured("tumult"), SAMPLE))
    each.append(("veilstream on Spark", events.measured("spark", "local[2]", "3"), events.rows))
    return Table(
        title=f"Peers on a sample of {SAMPLE:,} of the events, ours on {events.rows:,}",
        notes="Microseconds of processor time per event. The peers also draw their noise for 168,000 partitions in "
        "this time, and Tumult's starts its own JVM. Tumult Analytics needs Spark 3, NumPy 1 and pandas 1, and cannot "
        "be installed beside Spark 4: it runs in the interpreter that VEILSTREAM_TUMULT names, else not at all.",
        columns=["method", "events", "processor s", "microseconds per event"],
        rows=[
            [name, f"{count:,}", f"{cost.processor:.1f}", f"{cost.processor / count * 1e6:.2f}"]
            for name, cost, count in each
        ],
    )


def executors(events: Events) -> Table:
    """One and two executors of one core each on the same two cores."""
    costs = {workers: events.measured("spark", f"local-cluster[{workers},1,3072]", "2") for workers in (1, 2)}
    return Table(
        title=f"{events.rows:,} events with one and two executors of one core",
        notes="Both on the same machine of two cores, where the driver and the Python workers want their share too: "
        "wall cannot halve here.",
        columns=["executors", "processor s", "wall s"],
        rows=[[str(workers), f"{cost.processor:.1f}", f"{cost.wall:.1f}"] for workers, cost in costs.items()],
    )


def wide(events: Events) -> Table:
    """A step of ten million bins."""
    cost = events.measured("many-bins")
    return Table(
        title=f"{events.rows:,} events into 10,000,000 bins of one step on Spark local[2]",
        notes="Counts reach the driver as packed runs in Arrow and are sealed there.",
        columns=["processor s", "wall s", "shuffle bytes per event"],
        rows=[[f"{cost.processor:.1f}", f"{cost.wall:.1f}", _per_event(cost, events)]],
    )


def plan(events: Events, runs: str) -> Table:
    """What a day of many more events would take, by the processor time and the bytes of an event."""
    cost = events.measured("spark", "local[2]", runs)
    seconds, moved = cost.processor / events.rows, cost.moved / events.rows
    lines = [
        [
            f"10^{power}",
            f"{10**power * seconds / 3600:,.1f} h",
            f"{10**power * moved / 1e9:,.1f} GB",
            f"{10**power * seconds / 24:,.0f} s",
            f"{-(-(10**power) * seconds // (24 * 600)):.0f}",
            f"{10**power / 24 / BUCKET_EVENTS:,.0f}",
        ]
        for power in (9, 11)
    ]
    return Table(
        title="A plan for a day of events, one job an hour",
        notes=f"Products of what {events.rows:,} events took here ({seconds * 1e6:.2f} microseconds of processor and "
        f"{moved:.1f} bytes of shuffle an event), not measurements: no such cluster was at hand. Reading the source "
        f"from another machine comes on top. {machine()}",
        columns=[
            "events a day",
            "processor a day",
            "shuffle a day",
            "processor of an hourly job",
            "cores that end it in 10 minutes",
            f"buckets of {BUCKET_EVENTS:,} events",
        ],
        rows=lines,
    )


def run(quick: bool = False, finished: bool = False) -> list[Table]:
    """All tables of this module; ``finished`` leaves sizes out that are not measured yet."""
    sizes = [(500_000, 20_000)] if quick else [(5_000_000, 200_000), (20_000_000, 1_000_000), (100_000_000, 5_000_000)]
    tables: list[Table] = []
    extra: list[Table] = []
    planned: Table | None = None
    for index, (rows, people) in enumerate(sizes):
        with tempfile.TemporaryDirectory() as folder:
            events, runs = Events(Path(folder), rows, people), "1" if rows > MANY else "3"
            if finished and not events.record("spark", "local[2]", runs).exists():
                continue
            tables.append(engines(events, runs))
            extra += [peers(events), executors(events), wide(events)] if index == 0 else []
            planned = plan(events, runs)
    return [*tables, *extra, *([] if planned is None else [planned])]


if __name__ == "__main__":
    print(json.dumps(asdict(MEASUREMENTS[sys.argv[1]](*sys.argv[2:]))))
