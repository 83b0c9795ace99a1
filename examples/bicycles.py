# %% [markdown]
# # City bicycles: hours of a counter network
#
# A city counts rentals at six stations by the hour, and wants each rider's whole day to stay hidden.
#
# The rows are generated: a rider, a time and a station, with the rush hours of a working week. One rider may rent
# several times a day, so the window is 24 hours, and within an hour one rental counts.

# %%
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import veilstream as vs

draw = np.random.default_rng(2024)
stations = ["bridge", "campus", "harbour", "market", "park", "station"]
rides, days = 75_000, 7
hour_of_day = np.r_[np.full(5, 1), 3, 10, 30, 38, 18, 10, 10, 12, 12, 12, 16, 30, 42, 28, 14, 8, 6, 4, 2]
day = draw.integers(0, days, rides)
hour = draw.choice(24, rides, p=hour_of_day / hour_of_day.sum())
minutes = day * 1440 + hour * 60 + draw.integers(0, 60, rides)
table = pl.DataFrame(
    {
        "rider": draw.integers(0, 20_000, rides),
        "time": np.datetime64("2024-05-06", "us") + minutes.astype("m8[m]"),
        "station": np.array(stations)[np.minimum(draw.geometric(0.35, rides) - 1, 5)],
    }
)

# %% [markdown]
# Two releases of the same rows, on two ledgers: one at every hour with equal shares of the budget, one with models
# of the daily pattern. Both keep the same promise. In production you would choose by public facts
# (`veilstream advise`), not by looking at both.
#
# At ε = 1/4 noise hides most hours, and models help. Set ε = 1 and they do not: the noise of equal shares is then
# small beside the counts, and in one week a model sees every hour of the day seven times only.

# %%
settings: dict[str, Any] = {
    "user": "rider",
    "time": "time",
    "by": ["station"],
    "domain": {"station": stations},
    "every": "1h",
    "start": "2024-05-06",
    "end": "2024-05-13",
    "epsilon": "1/4",
    "window": "24h",
}
plain = vs.publish(table, mechanism="uniform", ledger="plain.db", **settings)
model = vs.publish(table, mechanism="auto", ledger="model.db", **settings)
exact = table.group_by("station", pl.col("time").dt.truncate("1h")).agg(pl.col("rider").n_unique().alias("exact"))

# %%
figure, axes = plt.subplots(2, 1, figsize=(8, 4.4), layout="constrained", sharex=True, sharey=True)
for row, (title, job) in enumerate({"uniform: equal shares": plain, "auto: models of the day": model}.items()):
    line = job.to_polars().filter(station="bridge").sort("step")
    truth = pl.DataFrame(
        {"time": pl.datetime_range(pl.datetime(2024, 5, 6), pl.datetime(2024, 5, 12, 23), "1h", eager=True)}
    )
    truth = truth.with_columns(pl.col("time").cast(pl.Datetime("us"))).join(
        exact.filter(station="bridge").with_columns(pl.col("time").cast(pl.Datetime("us"))), on="time", how="left"
    )
    counts = truth["exact"].fill_null(0).to_numpy()
    error = np.abs(line["value"].to_numpy() - counts).mean()
    print(f"{title}: mean error {error:.1f} of a mean count of {counts.mean():.0f}")
    axes[row].plot(counts, color="#777777", linewidth=1.4, label="exact (generated data)")
    axes[row].plot(line["value"], color="#3f51b5", linewidth=1.0, label="published")
    axes[row].set(ylabel="riders", title=f"{title}, mean error {error:.0f}")
axes[1].set_xlabel("hour")
axes[0].legend(frameon=False, ncols=2)
figure.savefig("picture.svg")
