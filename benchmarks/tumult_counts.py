"""Counts of Tumult Analytics in an interpreter of its own, which needs older versions of NumPy, pandas and Spark.

``PYTHON -m benchmarks.tumult_counts ROWS.csv CELLS`` counts the rows of every cell, one row for each person, and prints
the processor seconds that it took, the JVM's included.
"""

# pyright: basic
from __future__ import annotations

import os
import sys

from benchmarks.processor import processor_seconds


def main(path: str, cells: int) -> None:
    """One noisy count for each of the cells."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # type: ignore[import-not-found,unused-ignore]
    from tmlt.analytics import (  # type: ignore[import-not-found,unused-ignore]
        AddRowsWithID,
        KeySet,
        MaxRowsPerID,
        PureDPBudget,
        QueryBuilder,
        Session,
    )

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "4g").config("spark.sql.shuffle.partitions", "16")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    rows = spark.read.csv(path, header=True, schema="person BIGINT, cell BIGINT")
    session = Session.from_dataframe(PureDPBudget(1), "rows", rows, protected_change=AddRowsWithID("person"))
    keys = KeySet.from_dataframe(spark.range(cells).withColumnRenamed("id", "cell"))
    query = QueryBuilder("rows").enforce(MaxRowsPerID(1)).groupby(keys).count(name="found")
    assert session.evaluate(query, PureDPBudget(1)).count() == cells
    print(processor_seconds())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
