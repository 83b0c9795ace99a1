# %% [markdown]
# # Web traffic: pages of a site, people who come rarely
#
# A site publishes visits to its sections by the quarter of an hour. Most visitors come once; a promise that knows it
# costs a fraction of the noise.
#
# The log is generated: most clients come once or twice, sections differ in popularity, the afternoon has a peak.

# %%
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import veilstream as vs

draw = np.random.default_rng(7)
sections = ["news", "sport", "weather", "shop"]
visits, steps = 60_000, 96
quarter = np.clip(draw.normal(60, 18, visits).astype(int), 0, steps - 1)
log = pl.DataFrame(
    {
        "client": draw.integers(0, 150_000, visits),
        "quarter": quarter,
        "section": np.array(sections)[draw.choice(4, visits, p=[0.5, 0.25, 0.15, 0.1])],
    }
)

# %% [markdown]
# `presence=2` says that a client counts in at most two quarters of an hour of the day's window; rows beyond are left
# out, and the ledger enforces it. The guarantee is the same: ε = 1 for all that one client did within the day.

# %%
settings: dict[str, Any] = {
    "user": "client",
    "time": "quarter",
    "by": ["section"],
    "domain": {"section": sections},
    "every": 1,
    "start": 0,
    "end": steps,
    "epsilon": 1,
    "window": steps,
    "mechanism": "uniform",
}
usual = vs.publish(log, ledger="usual.db", **settings)
rarely = vs.publish(log, ledger="rarely.db", presence=2, **settings)
exact = log.group_by("quarter", "section").agg(pl.col("client").n_unique().alias("exact"))

# %%
truth = exact.filter(section="news").sort("quarter")
full = np.zeros(steps)
full[truth["quarter"].to_numpy()] = truth["exact"].to_numpy()
figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
for job, color, label in ((usual, "#e65100", "priced for every quarter"), (rarely, "#3f51b5", "presence 2")):
    line = job.to_polars().filter(section="news").sort("step")
    error = np.abs(line["value"].to_numpy() - full).mean()
    print(f"{label}: mean error {error:.0f}")
    axes.plot(line["value"], color=color, linewidth=1, label=f"{label}: mean error {error:.0f}")
axes.plot(full, color="#777777", linewidth=1.6, label="exact (generated data)")
axes.set(xlabel="quarter of an hour", ylabel="clients", title="Section “news”, ε = 1 for the whole day")
axes.legend(frameon=False)
figure.savefig("picture.svg")
