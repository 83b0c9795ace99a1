"""Tumult Analytics in an interpreter of its own, which needs older versions of NumPy, pandas and Spark than we do.

``PYTHON benchmarks/tumult_worker.py ROWS.csv STEPS EPSILON`` prints sums, means and quantiles of every step as JSON.
"""

# pyright: basic
from __future__ import annotations

import json
import os
import sys
import time


def main(path: str, steps: int, epsilon: float) -> None:
    """Sums and means for ``epsilon`` together, and three quantiles for as much again."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # type: ignore[import-not-found,unused-ignore]
    from tmlt.analytics import (  # type: ignore[import-not-found,unused-ignore]
        AddOneRow,
        KeySet,
        PureDPBudget,
        QueryBuilder,
        Session,
    )

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.showConsoleProgress", "false")
    rows = spark.getOrCreate().read.csv(path, header=True, schema="step BIGINT, value DOUBLE")
    session = Session.from_dataframe(PureDPBudget(2 * epsilon), "rows", rows, protected_change=AddOneRow())
    groups = QueryBuilder("rows").groupby(KeySet.from_dict({"step": list(range(steps))}))
    asked = {
        "sums": (groups.sum("value", 0.0, 100.0, name="found"), epsilon / 2),
        "means": (groups.average("value", 0.0, 100.0, name="found"), epsilon / 2),
        **{
            f"{share}": (groups.quantile("value", share, 0.0, 100.0, name="found"), epsilon / 3)
            for share in (0.1, 0.5, 0.9)
        },
    }
    found: dict[str, object] = {}
    for name, (query, budget) in asked.items():
        start = time.perf_counter()
        answers = {row["step"]: row["found"] for row in session.evaluate(query, PureDPBudget(budget)).collect()}
        found[name] = [float(answers[step]) for step in range(steps)]
        found[f"{name} seconds"] = time.perf_counter() - start
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
