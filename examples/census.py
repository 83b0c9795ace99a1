# %% [markdown]
# # A synthetic census: rows that belong to nobody
#
# A statistics office wants to hand out rows, not tables. A private model of the census is fitted once; rows are drawn
# from it as often as anybody likes.
#
# The census is generated: age, income that rises and falls with age, household size, and whether somebody owns their
# home.

# %%
import matplotlib.pyplot as plt
import numpy as np

from veilstream.data import Categories, Grid
from veilstream.synthesis import TableDomain, fit

draw = np.random.default_rng(11)
people = 30_000
age = np.clip(draw.gamma(4, 11, people), 0, 99.9)
income = np.clip(1_000 * draw.gamma(2 + 6 * np.exp(-(((age - 48) / 18) ** 2)), 5), 0, 119_999)
size = np.clip(draw.poisson(1 + 1.5 * np.exp(-(((age - 38) / 14) ** 2)), people), 1, 6)
owns = draw.random(people) < 1 / (1 + np.exp(-(income / 20_000 + age / 30 - 4)))
census = {"age": age, "income": income, "size": size, "owns": owns}

# %% [markdown]
# The bins are public and stated beforehand. The charge and the model are written to a ledger together; the same call
# again returns the stored model and costs nothing.

# %%
domain = TableDomain(
    {
        "age": Grid(0, 100, 50),
        "income": Grid(0, 120_000, 60),
        "size": Categories(range(1, 7)),
        "owns": Categories([False, True]),
    }
)
model = fit(census, domain, epsilon=1, ledger="census.db", name="census")
rows = model.sample(people, seed=1)
again = fit(census, domain, epsilon=1, ledger="census.db", name="census")
print(f"spent {model.spent}; asked again: the same model, {again.correlation.tolist() == model.correlation.tolist()}")
print(rows.head(5))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained", sharex=True, sharey=True)
for axes, x, y, title in (
    (left, age, income, "census (generated, never published)"),
    (right, rows["age"].to_numpy(), rows["income"].to_numpy(), "rows drawn from the model, ε = 1"),
):
    axes.hist2d(x, y / 1_000, bins=(50, 40), range=((0, 100), (0, 120)), cmap="Blues", vmax=60, rasterized=True)
    axes.set(title=title, xlabel="age")
left.set_ylabel("income, thousands")
for name, real, drawn in (("age", age, rows["age"]), ("income", income, rows["income"])):
    print(f"mean {name}: {real.mean():,.1f} in the census, {drawn.cast(float).mean():,.1f} in drawn rows")
figure.savefig("picture.svg", dpi=80)
