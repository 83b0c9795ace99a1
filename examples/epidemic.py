# %% [markdown]
# # Epidemic: weekly counts of three seasons
#
# A health authority publishes influenza-like illness by region and age every week, and promises that what one patient
# did within any four weeks stays hidden.
#
# The counts come with the package: visits for influenza-like illness in ten regions of the United States, reported to
# the CDC (public domain). They are aggregated, so `per_person` is the authority's word: one patient adds at most one
# visit to a week.

# %%
import matplotlib.pyplot as plt
import polars as pl

import veilstream as vs
from veilstream.cli.demo_data import DOMAIN, bundled_data

with bundled_data() as data:
    job = vs.publish(
        data,
        time="week_start",
        value="visits",
        per_person=1,
        domain=DOMAIN,
        every="1w",
        start="2021-10-03",
        end="2024-09-29",
        epsilon="1/10",
        window=4,
        mechanism="model",
        ledger="influenza.db",
    )
    exact = pl.read_csv(data, try_parse_dates=True)
released = job.to_polars()
print(f"{len(job.releases)} weeks of {released.height // len(job.releases)} counts; spent {job.spent} of 1/10")

# %% [markdown]
# `low` and `high` hold the true count at 95 %, because the mechanism `model` speaks of counts. Since these data are
# public, the exact counts may be drawn beside the release; with your own data you would never do that.

# %%
shown = {"region": "Region 10", "age": "65+"}
line = released.filter(**shown)
truth = exact.filter(**shown).sort("week_start")
steps = exact.with_columns(step=(pl.col("week_start").rank("dense") - 1).cast(released["step"].dtype))
both = released.join(steps, on=["step", "region", "age"])
inside = both["visits"].is_between(both["low"], both["high"])
print(f"{inside.sum() / both.height:.1%} of {both.height:,} exact counts lie within their published intervals")

figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
axes.fill_between(
    range(156), line["low"], line["high"], color="#3f51b5", alpha=0.25, linewidth=0, label="95 % interval"
)
axes.plot(line["value"], color="#3f51b5", linewidth=1.2, label="published")
axes.plot(truth["visits"], color="#777777", linewidth=0.9, linestyle="--", label="exact (public data)")
axes.set(
    xlabel="week from October 2021", ylabel="visits", title="Region 10, age 65 and above, ε = 1/10 for any four weeks"
)
axes.legend(frameon=False)
figure.savefig("picture.svg")
