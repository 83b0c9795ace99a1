# %% [markdown]
# # Spark: events bounded on a cluster
#
# Where events lie in a lake, bounding goes to them. The counts that come back are the ones that a single machine would
# find with the same key, whatever the partitions.
#
# It needs `pip install 'veilstream[spark]'` and Java 17 or newer. The session here is local; on a cluster only the
# session differs.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import veilstream as vs
from veilstream.data import Calendar, Categories, Domain, read_events
from veilstream.data.bounding import bound
from veilstream.spark import local_session, snapshots

draw = np.random.default_rng(9)
events, people = 60_000, 8_000
table = pl.DataFrame(
    {
        "person": draw.integers(0, people, events),
        "step": np.clip(draw.normal(12, 5, events).astype(int), 0, 23),
        "zone": draw.choice(3, events, p=[0.6, 0.3, 0.1]),
    }
)
events_file = Path("events.parquet").resolve()
table.write_parquet(events_file)

# %% [markdown]
# The same rows are counted twice with the same key: by Spark in several partitions, and by this process. Both counts
# are sealed: nobody can read them, but a publisher can feed them. What the two published agrees up to noise.

# %%
domain, steps, key = Domain({"zone": Categories(range(3))}), Calendar(0, 24, 1), os.urandom(32)
guarantee = vs.Guarantee(2, w=24)
spark = local_session(cores=1, settings={"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"})
frame = spark.read.parquet(str(events_file)).repartition(5)
cluster = vs.Publisher(domain, guarantee, vs.Uniform(), "cluster.db", calendar=steps, key=key)
for snapshot in snapshots(frame, domain=domain, calendar=steps, user="person", time="step", key=key):
    cluster.feed(snapshot)
spark.stop()

machine = vs.Publisher(domain, guarantee, vs.Uniform(), "machine.db", calendar=steps, key=key)
with bound(read_events(table, user="person", time="step", by=["zone"]), domain, steps, key=key) as bounded:
    for snapshot in bounded.snapshots():
        machine.feed(snapshot)

# %%
zone = {name: np.array([one.values[0] for one in publisher.ledger.releases("default")])
        for name, publisher in (("Spark, 5 partitions", cluster), ("this machine", machine))}  # fmt: skip
print("mean difference of the two releases:", np.abs(np.subtract(*zone.values())).mean().round(1))
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
for (name, values), color in zip(zone.items(), ("#3f51b5", "#e65100"), strict=True):
    axes.step(range(24), values, where="mid", color=color, label=name)
axes.set(xlabel="step", ylabel="people in zone 0", title="Same key, same sealed counts, noise of each its own")
axes.legend(frameon=False)
figure.savefig("picture.svg")
